// Prints this process's limits of address space, data and stack. With an argument, a child of
// `vfork` first halves its own limit of address space and makes a failing call. The child then
// executes this program.
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int in_child(char *program) {
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur /= 2;
    int child = vfork();
    if (child == 0) {
        char *list[] = {program, 0};
        setrlimit(RLIMIT_AS, &limit);
        execve("/does/not/exist", list, 0);
        execve(program, list, 0);
        _exit(3);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status != 0;
}

int main(int count, char **list) {
    int resources[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK};
    for (int nth = 0; nth < 3; nth++) {
        struct rlimit limit;
        if (getrlimit(resources[nth], &limit)) return 1;
        printf("%d %lu %lu\n", resources[nth], (long)limit.rlim_cur, (long)limit.rlim_max);
    }
    fflush(stdout);
    return count > 1 ? in_child(list[0]) : 0;
}
