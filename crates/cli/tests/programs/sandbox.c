// Restricts its own system calls (seccomp) when its memory is larger than the limit. After the
// restriction, the program uses its memory, or executes the program in the other arguments. The
// first argument selects the restriction. `strict` is the strict mode. `narrow` is a filter that
// allows reads, writes and exit. `wide` is a filter that refuses one call. `host` is a filter that
// kills the process at calls that `uzram-host` makes. `refused` is a filter that the kernel does
// not accept. `child` makes a child of `vfork` install `host`. `heap` is a filter that allows
// `brk`. `number` is a filter that kills the process at `getpid`, `gettid` and `ioctl`. `probe`
// requests the strict mode as libraries do to detect it.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 48 << 20, PAGE = 4096 };
#define CALL BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define IF(call, then) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), then
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

static int install(struct sock_filter *list, int count) {
    struct sock_fprog program = {count, list};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static int restrict_calls(const char *how) {
    struct sock_filter narrow[] = {
        CALL,
        IF(read, RETURN(SECCOMP_RET_ALLOW)),
        IF(write, RETURN(SECCOMP_RET_ALLOW)),
        IF(exit, RETURN(SECCOMP_RET_ALLOW)),
        IF(exit_group, RETURN(SECCOMP_RET_ALLOW)),
        RETURN(SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_filter wide[] = {
        CALL,
        IF(socket, RETURN(SECCOMP_RET_ERRNO | EACCES)),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_filter host[] = {
        CALL,
        IF(prctl, RETURN(SECCOMP_RET_KILL_PROCESS)),
        IF(munlock, RETURN(SECCOMP_RET_KILL_PROCESS)),
        IF(process_madvise, RETURN(SECCOMP_RET_KILL_PROCESS)),
        IF(kill, RETURN(SECCOMP_RET_KILL_PROCESS)),
        IF(rt_tgsigqueueinfo, RETURN(SECCOMP_RET_KILL_PROCESS)),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_filter heap[] = {
        CALL,
        IF(read, RETURN(SECCOMP_RET_ALLOW)),
        IF(write, RETURN(SECCOMP_RET_ALLOW)),
        IF(brk, RETURN(SECCOMP_RET_ALLOW)),
        IF(exit, RETURN(SECCOMP_RET_ALLOW)),
        IF(getrlimit, RETURN(SECCOMP_RET_ALLOW)),
        IF(prlimit64, RETURN(SECCOMP_RET_ALLOW)),
        RETURN(SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_filter number[] = {
        CALL,
        IF(getpid, RETURN(SECCOMP_RET_KILL_PROCESS)),
        IF(gettid, RETURN(SECCOMP_RET_KILL_PROCESS)),
        IF(ioctl, RETURN(SECCOMP_RET_KILL_PROCESS)),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_filter wrong[] = {CALL, IF(read, RETURN(SECCOMP_RET_ALLOW))};
    if (!strcmp(how, "heap")) return install(heap, sizeof heap / sizeof *heap);
    if (!strcmp(how, "number")) return install(number, sizeof number / sizeof *number);
    if (!strcmp(how, "probe")) return syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0);
    if (!strcmp(how, "strict")) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (!strcmp(how, "narrow")) return install(narrow, sizeof narrow / sizeof *narrow);
    if (!strcmp(how, "host")) return install(host, sizeof host / sizeof *host);
    if (!strcmp(how, "wide")) return install(wide, sizeof wide / sizeof *wide);
    return install(wrong, sizeof wrong / sizeof *wrong);
}

static void put(const char *text) {
    if (write(1, text, strlen(text)) < 0) _exit(9);
}

static void *take_more(void *none) {
    unsigned char *more = malloc(BYTES);
    size_t wrong = 0;
    for (size_t at = 0; at < BYTES; at += PAGE) memset(more + at, at / PAGE, PAGE);
    for (size_t at = 0; at < BYTES; at++) wrong += more[at] != (unsigned char)(at / PAGE);
    return (void *)wrong;
}

static char *pieces[4096];

// Fills the heap at the program break, frees the memory, and fills the heap again. No block is a
// separate mapping.
static void use_heap(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit)) _exit(5);
    // When the runtime left the process, it raised the program's limits of data by the memory that
    // only the kernel counts.
    put(limit.rlim_cur >= (200 << 20) && limit.rlim_max < 1L << 40 ? "limit\n" : "no limit\n");
    for (int turn = 0; turn < 3; turn++) {
        for (int nth = 0; nth < 4096; nth++) {
            if (!pieces[nth]) pieces[nth] = malloc(4000);
            if (!pieces[nth]) {
                put("no memory\n");
                return;
            }
            memset(pieces[nth], nth, 4000);
        }
        for (int nth = 0; nth < 4096; nth++) {
            if (pieces[nth][3999] != (char)nth) put("wrong\n");
            free(pieces[nth]);
            pieces[nth] = 0;
        }
        put("turn\n");
    }
}

// A child of `vfork` restricts its calls, and then executes a program.
static int restrict_child(void) {
    int status = 1;
    pid_t child = vfork();
    if (child == 0) {
        if (!restrict_calls("host")) execl("/bin/true", "true", NULL);
        _exit(6);
    }
    return waitpid(child, &status, 0) != child || status;
}

int main(int count, char **list) {
    if (count < 2) return 2;
    struct rlimit limit = {200 << 20, 300 << 20};
    if (!strcmp(list[1], "heap") && setrlimit(RLIMIT_DATA, &limit)) return 2;
    mallopt(M_MMAP_THRESHOLD, 1 << 26);
    for (int nth = 0; nth < 2048; nth++) pieces[nth] = malloc(4000);
    unsigned *memory = malloc(BYTES);
    for (size_t at = 0; at < BYTES / 4; at++) memory[at] = at / 8 * 2654435761u;
    int failed = strcmp(list[1], "child") ? restrict_calls(list[1]) : restrict_child();
    put(failed ? "refused\n" : "restricted\n");
    if (count > 2) {
        execvp(list[2], list + 2);
        _exit(8);
    }
    size_t wrong = 0;
    for (size_t at = 0; at < BYTES / 4; at++) wrong += memory[at] != (unsigned)(at / 8 * 2654435761u);
    put(wrong ? "wrong\n" : "whole\n");
    // The heap shrinks and grows. The limits are those that the program has set.
    if (!strcmp(list[1], "heap")) use_heap();
    // Allocates more memory and starts a thread, if the restriction permits these calls.
    if (!strstr("strict narrow heap number", list[1])) {
        void *more = 0;
        pthread_t thread;
        if (pthread_create(&thread, 0, take_more, 0) || pthread_join(thread, &more)) _exit(7);
        put(more ? "wrong\n" : "whole\n");
    }
    syscall(SYS_exit, 4);
}
