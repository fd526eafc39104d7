// Calls that ask whether there is memory, as unwinders and crash reporters do.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#define PAGE 4096ul
#define PAGES 64ul
#ifndef SYS_mseal
#define SYS_mseal 462
#endif

static unsigned char states[PAGES];

static void probe(const char *what, char *start, size_t pages) {
	int in_core = mincore(start, pages * PAGE, states) == 0 ? 0 : errno;
	int synced = msync(start, pages * PAGE, MS_ASYNC) == 0 ? 0 : errno;
	int unlocked = munlock(start, pages * PAGE) == 0 ? 0 : errno;
	printf("%s: mincore %d, msync %d, munlock %d\n", what, in_core, synced, unlocked);
}

static void sealed(char *start) {
	if (syscall(SYS_mseal, start, 8 * PAGE, 0) != 0) {
		// Older kernels.
		printf("not sealed\n");
		return;
	}
	int unmapped = munmap(start, 4 * PAGE) == 0 ? 0 : errno;
	int protected = mprotect(start + PAGE, PAGE, PROT_READ) == 0 ? 0 : errno;
	void *replaced = mmap(start, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	printf("sealed: munmap %d, mprotect %d, mmap %d, %d\n", unmapped, protected,
	       replaced == MAP_FAILED ? errno : 0, start[5 * PAGE]);
}

int main(void) {
	char *start = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(start != MAP_FAILED);
	memset(start, 7, PAGES * PAGE);
	probe("mapped", start, PAGES);
	CHECK(munmap(start + 16 * PAGE, 16 * PAGE) == 0);
	probe("before the hole", start, 16);
	probe("around the hole", start, PAGES);
	probe("the hole", start + 16 * PAGE, 16);
	probe("no page", start + 1, 1);
	CHECK(syscall(SYS_mincore, start, PAGE, 8) == -1 && errno == EFAULT);
	sealed(start + 40 * PAGE);
	return 0;
}
