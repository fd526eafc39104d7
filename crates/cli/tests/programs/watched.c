// A process reads and writes its child's memory as debuggers do: by PTRACE_PEEKDATA,
// PTRACE_POKEDATA, process_vm_readv and /proc/PID/mem. The child computes, or waits in a system
// call.
//
//   watched attach|seize|thread|file busy|calls|sleep|pipe|poll|futex LIMIT
//
// Prints the number of 64-bit words that each method has read wrongly, the number of failed writes,
// and the child's status. At the end, the child's memory must fall below LIMIT MiB.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 512, PAGE = 4096, BYTES = 48 << 20, PAGES = BYTES / PAGE, SECONDS = 3 };

static uint64_t *memory;
static volatile struct {
    int thread, is_over;
    // The time in milliseconds at which the debugger detached, or 0 before that.
    int64_t left;
} *shared;
static int down[2];

static uint64_t value(size_t page) { return page * 0x9e3779b97f4a7c15 | 1; }

// Returns how the debugger writes a page: 0 if it does not write the page, 1 by ptrace, 2 by
// /proc/PID/mem.
static int writer(size_t page) { return page % 16 < 3 ? page % 16 : 0; }

static uint64_t *word(size_t page) { return memory + page * WORDS + page % WORDS; }

// Returns the number of wrong words in memory. A word is wrong if it holds neither the value before
// the debugger's write nor the value after it. If `is_written` is set, the value before the write
// is wrong, too, in pages that the debugger writes.
static int wrong(int is_written) {
    int count = 0;
    for (size_t page = 0; page < PAGES; page++) {
        uint64_t seen = *(volatile uint64_t *)word(page);
        int is_new = writer(page) && seen == ~value(page);
        int is_old = seen == value(page);
        count += !(is_new || (is_old && !(is_written && writer(page))));
    }
    return count;
}

static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

// Returns the time for which this thread has run or waited for a processor.
static int64_t busy(void) {
    long long ran = 0, waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file && fscanf(file, "%lld %lld", &ran, &waited) != 2) ran = waited = 0;
    if (file) fclose(file);
    return (ran + waited) / 1000000;
}

// Waits in the call that `state` selects. Returns whether the call ended as it would without a
// debugger.
static int waits(const char *state) {
    int64_t end = milliseconds() + SECONDS * 1000, was_busy = busy();
    struct timespec time = {SECONDS, 0};
    struct pollfd fds = {down[0], POLLIN};
    char token;
    int word = 5;
    if (!strcmp(state, "pipe")) return read(down[0], &token, 1) == 1;
    if (!strcmp(state, "sleep")) {
        int is_right = syscall(SYS_nanosleep, &time, &time) == 0;
        int64_t idle = milliseconds() - (busy() - was_busy);
        // If the debugger stops this thread, the thread sleeps until the debugger has detached.
        while (!shared->left) usleep(1000);
        if (end < shared->left) end = shared->left;
        return is_right && idle - end < 900;
    }
    if (!strcmp(state, "poll")) return poll(&fds, 1, SECONDS * 1000) == 0;
    if (!strcmp(state, "futex"))
        return syscall(SYS_futex, &word, FUTEX_WAIT, 5, &time, 0, 0) == -1 && errno == ETIMEDOUT;
    int count = 0;
    while (!shared->is_over) {
        count += wrong(0);
        if (!strcmp(state, "calls")) getppid();
    }
    return count == 0;
}

static void *child_thread(void *state) {
    shared->thread = gettid();
    return (void *)(intptr_t)waits(state);
}

static void child(const char *mode, const char *state, int up) {
    char token = 0;
    void *is_right = (void *)1;
    for (size_t page = 0; page < PAGES; page++) *word(page) = value(page);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    shared->thread = getpid();
    if (!strcmp(mode, "thread")) {
        pthread_t thread;
        shared->thread = 0;
        pthread_create(&thread, NULL, child_thread, (void *)state);
        while (!shared->thread) usleep(1000);
        if (write(up, &token, 1) != 1) _exit(1);
        pthread_join(thread, &is_right);
    } else {
        if (write(up, &token, 1) != 1) _exit(1);
        is_right = (void *)(intptr_t)waits(state);
    }
    while (!shared->is_over) usleep(1000);
    int count = wrong(1) + wrong(1);
    _exit(count ? 3 : is_right ? 0 : 4);
}

static int stop(const char *mode, int thread) {
    int status, is_seized = !strcmp(mode, "seize");
    if (ptrace(is_seized ? PTRACE_SEIZE : PTRACE_ATTACH, thread, 0, 0)) return 0;
    if (is_seized && ptrace(PTRACE_INTERRUPT, thread, 0, 0)) return 0;
    for (;;) {
        if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) return 0;
        if (is_seized ? status >> 16 == PTRACE_EVENT_STOP : WSTOPSIG(status) == SIGSTOP) return 1;
        if (ptrace(PTRACE_CONT, thread, 0, WSTOPSIG(status))) return 0;
    }
}

// Returns the resident memory of a process in MiB.
static long resident(pid_t process) {
    char path[64];
    long all = 0, pages = 1 << 30;
    snprintf(path, sizeof path, "/proc/%d/statm", process);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 1 << 30;
    if (file) fclose(file);
    return pages >> 8;
}

int main(int count, char **args) {
    const char *mode = args[1], *state = args[2];
    int up[2], peeked = 0, read_wrong = 0, copied = 0, failed = 0;
    char token = 0, path[64];
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memory = malloc(BYTES);
    if (count != 4 || pipe(up) || pipe(down)) return 1;
    pid_t process = fork();
    if (process == 0) child(mode, state, up[1]);
    if (read(up[0], &token, 1) != 1) return 2;
    // The debugger stops the sleeping thread after half of its time. If the sleep started again
    // from zero, it would take one and a half times as long.
    usleep(SECONDS * 500000);
    int thread = shared->thread, is_traced = strcmp(mode, "file") != 0;
    if (is_traced && !stop(mode, thread)) return 3;
    snprintf(path, sizeof path, "/proc/%d/mem", process);
    int file = open(path, O_RDWR);
    if (file < 0) return 4;
    for (size_t page = 0; page < PAGES; page++) {
        uint64_t seen = 0, next = ~value(page);
        struct iovec here = {&seen, 8}, there = {word(page), 8};
        if (is_traced) {
            errno = 0;
            seen = ptrace(PTRACE_PEEKDATA, thread, word(page), 0);
            peeked += errno || seen != value(page);
            seen = 0;
            copied += process_vm_readv(process, &here, 1, &there, 1, 0) != 8 || seen != value(page);
            seen = 0;
        }
        read_wrong += pread(file, &seen, 8, (uintptr_t)word(page)) != 8 || seen != value(page);
        if (writer(page) == 1 && is_traced)
            failed += ptrace(PTRACE_POKEDATA, thread, word(page), next) != 0;
        else if (writer(page))
            failed += pwrite(file, &next, 8, (uintptr_t)word(page)) != 8;
    }
    close(file);
    if (is_traced && ptrace(PTRACE_DETACH, thread, 0, 0)) return 5;
    shared->left = milliseconds();
    int is_back = 0;
    for (int nth = 0; nth < 100 && !is_back; nth++) {
        usleep(100000);
        if (!strcmp(state, "pipe") && nth == 30 && write(down[1], &token, 1) != 1) return 6;
        is_back = resident(process) < atoi(args[3]);
    }
    if (!strcmp(state, "pipe") && write(down[1], &token, 1) != 1) return 6;
    shared->is_over = 1;
    int status;
    waitpid(process, &status, 0);
    printf("peeked %d, read %d, copied %d, failed %d, child %x, back %d\n", peeked, read_wrong, copied,
           failed, status, is_back);
    return 0;
}
