// Threads wait in system calls while other threads evict and fill memory. Each thread checks its
// own memory and the data of its call. Waiting threads receive signals, and the signal handlers
// touch memory.
//
//   waits ROUNDS THREADS   with threads that wait and get signals, while children begin and end
//   waits ROUNDS 0         with a thread that spins while faults occur, and then only sleeps
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, COLD_PAGES = 6000, OWN_PAGES = 40, THREADS_MAX = 8 };

extern char **environ;

struct waiting {
	pthread_t thread;
	int to[2], back[2];
	uint8_t *own;
	volatile unsigned long signals;
	volatile int is_ready;
};

static struct waiting threads[THREADS_MAX];
static __thread struct waiting *self;
static uint64_t *cold;
static volatile int has_run;

static uint8_t *page_of(struct waiting *of, unsigned long nth) {
	return of->own + nth % OWN_PAGES * PAGE;
}

// A signal handler that checks and changes the memory of its thread.
static void on_signal(int signal) {
	int saved = errno;
	(void)signal;
	uint8_t *page = page_of(self, ++self->signals);
	CHECK(page[100] == page[PAGE - 100]);
	page[100]++;
	page[PAGE - 100]++;
	errno = saved;
}

// Reads by `syscall` instead of the C library's `read`. Retries if a signal interrupts the call.
static long wait_to_read(int from, uint8_t *to, size_t bytes) {
	long got;
	do
		got = syscall(SYS_read, from, to, bytes);
	while (got < 0 && errno == EINTR);
	return got;
}

static void wait_for(struct waiting *this, unsigned how, uint8_t *page) {
	struct timespec *time = (struct timespec *)(page + 200);
	struct pollfd *fd = (struct pollfd *)(page + 300);
	*time = (struct timespec){0, 200000};
	*fd = (struct pollfd){.fd = this->to[0], .events = POLLIN};
	switch (how) {
	case 0:
		syscall(SYS_nanosleep, time, time);
		break;
	case 1:
		syscall(SYS_ppoll, fd, 1, time, NULL, 0);
		break;
	case 2:
		*(uint32_t *)(page + 400) = 7;
		syscall(SYS_futex, page + 400, 0, 7, time);
		break;
	case 3: {
		sigset_t *none = (sigset_t *)(page + 500);
		sigemptyset(none);
		sigaddset(none, SIGWINCH);
		syscall(SYS_rt_sigtimedwait, none, page + 700, time, 8);
		break;
	}
	}
}

// A thread that receives data in its own memory and sends the data back.
static void *wait_and_answer(void *argument) {
	self = argument;
	self->own = calloc(OWN_PAGES, PAGE);
	self->is_ready = 1;
	for (unsigned long round = 0;; round++) {
		uint8_t *page = page_of(self, round * 7);
		wait_for(self, (unsigned)(round % 4), page);
		long got = wait_to_read(self->to[0], page + 1000, 1000);
		CHECK(got == 0 || got == 1000);
		if (got == 0)
			break;
		struct iovec *parts = (struct iovec *)(page + 3000);
		parts[0] = (struct iovec){page + 1000, 600};
		parts[1] = (struct iovec){page + 1600, 400};
		CHECK(syscall(SYS_writev, self->back[1], parts, 2) == 1000);
	}
	free(self->own);
	return NULL;
}

static void *sleep_only(void *argument) {
	struct waiting *this = argument;
	uint8_t byte;
	this->is_ready = 1;
	while (!has_run)
		continue;
	CHECK(wait_to_read(this->to[0], &byte, 1) == 0);
	return NULL;
}

static void *end_at_once(void *argument) {
	uint64_t *of = argument;
	CHECK(of[0] == of[1]);
	return argument;
}

static void begin(size_t nth, void *(*work)(void *)) {
	struct waiting *this = &threads[nth];
	CHECK(pipe(this->to) == 0 && pipe(this->back) == 0);
	CHECK(pthread_create(&this->thread, NULL, work, this) == 0);
	while (!this->is_ready)
		usleep(100);
}

static void end(size_t nth) {
	CHECK(close(threads[nth].to[1]) == 0);
	CHECK(pthread_join(threads[nth].thread, NULL) == 0);
}

// Writes the contents of round `round` to each page, or checks these contents.
static void go_through(uint64_t round, int writes) {
	for (uint64_t page = 0; page < COLD_PAGES; page++) {
		uint64_t *at = cold + page * PAGE / 8;
		for (size_t word = 0; word < PAGE / 8; word += 37) {
			if (writes)
				at[word] = page * 1000 + word + round;
			else
				CHECK(at[word] == page * 1000 + word + round);
		}
	}
}

// Touches pages at random, so the time between two touches of a page varies.
static void touch_here_and_there(uint64_t round) {
	uint64_t place = round;
	for (int touches = 0; touches < 2 * COLD_PAGES; touches++) {
		place = place * 6364136223846793005 + 1442695040888963407;
		uint64_t page = (place >> 33) % COLD_PAGES;
		CHECK(cold[page * PAGE / 8] == page * 1000 + round);
	}
}

static void look_in_child(uint64_t round) {
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		go_through(round, 0);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void run_another(void) {
	char *args[] = {"true", NULL};
	pid_t child;
	int status;
	CHECK(posix_spawnp(&child, "true", NULL, NULL, args, environ) == 0);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	child = vfork();
	if (child == 0) {
		// The child touches the memory of its parent, and the parent waits.
		cold[5] ^= 1;
		cold[5] ^= 1;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static int touch_some(void *argument) {
	for (size_t page = 0; page < COLD_PAGES; page += 50)
		((volatile uint64_t *)argument)[page * PAGE / 8 + 1] ^= 0;
	return 0;
}

// Starts a thread and a process that share this memory, and waits until both have ended.
static void run_beside(void) {
	static uint64_t stack[8192];
	int thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM | CLONE_THREAD;
	CHECK(clone(touch_some, stack + 8192, thread | CLONE_VFORK, cold) > 0);
	pid_t child = clone(touch_some, stack + 8192, CLONE_VM | SIGCHLD, cold);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void ask(struct waiting *of, uint8_t *buffer, unsigned round) {
	for (size_t at = 0; at < 1000; at++)
		buffer[at] = (uint8_t)(at * 3 + round);
	CHECK(write(of->to[1], buffer, 1000) == 1000);
}

static void hear(struct waiting *of, uint8_t *buffer, unsigned round) {
	memset(buffer, 0, 1000);
	for (size_t got = 0; got < 1000;) {
		ssize_t more = read(of->back[0], buffer + got, 1000 - got);
		CHECK(more > 0 || errno == EINTR);
		got += more > 0 ? (size_t)more : 0;
	}
	for (size_t at = 0; at < 1000; at++)
		CHECK(buffer[at] == (uint8_t)(at * 3 + round));
}

int main(int count, char **args) {
	CHECK(count == 3);
	unsigned long rounds = strtoul(args[1], NULL, 10), waiting = strtoul(args[2], NULL, 10);
	CHECK(waiting <= THREADS_MAX);
	int signals[] = {SIGUSR1, SIGUSR2, SIGBUS, SIGSEGV};
	cold = malloc((size_t)COLD_PAGES * PAGE);
	uint8_t *buffer = malloc(1000);
	for (int nth = 0; nth < 4; nth++) {
		struct sigaction action = {.sa_handler = on_signal, .sa_flags = nth % 2 ? SA_RESTART : 0};
		CHECK(sigaction(signals[nth], &action, NULL) == 0);
	}
	for (size_t nth = 0; nth < waiting; nth++)
		begin(nth, wait_and_answer);
	if (!waiting)
		begin(0, sleep_only);
	go_through(0, 1);
	has_run = 1;
	for (unsigned long round = 0; round < rounds; round++) {
		for (size_t nth = 0; nth < waiting; nth++) {
			ask(&threads[nth], buffer, (unsigned)(round + nth));
			CHECK(pthread_kill(threads[nth].thread, signals[(round + nth) % 4]) == 0);
		}
		go_through(round, 1);
		for (size_t nth = 0; nth < waiting; nth++) {
			CHECK(pthread_kill(threads[nth].thread, signals[(round + nth + 1) % 4]) == 0);
			hear(&threads[nth], buffer, (unsigned)(round + nth));
		}
		go_through(round, 0);
		if (!waiting)
			touch_here_and_there(round);
		if (waiting && round % 8 == 3)
			look_in_child(round);
		if (waiting && round % 8 == 6)
			run_another();
		if (waiting && round % 8 == 7)
			run_beside();
		if (waiting && round % 4 == 1) {
			pthread_t other;
			uint64_t *same = calloc(2, sizeof *same);
			CHECK(pthread_create(&other, NULL, end_at_once, same) == 0);
			go_through(round, 0);
			CHECK(pthread_join(other, NULL) == 0);
			free(same);
		}
	}
	for (size_t nth = 0; nth < (waiting ? waiting : 1); nth++)
		end(nth);
	free(cold);
	printf("all is there\n");
	return 0;
}
