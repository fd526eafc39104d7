// Threads read and write buffers that other threads evict, while signals arrive. No system call is
// interrupted. Then a signal handler leaves a system call by a jump, and the thread's next calls
// succeed.
//
//   held ROUNDS
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, BUFFERS = 512, LARGE = 3 * PAGE + 100, COLD = 16 << 20 };

static unsigned long rounds;
static volatile int is_over;
static sigjmp_buf jump;
static int nested[2];
static char *byte;

// A signal handler that makes system calls with the program's memory.
static void on_poke(int signal) {
	int saved = errno;
	(void)signal;
	CHECK(write(nested[1], byte, 1) == 1);
	CHECK(read(nested[0], byte, 1) == 1);
	errno = saved;
}

static void on_leave(int signal) {
	(void)signal;
	siglongjmp(jump, 1);
}

// A thread that evicts and fills other memory.
static void *press(void *argument) {
	uint64_t *cold = malloc(COLD);
	CHECK(cold);
	for (uint64_t round = 0; !is_over; round++)
		for (size_t at = 0; at < COLD / 8; at += 16)
			cold[at] = at + round;
	free(cold);
	return argument;
}

static size_t length_of(size_t nth) {
	return nth % 3 == 0 ? LARGE : nth % 3 == 1 ? PAGE : 40;
}

// A thread that sends each buffer through a pipe, and checks the received copy.
static void *send_round(void *argument) {
	int pipes[2];
	CHECK(pipe(pipes) == 0);
	uint8_t *buffers = malloc(BUFFERS * (size_t)LARGE), *back = malloc(LARGE);
	for (unsigned long round = 0; round < rounds; round++) {
		for (size_t nth = 0; nth < BUFFERS; nth++)
			memset(buffers + nth * LARGE, (int)(nth * 7 + round), LARGE);
		for (size_t nth = 0; nth < BUFFERS; nth++) {
			size_t length = length_of(nth);
			CHECK(write(pipes[1], buffers + nth * LARGE, length) == (ssize_t)length);
			memset(back, 0, LARGE);
			CHECK(read(pipes[0], back, length) == (ssize_t)length);
			CHECK(memcmp(back, buffers + nth * LARGE, length) == 0);
		}
	}
	free(buffers);
	free(back);
	return argument;
}

// A thread that repeatedly leaves a waiting `read` by a jump, and then reads and writes again.
static void *leave(void *argument) {
	int pipes[2];
	CHECK(pipe(pipes) == 0);
	char *at = malloc(1 << 20);
	memset(at, 1, 1 << 20);
	volatile int left = 0;
	if (sigsetjmp(jump, 1))
		left++;
	if (left < 20) {
		pthread_t *self = argument;
		*self = pthread_self();
		read(pipes[0], at + left * PAGE, PAGE);
		CHECK(!"nothing was written");
	}
	sigset_t none;
	sigemptyset(&none);
	sigaddset(&none, SIGUSR2);
	CHECK(pthread_sigmask(SIG_BLOCK, &none, NULL) == 0);
	CHECK(write(pipes[1], at, 100) == 100 && read(pipes[0], at + 200, 100) == 100);
	CHECK(at[299] == 1);
	is_over = 1;
	free(at);
	return argument;
}

int main(int count, char **args) {
	CHECK(count == 2);
	rounds = strtoul(args[1], NULL, 10);
	byte = malloc(1 << 20);
	CHECK(byte && pipe(nested) == 0);
	CHECK(signal(SIGUSR1, on_poke) != SIG_ERR && signal(SIGUSR2, on_leave) != SIG_ERR);
	pthread_t pressing, sending[2], leaving;
	CHECK(pthread_create(&pressing, NULL, press, NULL) == 0);
	for (int nth = 0; nth < 2; nth++)
		CHECK(pthread_create(&sending[nth], NULL, send_round, NULL) == 0);
	for (int nth = 0; nth < 2; nth++) {
		while (pthread_tryjoin_np(sending[nth], NULL) != 0) {
			pthread_kill(sending[0] == sending[nth] ? sending[0] : sending[1], SIGUSR1);
			usleep(500);
		}
	}
	static pthread_t is_ready;
	CHECK(pthread_create(&leaving, NULL, leave, (void *)&is_ready) == 0);
	while (!*(volatile pthread_t *)&is_ready)
		usleep(100);
	for (int nth = 0; !is_over; nth++) {
		usleep(2000);
		if (!is_over)
			pthread_kill(leaving, SIGUSR2);
	}
	CHECK(pthread_join(leaving, NULL) == 0 && pthread_join(pressing, NULL) == 0);
	printf("all is there\n");
	return 0;
}
