// Executes a program and refuses one of its system calls: refuses ACTION NUMBER PROGRAM
// [ARGUMENTS]. ACTION is a return value of a seccomp filter, which makes the call fail or kills the
// process.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **arguments) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, atoi(arguments[2]), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, strtoul(arguments[1], NULL, 0)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 3;
    execvp(arguments[3], arguments + 3);
    return 4;
}
