// Evicts memory that belongs to waiting threads. The memory consists of the table by which the C
// library finds thread-local storage, and of a stack that the program provides. The table lies in
// the heap. Thread-local storage lies at the end of the stack.
//
//   locals
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 4
#define STACK (256ul << 10)
#define BYTES (24ul << 20)
#define PAGE 4096ul

static int go[2];
static uint8_t *memory;
static __thread int own = 7;
// Separates the storage of libraries from the pages that hold the thread's descriptor.
static __thread volatile char much[3 * PAGE];

static void *map(size_t bytes) {
	void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED)
		abort();
	return start;
}

static void *wait_and_touch(void *argument) {
	size_t nth = (size_t)argument;
	uint8_t byte;
	own += (int)nth;
	much[0]++;
	if (read(go[0], &byte, 1) != 1)
		abort();
	for (size_t at = nth * PAGE; at < BYTES; at += THREADS * PAGE)
		if (memory[at] != (uint8_t)(at / PAGE + 1))
			abort();
	return (void *)(size_t)own;
}

// Allocates a block that is so large that no thread touches memory beside the block. The first
// blocks fill the 2 MiB at the start of the heap, which the runtime does not manage.
static void *apart(void) {
	return malloc(300 << 10);
}

int main(void) {
	memory = map(BYTES);
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	for (int nth = 0; nth < 8; nth++)
		apart();
	if (pipe(go))
		abort();
	for (int has_stack = 0; has_stack < 2; has_stack++) {
		pthread_t threads[THREADS];
		void *kept[2 * THREADS];
		for (size_t nth = 0; nth < THREADS; nth++) {
			pthread_attr_t attributes;
			pthread_attr_init(&attributes);
			if (has_stack)
				pthread_attr_setstack(&attributes, map(STACK), STACK);
			kept[2 * nth] = apart();
			if (pthread_create(&threads[nth], &attributes, wait_and_touch, (void *)nth))
				abort();
			kept[2 * nth + 1] = apart();
			pthread_attr_destroy(&attributes);
		}
		for (int round = 0; round < 3; round++)
			for (size_t at = 0; at < BYTES; at += PAGE)
				memory[at] = (uint8_t)(at / PAGE + 1);
		if (write(go[1], "gogo", THREADS) != THREADS)
			abort();
		for (size_t nth = 0; nth < THREADS; nth++) {
			void *result;
			if (pthread_join(threads[nth], &result) || (size_t)result != 7 + nth)
				abort();
			free(kept[2 * nth]);
			free(kept[2 * nth + 1]);
		}
	}
	puts("all is as it has to be");
	return 0;
}
