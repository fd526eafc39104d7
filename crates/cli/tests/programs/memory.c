// A program that checks its own memory. At random, the program maps, moves, protects and drops
// memory, forks, and passes its memory to system calls. The program records the expected contents
// of each page.
//
//   memory SEED STEPS THREADS [fixed]
//
// With "fixed", the program chooses the addresses of mappings. The mappings lie in three areas: a
// reservation, readable and writable memory, and memory that is also executable.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PAGE 4096ul
#define REGIONS 24
#define PAGES_MAX 400ul
#define STRIDE (4ul << 20) // the distance of places: a region may grow to twice its pages
#define AREAS 3

struct region {
	uint8_t *start; // null if no region exists
	int prot;
	size_t pages;
	uint32_t stamp[2 * PAGES_MAX]; // the stamp of each page; 0 means a page of zeros
	uint8_t is_left_out[2 * PAGES_MAX]; // whether a child does not inherit the page
};

struct state {
	uint64_t random;
	uint32_t next_stamp;
	int file, zero, pair[2];
	size_t thread;
	struct region regions[REGIONS];
};

static unsigned long steps, threads;
static uint64_t seed;
static int is_fixed;
static const uintptr_t areas[AREAS] = {0x4200000000, 0x3000000000, 0x1000000000};
static __thread sigjmp_buf jump;
static __thread volatile int is_expected;

static void on_fault(int signal, siginfo_t *info, void *context) {
	(void)signal, (void)info, (void)context;
	if (!is_expected) {
		static const char text[] = "a fault that was not expected\n";
		if (write(2, text, sizeof text - 1)) {
		}
		_exit(99);
	}
	siglongjmp(jump, 1);
}

static uint64_t random_below(struct state *state, uint64_t end) {
	state->random = state->random * 6364136223846793005ull + 1442695040888963407ull;
	return (state->random >> 33) % end;
}

static void stamp_page(uint8_t *page, uint32_t stamp) {
	uint32_t *words = (uint32_t *)page;
	for (size_t at = 0; at < PAGE / 4; at += 37)
		words[at] = stamp + (uint32_t)at;
	words[PAGE / 4 - 1] = stamp;
}

static void verify_page(const uint8_t *page, uint32_t stamp) {
	const uint32_t *words = (const uint32_t *)page;
	for (size_t at = 0; at < PAGE / 4; at += 37)
		CHECK(words[at] == (stamp ? stamp + (uint32_t)at : 0));
	CHECK(words[PAGE / 4 - 1] == stamp);
}

static void verify(struct region *region) {
	for (size_t page = 0; region->start && page < region->pages; page++)
		verify_page(region->start + page * PAGE, region->stamp[page]);
}

static void fill(struct state *state, struct region *region, size_t from, size_t count) {
	for (size_t page = from; page < from + count && page < region->pages; page++) {
		region->stamp[page] = ++state->next_stamp;
		stamp_page(region->start + page * PAGE, region->stamp[page]);
	}
}

// Returns whether touching the memory raises a signal.
static int faults(volatile uint8_t *at, int is_write) {
	int did = 1;
	is_expected = 1;
	if (sigsetjmp(jump, 1) == 0) {
		if (is_write)
			*at = *at;
		else
			(void)*at;
		did = 0;
	}
	is_expected = 0;
	return did;
}

static void leave_out(struct region *region, size_t from, size_t count, int is_left_out) {
	int advice = is_left_out ? MADV_DONTFORK : MADV_DOFORK;
	CHECK(madvise(region->start + from * PAGE, count * PAGE, advice) == 0);
	memset(region->is_left_out + from, is_left_out, count);
}

static int prot_of(size_t area) {
	return area == 2 ? PROT_READ | PROT_WRITE | PROT_EXEC : PROT_READ | PROT_WRITE;
}

static void map_areas(void) {
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *start = mmap((void *)areas[0], 1ul << 40, PROT_NONE, flags, -1, 0);
	CHECK(start == (void *)areas[0]);
	for (size_t area = 1; area < AREAS; area++) {
		int how = area == 1 ? MAP_FIXED : 0;
		start = mmap((void *)areas[area], 1ul << 29, prot_of(area), flags | how, -1, 0);
		CHECK(start == (void *)areas[area]);
	}
}

static void unmap_areas(void) {
	// Unmaps two areas, and all memory between them, by one call.
	CHECK(munmap((void *)areas[1], areas[0] + (1ul << 40) - areas[1]) == 0);
	CHECK(mprotect((void *)areas[1], PAGE, PROT_READ) == -1 && errno == ENOMEM);
	CHECK(faults((uint8_t *)areas[0], 0) && !faults((uint8_t *)areas[2] + (511ul << 20), 1));
	CHECK(munmap((void *)areas[2], 1ul << 29) == 0);
	unsigned char is_there;
	CHECK(mincore((void *)areas[2], PAGE, &is_there) == -1 && errno == ENOMEM);
}

static void map(struct state *state, struct region *region) {
	int is_reserved = random_below(state, 4) == 0;
	size_t nth = (size_t)(region - state->regions), area = nth % AREAS;
	void *place = NULL;
	int how = 0;
	region->prot = is_fixed ? prot_of(area) : PROT_READ | PROT_WRITE;
	if (is_fixed) {
		place = (void *)(areas[area] + (state->thread * REGIONS + nth) / AREAS * STRIDE);
		how = MAP_FIXED;
	}
	region->pages = 1 + random_below(state, random_below(state, 4) ? 40 : PAGES_MAX);
	region->start = mmap(place, region->pages * PAGE, is_reserved ? PROT_NONE : region->prot,
						 MAP_PRIVATE | MAP_ANONYMOUS | how, -1, 0);
	CHECK(region->start != MAP_FAILED);
	memset(region->stamp, 0, sizeof region->stamp);
	memset(region->is_left_out, 0, sizeof region->is_left_out);
	if (is_reserved) {
		CHECK(faults(region->start, 0));
		leave_out(region, 0, region->pages, random_below(state, 2) == 0);
		CHECK(mprotect(region->start, region->pages * PAGE, region->prot) == 0);
	}
	fill(state, region, 0, region->pages / 2 + 1);
}

static void unmap(struct state *state, struct region *region) {
	size_t keep = random_below(state, 2) ? 0 : random_below(state, region->pages);
	uint8_t *gone = region->start + keep * PAGE;
	CHECK(munmap(gone, (region->pages - keep) * PAGE) == 0);
	errno = 0;
	// With several threads, another thread may have mapped memory at this address.
	CHECK(threads > 1 || (write(state->pair[0], gone, 1) == -1 && errno == EFAULT));
	region->pages = keep;
	if (keep == 0)
		region->start = NULL;
}

static void drop(struct state *state, struct region *region) {
	size_t from = random_below(state, region->pages);
	size_t count = 1 + random_below(state, region->pages - from);
	CHECK(madvise(region->start + from * PAGE, count * PAGE, MADV_DONTNEED) == 0);
	memset(region->stamp + from, 0, count * sizeof *region->stamp);
}

static void protect(struct state *state, struct region *region) {
	size_t from = random_below(state, region->pages);
	size_t count = 1 + random_below(state, region->pages - from);
	uint8_t *start = region->start + from * PAGE;
	int prot = random_below(state, 2) ? PROT_READ : PROT_NONE;
	CHECK(mprotect(start, count * PAGE, prot) == 0);
	CHECK(faults(start + (count - 1) * PAGE + 5, 1));
	CHECK(faults(start, 0) == (prot == PROT_NONE));
	errno = 0;
	CHECK(read(state->zero, start, 1) == -1 && errno == EFAULT);
	if (prot == PROT_READ)
		verify(region);
	CHECK(mprotect(start, count * PAGE, region->prot) == 0);
}

static void move(struct state *state, struct region *region) {
	// In one of four cases, the number of pages does not change. The kernel then moves the memory
	// only with MREMAP_FIXED.
	size_t pages = random_below(state, 4) ? 1 + random_below(state, PAGES_MAX) : region->pages;
	uint8_t *to = NULL;
	int flags = MREMAP_MAYMOVE;
	// Applies one setting to the whole region. The kernel does not move a region if children inherit
	// only part of it.
	leave_out(region, 0, region->pages, region->is_left_out[0]);
	if (random_below(state, 4) == 0) {
		to = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(to != MAP_FAILED);
		to[3] = 7;
		flags |= MREMAP_FIXED;
	}
	uint8_t *now = mremap(region->start, region->pages * PAGE, pages * PAGE, flags, to);
	if (now == MAP_FAILED && errno == EFAULT) {
		// The call fails if the region consists of several of the kernel's mappings.
		if (to)
			CHECK(munmap(to, pages * PAGE) == 0);
		return;
	}
	CHECK(now != MAP_FAILED && (!to || now == to));
	for (size_t page = region->pages; page < pages; page++) {
		region->stamp[page] = 0;
		region->is_left_out[page] = region->is_left_out[0];
	}
	region->start = now;
	region->pages = pages;
}

// Writes pages to a file, and reads them into another region.
static void by_file(struct state *state, struct region *region) {
	size_t from = random_below(state, region->pages);
	size_t count = region->pages - from;
	struct region *other = &state->regions[random_below(state, REGIONS)];
	CHECK(pwrite(state->file, region->start + from * PAGE, count * PAGE, 0) == (ssize_t)(count * PAGE));
	if (!other->start || other == region)
		return;
	if (count > other->pages)
		count = other->pages;
	if (random_below(state, 2)) {
		CHECK(pread(state->file, other->start, count * PAGE, 0) == (ssize_t)(count * PAGE));
	} else {
		struct iovec parts[3] = {{other->start, PAGE / 2},
								 {other->start + PAGE / 2, count * PAGE - PAGE},
								 {other->start + count * PAGE - PAGE / 2, PAGE / 2}};
		CHECK(preadv(state->file, parts, 3, 0) == (ssize_t)(count * PAGE));
	}
	memcpy(other->stamp, region->stamp + from, count * sizeof *other->stamp);
}

// Sends pages as a datagram, and receives the datagram in another region. A datagram that can't be
// stored is lost.
static void by_datagram(struct state *state, struct region *region) {
	struct region *other = &state->regions[random_below(state, REGIONS)];
	size_t from = random_below(state, region->pages);
	if (!other->start || other == region)
		return;
	size_t to = random_below(state, other->pages);
	struct iovec out = {region->start + from * PAGE, PAGE}, in = {other->start + to * PAGE, PAGE};
	struct msghdr sent = {.msg_iov = &out, .msg_iovlen = 1};
	struct msghdr received = {.msg_iov = &in, .msg_iovlen = 1};
	if (random_below(state, 2)) {
		CHECK(sendmsg(state->pair[0], &sent, 0) == PAGE);
		CHECK(recvmsg(state->pair[1], &received, 0) == PAGE);
	} else {
		CHECK(send(state->pair[0], out.iov_base, PAGE, 0) == PAGE);
		CHECK(recv(state->pair[1], in.iov_base, PAGE, 0) == PAGE);
	}
	other->stamp[to] = region->stamp[from];
}

// Maps a file over some pages, and then anonymous memory over the same pages.
static void map_over(struct state *state, struct region *region) {
	size_t from = random_below(state, region->pages);
	size_t count = 1 + random_below(state, region->pages - from);
	uint8_t *start = region->start + from * PAGE;
	CHECK(pwrite(state->file, start, count * PAGE, 0) == (ssize_t)(count * PAGE));
	int flags = (random_below(state, 2) ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED;
	CHECK(mmap(start, count * PAGE, PROT_READ | PROT_WRITE, flags, state->file, 0) == start);
	verify(region);
	flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	CHECK(mmap(start, count * PAGE, region->prot, flags, -1, 0) == start);
	memset(region->stamp + from, 0, count * sizeof *region->stamp);
	memset(region->is_left_out + from, 0, count);
}

// In a child, checks the contents of all regions. Pages that children do not inherit are not
// checked, because other memory can lie at their addresses.
static void verify_child(struct state *state) {
	for (struct region *region = state->regions; region < state->regions + REGIONS; region++) {
		for (size_t page = 0; region->start && page < region->pages; page++) {
			uint8_t *start = region->start + page * PAGE;
			if (!region->is_left_out[page])
				verify_page(start, region->stamp[page]);
			else if (!faults(start, 0))
				CHECK(!region->stamp[page] || *(uint32_t *)start != region->stamp[page]);
		}
	}
}

// In a child, maps new memory at the addresses of pages that the child did not inherit, if these
// addresses are free.
static void close_holes(struct region *region) {
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	for (size_t page = 0; page < region->pages; page++) {
		uint8_t *start = region->start + page * PAGE;
		if (!region->is_left_out[page])
			continue;
		uint8_t *now = mmap(start, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
		CHECK(now == start || (now == MAP_FAILED && errno == EEXIST));
		if (now == start)
			region->stamp[page] = region->is_left_out[page] = 0;
	}
}

static void forks(struct state *state, struct region *region) {
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		verify_child(state);
		close_holes(region);
		verify_child(state);
		for (size_t page = 0; page < region->pages; page++)
			if (!region->is_left_out[page])
				fill(state, region, page, 1);
		verify_child(state);
		if (random_below(state, 2)) {
			pid_t grandchild = fork();
			CHECK(grandchild >= 0);
			if (grandchild == 0) {
				// The grandchild lacks the same pages as its parent.
				verify_child(state);
				_exit(0);
			}
			int status;
			CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
		}
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(status == 0);
	verify(region);
}

static void locks(struct state *state, struct region *region) {
	size_t pages = region->pages < 8 ? region->pages : 8;
	if (mlock(region->start, pages * PAGE) == 0) {
		verify(region);
		CHECK(munlock(region->start, pages * PAGE) == 0);
	}
	CHECK(madvise(region->start, region->pages * PAGE,
				  random_below(state, 2) ? MADV_WILLNEED : MADV_HUGEPAGE) == 0 || errno == EINVAL);
}

static void left_out(struct state *state, struct region *region) {
	size_t from = random_below(state, region->pages);
	size_t count = 1 + random_below(state, region->pages - from);
	leave_out(region, from, count, random_below(state, 2) == 0);
}

static void step(struct state *state) {
	struct region *region = &state->regions[random_below(state, REGIONS)];
	if (!region->start) {
		map(state, region);
		return;
	}
	switch (random_below(state, 25)) {
	case 0: unmap(state, region); break;
	case 1: drop(state, region); break;
	case 2: protect(state, region); break;
	case 3: move(state, region); break;
	case 4: by_file(state, region); break;
	case 5: case 6: by_datagram(state, region); break;
	case 7: map_over(state, region); break;
	case 8: if (random_below(state, 12) == 0) forks(state, region); break;
	case 9: if (random_below(state, 4) == 0) locks(state, region); break;
	case 10: case 11: case 12: case 13: case 14: case 15:
		fill(state, region, random_below(state, region->pages), PAGES_MAX);
		break;
	case 16: left_out(state, region); break;
	default: verify(region); break;
	}
}

static void *run(void *nth) {
	struct state *state = calloc(1, sizeof *state);
	CHECK(state);
	state->thread = (uintptr_t)nth;
	state->random = seed * 31 + (uintptr_t)nth;
	state->next_stamp = (uint32_t)(uintptr_t)nth << 26;
	char path[] = "/tmp/memory-XXXXXX";
	state->file = mkstemp(path);
	CHECK(state->file >= 0 && unlink(path) == 0);
	state->zero = open("/dev/zero", O_RDONLY);
	CHECK(state->zero >= 0);
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, state->pair) == 0);
	for (unsigned long count = 0; count < steps; count++)
		step(state);
	for (int at = 0; at < REGIONS; at++) {
		verify(&state->regions[at]);
		if (state->regions[at].start)
			CHECK(munmap(state->regions[at].start, state->regions[at].pages * PAGE) == 0);
	}
	close(state->file), close(state->zero), close(state->pair[0]), close(state->pair[1]);
	free(state);
	return NULL;
}

// Checks that memory below the program break holds zeros after it was released and allocated again.
static void breaks(void) {
	for (int round = 0; round < 20; round++) {
		size_t bytes = (size_t)(round % 5 + 1) * 700001;
		uint8_t *start = sbrk((intptr_t)bytes);
		CHECK(start != (void *)-1 && sbrk(0) == start + bytes);
		for (size_t at = 0; at < bytes; at += 997) {
			CHECK(start[at] == 0);
			start[at] = (uint8_t)(at + 1);
		}
		for (size_t at = 0; at < bytes; at += 997)
			CHECK(start[at] == (uint8_t)(at + 1));
		memset(start, 0, PAGE);
		CHECK(sbrk(-(intptr_t)bytes) == start + bytes && sbrk(0) == start);
	}
}

// Checks that a child does not inherit memory with MADV_DONTFORK, and that the child can map new
// memory at its addresses.
static void child_lacks(void) {
	struct state state = {.next_stamp = 77};
	struct region *region = state.regions;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	region->pages = 64;
	region->start = mmap(NULL, 64 * PAGE, PROT_NONE, flags, -1, 0);
	CHECK(region->start != MAP_FAILED);
	leave_out(region, 5, 40, 1);
	CHECK(mprotect(region->start, 64 * PAGE, PROT_READ | PROT_WRITE) == 0);
	fill(&state, region, 0, 64);
	leave_out(region, 20, 3, 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (size_t page = 0; page < 64; page++)
			CHECK(faults(region->start + page * PAGE, 1) == region->is_left_out[page]);
		verify_child(&state);
		close_holes(region);
		verify(region);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	verify(region);
	CHECK(munmap(region->start, 64 * PAGE) == 0);
}

int main(int count, char **args) {
	CHECK(count == 4 || count == 5);
	is_fixed = count == 5;
	seed = strtoull(args[1], NULL, 10);
	steps = strtoul(args[2], NULL, 10);
	threads = strtoul(args[3], NULL, 10);
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	breaks();
	child_lacks();
	if (is_fixed)
		map_areas();
	pthread_t ids[16];
	for (unsigned long nth = 1; nth < threads; nth++)
		CHECK(pthread_create(&ids[nth], NULL, run, (void *)nth) == 0);
	run(NULL);
	for (unsigned long nth = 1; nth < threads; nth++)
		CHECK(pthread_join(ids[nth], NULL) == 0);
	if (is_fixed)
		unmap_areas();
	puts("all is as it has to be");
	return 0;
}
