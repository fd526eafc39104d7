// Traces a child that executes a program, as debuggers and `strace` do. After `fork`, the child
// first stops itself. After `vfork`, the tracer waits for the child's `execve`. The parent uses its
// memory before and after it traces the child. The program prints each stop.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 24 << 20, PAGE = 4096 };

static int is_whole(const unsigned char *memory) {
    for (size_t at = 0; at < BYTES; at += PAGE)
        if (memory[at] != (unsigned char)(at / PAGE)) return 0;
    return 1;
}

static void follow(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) == child) {
        if (!WIFSTOPPED(status)) {
            printf("ended %x\n", status);
            return;
        }
        int signal = WSTOPSIG(status);
        printf("stopped by %d\n", signal);
        fflush(stdout);
        ptrace(PTRACE_CONT, child, 0, signal == SIGSTOP || signal == SIGTRAP ? 0 : signal);
    }
}

int main(void) {
    unsigned char *memory = malloc(BYTES);
    for (int turn = 0; turn < 2; turn++) {
        for (size_t at = 0; at < BYTES; at += PAGE) memset(memory + at, at / PAGE, PAGE);
        pid_t child = turn ? vfork() : fork();
        if (child == 0) {
            if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(9);
            if (!turn) kill(getpid(), SIGSTOP);
            // In a child of `vfork`, this check touches the parent's memory.
            if (!is_whole(memory)) _exit(8);
            execl("/bin/echo", "echo", "executed", NULL);
            _exit(7);
        }
        follow(child);
        printf("whole %d\n", is_whole(memory));
        fflush(stdout);
    }
    return 0;
}
