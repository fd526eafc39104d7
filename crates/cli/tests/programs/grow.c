// Grows mappings that the runtime does not manage, including the mapping at the end of the arena.
#define _GNU_SOURCE
#include <sys/mman.h>

#include "check.h"

#define PAGE 4096ul
#define COUNT 32

int main(void) {
	unsigned char *each[COUNT];
	for (int nth = 0; nth < COUNT; nth++) {
		each[nth] = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(each[nth] != MAP_FAILED);
		each[nth][3 * PAGE] = (unsigned char)(nth + 1);
		CHECK(mprotect(each[nth], 4 * PAGE, PROT_READ) == 0);
	}
	// Each mapping is resized from 4 pages to 40, 60 and 2 pages, and then removed.
	for (int nth = 0; nth < COUNT; nth++) {
		size_t now = 4;
		for (size_t next = 40; next <= 60; next += 20) {
			each[nth] = mremap(each[nth], now * PAGE, next * PAGE, MREMAP_MAYMOVE);
			CHECK(each[nth] != MAP_FAILED);
			CHECK(each[nth][3 * PAGE] == nth + 1 && each[nth][(next - 1) * PAGE] == 0);
			now = next;
		}
		CHECK(mremap(each[nth], now * PAGE, 2 * PAGE, 0) == each[nth]);
		CHECK(munmap(each[nth], 2 * PAGE) == 0);
	}
	puts("all is as it has to be");
	return 0;
}
