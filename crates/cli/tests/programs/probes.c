// System calls by which unwinders and crash reporters check whether memory is mapped.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
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
		// Old kernels lack this call.
		printf("not sealed\n");
		return;
	}
	int unmapped = munmap(start, 4 * PAGE) == 0 ? 0 : errno;
	int protected = mprotect(start + PAGE, PAGE, PROT_READ) == 0 ? 0 : errno;
	void *replaced = mmap(start, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	printf("sealed: munmap %d, mprotect %d, mmap %d, %d\n", unmapped, protected,
	       replaced == MAP_FAILED ? errno : 0, start[5 * PAGE]);
}

static sigjmp_buf back;
static int code;
static void *address;

static void caught(int signal, siginfo_t *info, void *context) {
	code = info->si_code;
	address = info->si_addr;
	siglongjmp(back, 1);
}

// Touches a byte. Prints the code of the signal that the touch raises.
static void touch(const char *what, volatile char *at, int writes) {
	code = 0;
	if (sigsetjmp(back, 1) == 0) {
		if (writes)
			*at = 1;
		else
			(void)*at;
	}
	printf("%s: code %d, %d\n", what, code, code == 0 || address == (void *)at);
}

static void causes(void) {
	struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *none = mmap(NULL, PAGES * PAGE, PROT_NONE, flags, -1, 0);
	char *data = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	CHECK(none != MAP_FAILED && data != MAP_FAILED);
	touch("a reservation", none + PAGE, 0);
	touch("a reservation, written", none + PAGE, 1);
	CHECK(mprotect(data, 16 * PAGE, PROT_READ) == 0);
	touch("memory to be read", data + PAGE, 0);
	touch("memory to be read, written", data + PAGE, 1);
	CHECK(munmap(data + 32 * PAGE, 16 * PAGE) == 0);
	touch("no memory", data + 33 * PAGE, 0);
	touch("no memory, written", data + 33 * PAGE, 1);
	touch("memory", data + 60 * PAGE, 1);
	touch("a low address", (char *)16, 0);
}

static void on_alarm(int signal) { (void)signal; }

// If a signal interrupts a sleep, the kernel writes the remaining time to memory that might not be
// mapped.
static void sleeps(void) {
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	struct timespec time = {20, 0}, left = {0, 0};
	struct itimerval timer = {{0, 0}, {0, 20000}};
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	CHECK(syscall(SYS_nanosleep, &time, 8) == -1 && errno == EFAULT);
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	CHECK(syscall(SYS_nanosleep, &time, &left) == -1 && errno == EINTR && left.tv_sec == 19);
	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
	CHECK(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, &time) == -1);
	CHECK(errno == EINTR && time.tv_sec == 19 && time.tv_nsec > 0);
	time = (struct timespec){0, -1};
	CHECK(syscall(SYS_nanosleep, &time, NULL) == -1 && errno == EINVAL);
	CHECK(syscall(SYS_nanosleep, 8, NULL) == -1 && errno == EFAULT);
}

int main(void) {
	causes();
	sleeps();
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
