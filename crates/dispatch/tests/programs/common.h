// Definitions for the programs of these tests. A program prints its results, which are the same
// with and without a preloaded library.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;

#define CHECK(what) \
    do { \
        if (!(what)) { printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); exit(1); } \
    } while (0)

static inline void on(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static inline void every(long microseconds) {
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static inline sigset_t set_of(int one, int other) {
    sigset_t set;
    sigemptyset(&set);
    if (one) sigaddset(&set, one);
    if (other) sigaddset(&set, other);
    return set;
}

static inline void print_mask(const char *what) {
    sigset_t set;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &set) == 0);
    printf("%s:", what);
    for (int signal = 1; signal <= 64; signal++)
        if (sigismember(&set, signal) == 1) printf(" %d", signal);
    printf("\n");
}

struct program { const char *name; void (*run)(void); };

static inline int run_one(const struct program *programs, const char *name) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (; programs->name; programs++)
        if (strcmp(programs->name, name) == 0) { programs->run(); printf("end of %s\n", name); return 0; }
    printf("no %s\n", name);
    return 2;
}
