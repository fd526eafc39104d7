// Tests robust mutexes in evicted memory. A thread ends with locked mutexes. The next thread that
// locks one of these mutexes gets EOWNERDEAD, although the mutexes and the list of locked mutexes
// were evicted.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, MUTEXES = 40, COLD_PAGES = 6000 };

static uint8_t *pages;
static uint64_t *cold;

static pthread_mutex_t *mutex_of(int nth) {
	return (pthread_mutex_t *)(pages + nth * 3 * PAGE + 64);
}

// Touches cold memory until all other memory is evicted.
static void use_cold(void) {
	for (int page = 0; page < COLD_PAGES; page++)
		for (int nth = 0; nth < PAGE / 8; nth += 8)
			cold[page * (PAGE / 8) + nth] += page + nth;
}

static void *lock_all(void *nothing) {
	for (int nth = 0; nth < MUTEXES; nth++)
		CHECK(pthread_mutex_lock(mutex_of(nth)) == 0);
	use_cold();
	return nothing;
}

static void are_told(void) {
	for (int nth = 0; nth < MUTEXES; nth++) {
		struct timespec soon;
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_sec += 5;
		CHECK(pthread_mutex_timedlock(mutex_of(nth), &soon) == EOWNERDEAD);
		CHECK(pthread_mutex_consistent(mutex_of(nth)) == 0);
		CHECK(pthread_mutex_unlock(mutex_of(nth)) == 0);
	}
}

int main(void) {
	pthread_mutexattr_t robust;
	CHECK(pthread_mutexattr_init(&robust) == 0);
	CHECK(pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST) == 0);
	pages = mmap(0, MUTEXES * 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED);
	CHECK((cold = malloc(COLD_PAGES * PAGE)));
	memset(cold, 1, COLD_PAGES * PAGE);
	for (int nth = 0; nth < MUTEXES; nth++)
		CHECK(pthread_mutex_init(mutex_of(nth), &robust) == 0);
	for (int round = 0; round < 3; round++) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, lock_all, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
		are_told();
	}
	// A child ends while it holds this mutex. The child shares the mutex with this process.
	pthread_mutex_t *shared =
		mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	CHECK(pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED) == 0);
	CHECK(pthread_mutex_init(shared, &robust) == 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK(pthread_mutex_lock(shared) == 0);
		lock_all(NULL);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	struct timespec soon;
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 5;
	CHECK(pthread_mutex_timedlock(shared, &soon) == EOWNERDEAD);
	printf("all is as it has to be\n");
	return 0;
}
