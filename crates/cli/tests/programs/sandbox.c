// Restricts its own system calls (seccomp) when its memory is larger than the limit, and uses the
// memory after that, or executes the program that more arguments name. The first argument names the
// restriction: `strict` or a filter. `narrow` allows reads, writes and the end, and `wide` refuses
// one call. `host` refuses calls of a host. The kernel does not accept `refused`.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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
    struct sock_filter wrong[] = {CALL, IF(read, RETURN(SECCOMP_RET_ALLOW))};
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

int main(int count, char **list) {
    if (count < 2) return 2;
    unsigned *memory = malloc(BYTES);
    for (size_t at = 0; at < BYTES / 4; at++) memory[at] = at / 8 * 2654435761u;
    put(restrict_calls(list[1]) ? "refused\n" : "restricted\n");
    if (count > 2) {
        execvp(list[2], list + 2);
        _exit(8);
    }
    size_t wrong = 0;
    for (size_t at = 0; at < BYTES / 4; at++) wrong += memory[at] != (unsigned)(at / 8 * 2654435761u);
    put(wrong ? "wrong\n" : "whole\n");
    // More memory, and a thread, if the process may ask for them.
    if (strcmp(list[1], "strict") && strcmp(list[1], "narrow")) {
        void *more = 0;
        pthread_t thread;
        if (pthread_create(&thread, 0, take_more, 0) || pthread_join(thread, &more)) _exit(7);
        put(more ? "wrong\n" : "whole\n");
    }
    syscall(SYS_exit, 4);
}
