// Programs that consist of several processes. The processes check their own memory.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define WORDS (4096 / sizeof(uint64_t))

// The number of words in the shared file before the rows with the processes' statistics.
#define SLOTS_END (16 + 16 * 510)

static size_t pages;

// Returns a word of a page's contents. In each page, an eighth of the words are random.
static uint64_t word(size_t page, size_t nth) {
	uint64_t mixed = (page * WORDS + nth + 1) * 0x9e3779b97f4a7c15;
	return nth % 8 ? page * 64 + nth / 16 : mixed ^ mixed >> 29;
}

// Fills memory with data that differ in each round.
static void fill(uint64_t *memory, size_t round) {
	for (size_t page = 0; page < pages; page++)
		for (size_t nth = 0; nth < WORDS; nth++)
			memory[page * WORDS + nth] = word(round * pages + page, nth);
}

static uint64_t *filled(const char *mib) {
	pages = strtoul(mib, 0, 10) << 8;
	uint64_t *memory = malloc(pages * 4096);
	CHECK(memory);
	fill(memory, 0);
	return memory;
}

static void check_round(const uint64_t *memory, size_t round) {
	for (size_t page = 0; page < pages; page++)
		for (size_t nth = 0; nth < WORDS; nth++)
			CHECK(memory[page * WORDS + nth] == word(round * pages + page, nth));
}

static void check(const uint64_t *memory) {
	check_round(memory, 0);
}

static void hold(const char *mib, int rounds) {
	uint64_t *memory = filled(mib);
	while (rounds-- > 0)
		check(memory);
}

// Returns the descriptor of the file that the processes share.
static int shared(void) {
	const char *name = "/memfd:uzram-run";
	for (int number = 0; number < 1024; number++) {
		char link[32], to[64] = "";
		snprintf(link, sizeof link, "/proc/self/fd/%d", number);
		if (readlink(link, to, sizeof to - 1) > 0 && strncmp(to, name, strlen(name)) == 0)
			return number;
	}
	CHECK(0);
	return -1;
}

// Returns the number of processes in the tree.
static int processes(void) {
	struct stat facts;
	CHECK(fstat(shared(), &facts) == 0);
	uint64_t *words = mmap(0, facts.st_size, PROT_READ, MAP_SHARED, shared(), 0);
	CHECK(words != MAP_FAILED);
	int count = 0;
	for (off_t nth = 16; nth < SLOTS_END; nth += 16)
		count += words[nth] != 0;
	munmap(words, facts.st_size);
	return count;
}

static void close_all(void) {
	int keep = shared();
	CHECK(close(keep) == -1 && errno == EBADF);
	CHECK(dup2(0, keep) == -1 && errno == EBADF);
	CHECK(dup3(0, keep, O_CLOEXEC) == -1 && errno == EBADF);
	fcntl(keep, F_SETFD, FD_CLOEXEC);
	ioctl(keep, FIOCLEX);
	CHECK(fcntl(keep, F_GETFD) == 0);
	CHECK(dup2(0, 5) == 5 && dup2(0, keep + 1) == keep + 1);
	CHECK(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0);
	CHECK(fcntl(5, F_GETFD) == FD_CLOEXEC && fcntl(keep + 1, F_GETFD) == FD_CLOEXEC);
	CHECK(fcntl(keep, F_GETFD) == 0);
	CHECK(close_range(3, ~0u, 0) == 0);
	CHECK(fcntl(5, F_GETFD) == -1 && fcntl(keep + 1, F_GETFD) == -1);
	CHECK(close_range(keep, keep, 0) == 0 && close_range(keep, ~0u, 0) == 0);
	CHECK(close_range(3, keep, 0) == 0 && close_range(9, 3, 0) == -1);
	for (int number = 3; number < 1100; number++)
		close(number);
	CHECK(fcntl(keep, F_GETFD) == 0);
}

// Writes to pages of this program's file until the process has more than 16 MiB of private copies.
// No eviction frees these copies.
static void copy_program(void) {
	int file = open("/proc/self/exe", O_RDONLY);
	struct stat facts;
	CHECK(file >= 0 && fstat(file, &facts) == 0);
	for (off_t copied = 0; copied < 16 << 20; copied += facts.st_size) {
		char *copy = mmap(0, facts.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
		CHECK(copy != MAP_FAILED);
		for (off_t at = 0; at < facts.st_size; at += 4096)
			copy[at] = 1;
	}
	close(file);
}

static void until_orphaned(pid_t parent) {
	while (getppid() == parent)
		usleep(1000);
}

static void wait_for(pid_t child, int expected) {
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == expected);
}

// Holds memory without calls or faults while a child holds more memory. So this process evicts
// nothing.
static void exceed(const char *mib) {
	uint64_t *memory = filled(mib);
	volatile char *is_over = mmap(0, 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(is_over != MAP_FAILED);
	pid_t child = fork();
	if (child == 0) {
		copy_program();
		hold("4", 1);
		*is_over = 1;
		_exit(0);
	}
	while (!*is_over)
		;
	wait_for(child, 0);
	check(memory);
}

static pid_t start(char *program, const char *mode, const char *mib) {
	pid_t child = fork();
	if (child == 0) {
		execl(program, program, mode, mib, NULL);
		_exit(99);
	}
	return child;
}

int main(int count, char **args) {
	char *program = args[0], *mode = args[1], *mib = count > 2 ? args[2] : "0";
	if (!strcmp(mode, "hold")) {
		hold(mib, 2);
	} else if (!strcmp(mode, "rounds")) {
		hold(mib, 12);
	} else if (!strcmp(mode, "close")) {
		close_all();
		hold(mib, 1);
		execl(program, program, "hold", mib, NULL);
	} else if (!strcmp(mode, "orphan")) {
		pid_t parent = getpid();
		if (fork() == 0) {
			until_orphaned(parent);
			hold(mib, 1);
			execl(program, program, "hold", mib, NULL);
		}
	} else if (!strcmp(mode, "daemon")) {
		if (fork())
			_exit(0);
		setsid();
		pid_t parent = getpid();
		if (fork())
			_exit(0);
		until_orphaned(parent);
		close_all();
		CHECK(open("/dev/null", O_RDWR) == 3);
		hold(mib, 1);
		execl(program, program, "hold", mib, NULL);
	} else if (!strcmp(mode, "three")) {
		pid_t children[3];
		for (int nth = 0; nth < 3; nth++)
			children[nth] = start(program, "rounds", mib);
		for (int nth = 0; nth < 3; nth++)
			wait_for(children[nth], 0);
	} else if (!strcmp(mode, "exceed")) {
		exceed(mib);
	} else if (!strcmp(mode, "idle")) {
		uint64_t *memory = filled(mib);
		wait_for(start(program, "rounds", mib), 0);
		check(memory);
	} else if (!strcmp(mode, "kill")) {
		int ends[2];
		char ready;
		CHECK(pipe(ends) == 0);
		pid_t child = fork();
		if (child == 0) {
			uint64_t *memory = filled(mib);
			CHECK(write(ends[1], "", 1) == 1);
			pause();
			check(memory);
		}
		CHECK(read(ends[0], &ready, 1) == 1);
		CHECK(processes() == 2);
		kill(child, SIGKILL);
		siginfo_t facts;
		// The killed process exists without memory until its parent waits for it.
		CHECK(waitid(P_PID, child, &facts, WEXITED | WNOWAIT) == 0);
		hold(mib, 1);
		CHECK(processes() == 1);
		wait_for(child, SIGKILL);
	} else if (!strcmp(mode, "exec")) {
		CHECK(processes() == 1);
		int left = atoi(mib);
		if (left > 0) {
			char text[16];
			snprintf(text, sizeof text, "%d", left - 1);
			execl("/no/such/program", "x", NULL);
			CHECK(processes() == 1);
			execl(program, program, "exec", text, NULL);
		}
	} else if (!strcmp(mode, "leave")) {
		hold(mib, 2);
		execl("/no/such/program", "x", NULL);
		execl(program, program, "left", NULL);
	} else if (!strcmp(mode, "left")) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		wait_for(child, 0);
	} else if (!strcmp(mode, "children")) {
		for (int nth = 0; nth < 20; nth++) {
			wait_for(start(program, "hold", "1"), 0);
			CHECK(processes() == 1);
		}
	} else if (!strcmp(mode, "share")) {
		uint64_t *memory = filled(mib);
		int ends[2];
		char end;
		CHECK(pipe(ends) == 0);
		pid_t children[2];
		for (int nth = 0; nth < 2; nth++) {
			children[nth] = fork();
			if (children[nth] == 0) {
				close(ends[1]);
				CHECK(read(ends[0], &end, 1) == 0);
				// The processes end one after the other. The last process then owns the memory alone.
				usleep(nth * 100000);
				if (nth == 1)
					check(memory);
				_exit(0);
			}
		}
		for (size_t page = 0; page < pages; page += 64)
			CHECK(memory[page * WORDS] == word(page, 0));
		close(ends[1]);
		for (int nth = 0; nth < 2; nth++)
			wait_for(children[nth], 0);
		check(memory);
	} else if (!strcmp(mode, "shm")) {
		// Three processes share these pages.
		pages = strtoul(mib, 0, 10) << 8;
		int flags = MAP_SHARED | MAP_ANONYMOUS;
		uint64_t *memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
		CHECK(memory != MAP_FAILED);
		fill(memory, 0);
		for (int nth = 0; nth < 2; nth++) {
			pid_t child = fork();
			CHECK(child >= 0);
			if (child == 0) {
				check(memory);
				for (int round = 0; round < 30; round++) {
					usleep(20000);
					for (int call = 0; call < 40; call++)
						sched_yield();
				}
				_exit(0);
			}
		}
		for (int nth = 0; nth < 2; nth++) {
			int status;
			CHECK(wait(&status) > 0 && status == 0);
		}
		check(memory);
	} else if (!strcmp(mode, "lock")) {
		pages = strtoul(mib, 0, 10) << 8;
		uint64_t *memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE,
								MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(memory != MAP_FAILED && mlock(memory, pages * 4096) == 0);
		fill(memory, 0);
		for (int call = 0; call < 1000; call++)
			sched_yield();
		check(memory);
	} else if (!strcmp(mode, "overwrite")) {
		uint64_t *memory = filled(mib);
		pid_t children[3];
		for (int nth = 0; nth < 3; nth++) {
			children[nth] = fork();
			if (children[nth])
				continue;
			for (int round = 1; round < 4; round++) {
				fill(memory, 3 * round + nth);
				check_round(memory, 3 * round + nth);
			}
			_exit(0);
		}
		for (int nth = 0; nth < 3; nth++)
			wait_for(children[nth], 0);
		check(memory);
	} else if (!strcmp(mode, "stay")) {
		uint64_t *memory = filled(mib);
		check(memory);
		pid_t child = fork();
		char end;
		if (child)
			printf("%d %d\n", getpid(), child), fflush(stdout);
		CHECK(read(0, &end, 1) == 0);
		if (child)
			CHECK(waitpid(child, NULL, 0) == child);
	} else if (!strcmp(mode, "static")) {
		// This program is linked statically, so no library keeps descriptors open.
		for (int number = 3; number < 1100; number++)
			close(number);
		execl(args[3], args[3], "hold", mib, NULL);
	}
	return 0;
}
