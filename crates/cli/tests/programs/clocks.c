// Prevents reads of the time without a system call, and then uses memory. `counter` disables the
// time stamp counter in this program and in an executed program. `vdso` unmaps the vDSO, the
// kernel's code that reads the time in a process.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 40 << 20, PAGE = 4096 };

static void use_memory(void) {
    char *memory = malloc(BYTES);
    for (int round = 0; round < 2; round++)
        for (size_t at = 0; at < BYTES; at += PAGE) memset(memory + at, at / PAGE + round, PAGE);
    unsigned long sum = 0;
    for (size_t at = 0; at < BYTES; at += PAGE) sum += (unsigned char)memory[at + at / PAGE % PAGE];
    char text[64];
    if (write(1, text, snprintf(text, sizeof text, "%lu\n", sum)) < 0) exit(1);
    free(memory);
}

int main(int count, char **args) {
    if (count < 2) return 2;
    if (strcmp(args[1], "vdso") == 0) {
        if (munmap((void *)getauxval(AT_SYSINFO_EHDR), 2 * PAGE) != 0) return 1;
        use_memory();
        return 0;
    }
    if (strcmp(args[1], "counter") == 0 && prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0) return 1;
    use_memory();
    if (strcmp(args[1], "executed") == 0) return 0;
    pid_t child = fork();
    if (child == 0) {
        use_memory();
        execl("/proc/self/exe", args[0], "executed", NULL);
        _exit(1);
    }
    int status;
    return waitpid(child, &status, 0) != child || status != 0;
}
