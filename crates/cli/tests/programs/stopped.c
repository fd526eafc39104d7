// A process that shares the program's memory stops the program's threads by ptrace, and then reads
// all memory. AddressSanitizer searches for leaks in this way.
//
//   stopped ROUNDS
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 3, PAGE = 512, PAGES = 6000, STACK = 256 << 10 };

static uint64_t *memory;
static int threads[THREADS + 1];
static volatile int is_over;
static int is_seized;

static uint64_t value(uint64_t page) {
	return page * 0x9e3779b97f4a7c15 | 1;
}

// A thread that fills blocks and thereby evicts other blocks.
static void *work(void *nth) {
	threads[(intptr_t)nth] = gettid();
	for (uint64_t seed = (intptr_t)nth; !is_over;) {
		seed = seed * 6364136223846793005 + 1442695040888963407;
		uint64_t page = (seed >> 33) % PAGES;
		CHECK(memory[page * PAGE] == value(page));
	}
	return NULL;
}

static void stop(int thread) {
	int status;
	CHECK(ptrace(is_seized ? PTRACE_SEIZE : PTRACE_ATTACH, thread, 0, 0) == 0);
	if (is_seized)
		CHECK(ptrace(PTRACE_INTERRUPT, thread, 0, 0) == 0);
	for (;;) {
		CHECK(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status));
		if (is_seized ? status >> 16 == PTRACE_EVENT_STOP : WSTOPSIG(status) == SIGSTOP)
			return;
		CHECK(ptrace(PTRACE_CONT, thread, 0, WSTOPSIG(status)) == 0);
	}
}

static int look(void *unused) {
	for (int nth = 0; nth <= THREADS; nth++)
		stop(threads[nth]);
	for (uint64_t page = 0; page < PAGES; page++)
		CHECK(memory[page * PAGE] == value(page));
	for (int nth = 0; nth <= THREADS; nth++)
		CHECK(ptrace(PTRACE_DETACH, threads[nth], 0, 0) == 0);
	return 0;
}

int main(int count, char **args) {
	CHECK(count == 2);
	int rounds = atoi(args[1]);
	pthread_t made[THREADS + 1];
	int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	memory = mmap(NULL, PAGES * PAGE * 8, prot, flags, -1, 0);
	CHECK(memory != MAP_FAILED);
	for (uint64_t page = 0; page < PAGES; page++)
		memory[page * PAGE] = value(page);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	threads[0] = gettid();
	for (intptr_t nth = 1; nth <= THREADS; nth++)
		CHECK(pthread_create(&made[nth], NULL, work, (void *)nth) == 0);
	for (int nth = 1; nth <= THREADS; nth++)
		while (*(volatile int *)&threads[nth] == 0)
			usleep(100);
	char *stack = mmap(NULL, STACK, prot, flags | MAP_STACK, -1, 0);
	CHECK(stack != MAP_FAILED);
	for (int round = 0; round < rounds; round++) {
		int status;
		is_seized = round % 2;
		int child = clone(look, stack + STACK, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, NULL);
		CHECK(child > 0 && waitpid(child, &status, __WALL) == child && status == 0);
	}
	is_over = 1;
	for (int nth = 1; nth <= THREADS; nth++)
		CHECK(pthread_join(made[nth], NULL) == 0);
	printf("all is there\n");
	return 0;
}
