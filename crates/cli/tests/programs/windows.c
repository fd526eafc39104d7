// Prints the results of calls whose ranges overlap several areas of memory, or end outside these
// areas. The program chooses the addresses of the areas.
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

#define MIB (1ul << 20)
#define AREA ((uint8_t *)0x3000000000)
#define FAR ((uint8_t *)0x5000000000)
#define CODE ((uint8_t *)0x1800000000)
#define RW (PROT_READ | PROT_WRITE)
#define RWX (PROT_READ | PROT_WRITE | PROT_EXEC)
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

// Prints the result of a call: an error, or the returned address.
static void show(const char *what, intptr_t result) {
	uintptr_t at = (uintptr_t)result;
	if (result == -1)
		printf("%s: errno %d\n", what, errno);
	else if (at >= (uintptr_t)AREA && at < (uintptr_t)FAR + 512 * MIB)
		printf("%s: %s + %lu KiB\n", what, at < (uintptr_t)FAR ? "area" : "far",
			   (at - (uintptr_t)(at < (uintptr_t)FAR ? AREA : FAR)) >> 10);
	else
		printf("%s: %s\n", what, result ? "elsewhere" : "done");
}
#define SHOW(call) show(#call, (intptr_t)(call))

static uint8_t *map(uint8_t *at, size_t mib, int prot, int how) {
	uint8_t *start = mmap(at, mib * MIB, prot, ANONYMOUS | how, -1, 0);
	CHECK(start == at);
	return start;
}

static void fill(uint8_t *start, size_t bytes) {
	for (size_t at = 0; at < bytes; at += 64)
		start[at] = (uint8_t)((uintptr_t)(start + at) >> 12 | 1);
}

// Returns the number of pages in a range that still hold the values that `fill` wrote at `from`.
static size_t kept(const uint8_t *start, const uint8_t *from, size_t bytes) {
	size_t count = 0;
	for (size_t at = 0; at < bytes; at += 4096)
		count += start[at] == (uint8_t)((uintptr_t)(from + at) >> 12 | 1);
	return count;
}

int main(void) {
	unsigned char pages[4096];
	setvbuf(stdout, NULL, _IOLBF, 0);
	// The calls below use two adjacent areas, a hole after them, and a third area.
	map(AREA, 4, RW, MAP_FIXED);
	map(AREA + 4 * MIB, 4, RW, MAP_FIXED);
	map(AREA + 12 * MIB, 4, RW, MAP_FIXED);
	fill(AREA, 8 * MIB), fill(AREA + 12 * MIB, 4 * MIB);
	SHOW(mincore(AREA, 8 * MIB, pages));
	SHOW(mincore(AREA + 4 * MIB, 12 * MIB, pages));
	SHOW(msync(AREA, 16 * MIB, MS_ASYNC));
	SHOW(mprotect(AREA + 6 * MIB, 8 * MIB, PROT_READ));
	SHOW(mprotect(AREA + 6 * MIB, 2 * MIB, RW));
	SHOW(mlock(AREA + MIB + 100, 5000));
	SHOW(munlock(AREA + MIB + 100, 5000));
	SHOW(madvise(AREA + 2 * MIB, 12 * MIB, MADV_DONTNEED));
	printf("%zu %zu %zu pages are kept\n", kept(AREA, AREA, 4 * MIB), kept(AREA + 4 * MIB, AREA + 4 * MIB, 4 * MIB),
		   kept(AREA + 12 * MIB, AREA + 12 * MIB, 4 * MIB));
	SHOW(mprotect(AREA, 4096, 0x1000));
	SHOW(mmap(AREA + 7 * MIB, 2 * MIB, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	SHOW(munmap(AREA + 3 * MIB, 10 * MIB));
	SHOW(mmap(AREA + 3 * MIB, 10 * MIB, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	fill(AREA + 3 * MIB, 10 * MIB);
	printf("%zu pages are kept\n", kept(AREA + 3 * MIB, AREA + 3 * MIB, 10 * MIB));
	SHOW(munmap(AREA, 16 * MIB));
	// Moves and enlarges mappings, within the area and beyond the end of the area.
	map(AREA, 4, RW, MAP_FIXED);
	fill(AREA, 4 * MIB);
	SHOW(mremap(AREA, 4 * MIB, 4 * MIB, MREMAP_FIXED, FAR));
	SHOW(mremap(AREA, 4 * MIB, 0, MREMAP_MAYMOVE));
	SHOW(mremap(AREA + 1, 4 * MIB, MIB, MREMAP_MAYMOVE));
	SHOW(mremap(AREA, 4 * MIB, 8 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, FAR + 64 * MIB));
	printf("%zu pages are kept\n", kept(FAR + 64 * MIB, AREA, 4 * MIB));
	SHOW(mremap(FAR + 64 * MIB, 8 * MIB, 3 * MIB, 0));
	SHOW(mincore(FAR + 67 * MIB, MIB, pages));
	SHOW(munmap(FAR + 64 * MIB, 3 * MIB));
	// If blocks are large, this mapping begins and ends within blocks.
	uint8_t *odd = mmap(AREA + 4096, 4 * MIB, RW, ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(odd == AREA + 4096);
	fill(odd, 4 * MIB);
	odd = mremap(odd, 4 * MIB, 5 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, FAR + 4096);
	CHECK(odd == FAR + 4096);
	printf("%zu pages are kept\n", kept(odd, AREA + 4096, 4 * MIB));
	SHOW(munmap(odd, 5 * MIB));
	// Enlarges a reservation into the free addresses after its end.
	map(AREA, 4, PROT_NONE, MAP_FIXED | MAP_NORESERVE);
	SHOW(mremap(AREA, 2 * MIB, 3 * MIB, 0));
	SHOW(munmap(AREA + 2 * MIB, 2 * MIB));
	SHOW(mremap(AREA, 2 * MIB, 3 * MIB, 0));
	SHOW(munmap(AREA, 4 * MIB));
	// Writes a function to executable memory.
	map(CODE, 4, RWX, 0);
	fill(CODE, 4 * MIB);
	// lea eax, [rdi + 7]; ret
	memcpy(CODE + MIB, "\x8d\x47\x07\xc3", 4);
	printf("%d\n", ((int (*)(int))(uintptr_t)(CODE + MIB))(5));
	uint8_t *moved = mremap(CODE, 4 * MIB, 6 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, FAR);
	CHECK(moved == FAR);
	printf("%zu pages are kept, %d\n", kept(moved + 2 * MIB, CODE + 2 * MIB, 2 * MIB),
		   ((int (*)(int))(uintptr_t)(moved + MIB))(6));
	SHOW(mprotect(moved, MIB, RW));
	SHOW(munmap(moved, 6 * MIB));
	return 0;
}
