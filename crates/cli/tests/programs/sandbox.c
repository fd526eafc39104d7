// Restricts its own system calls (seccomp) when its memory is larger than the limit, and uses the
// memory after that. The argument names the restriction: `strict` or a filter. `narrow` allows
// reads, writes and the end, and `wide` refuses one call. The kernel does not accept `refused`.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
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
    struct sock_filter wrong[] = {CALL, IF(read, RETURN(SECCOMP_RET_ALLOW))};
    if (!strcmp(how, "strict")) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (!strcmp(how, "narrow")) return install(narrow, sizeof narrow / sizeof *narrow);
    if (!strcmp(how, "wide")) return install(wide, sizeof wide / sizeof *wide);
    return install(wrong, sizeof wrong / sizeof *wrong);
}

static void put(const char *text) {
    if (write(1, text, strlen(text)) < 0) _exit(9);
}

int main(int count, char **list) {
    if (count < 2) return 2;
    unsigned *memory = malloc(BYTES);
    for (size_t at = 0; at < BYTES / 4; at++) memory[at] = at / 8 * 2654435761u;
    put(restrict_calls(list[1]) ? "refused\n" : "restricted\n");
    size_t wrong = 0;
    for (size_t at = 0; at < BYTES / 4; at++) wrong += memory[at] != (unsigned)(at / 8 * 2654435761u);
    put(wrong ? "wrong\n" : "whole\n");
    // More memory, if the process may ask for it.
    if (!strcmp(list[1], "wide") || !strcmp(list[1], "refused")) {
        unsigned char *more = malloc(BYTES);
        for (size_t at = 0; at < BYTES; at += PAGE) memset(more + at, at / PAGE, PAGE);
        for (size_t at = 0; at < BYTES; at++) wrong += more[at] != (unsigned char)(at / PAGE);
        put(wrong ? "wrong\n" : "whole\n");
    }
    syscall(SYS_exit, 4);
}
