// Threads touch memory while another thread replaces the memory by mappings at the same addresses.
// The memory is always readable and writable, so no touch raises a signal.
//
//   replaced ROUNDS
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

#define BYTES (4ul << 20)
#define PLACES 8
#define THREADS 2

static volatile uint8_t *places[PLACES];
static volatile int is_done;

static volatile uint8_t *replace(void *place, int how) {
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | how;
	void *start = mmap(place, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
	CHECK(start != MAP_FAILED && (!how || start == place));
	return start;
}

static void *touch(void *nth) {
	for (uint64_t at = (uintptr_t)nth; !is_done; at = at * 6364136223846793005 + 1442695040888963407) {
		volatile uint8_t *byte = places[(at >> 33) % PLACES] + (at >> 36) % BYTES;
		*byte = *byte + 1;
	}
	return NULL;
}

int main(int count, char **args) {
	CHECK(count == 2);
	for (size_t nth = 0; nth < PLACES; nth++)
		places[nth] = nth % 2 ? replace(NULL, 0) : replace((void *)(0x3000000000 + nth * 2 * BYTES), MAP_FIXED);
	pthread_t ids[THREADS];
	for (size_t nth = 0; nth < THREADS; nth++)
		CHECK(pthread_create(&ids[nth], NULL, touch, (void *)(nth + 1)) == 0);
	for (long round = strtol(args[1], NULL, 10); round > 0; round--)
		replace((void *)places[round % PLACES], MAP_FIXED);
	is_done = 1;
	for (size_t nth = 0; nth < THREADS; nth++)
		CHECK(pthread_join(ids[nth], NULL) == 0);
	puts("no touch raised a signal");
	return 0;
}
