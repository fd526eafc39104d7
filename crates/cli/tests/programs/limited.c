// Prints its limits of address space, data and stack.
#include <stdio.h>
#include <sys/resource.h>

int main(void) {
    int resources[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK};
    for (int nth = 0; nth < 3; nth++) {
        struct rlimit limit;
        if (getrlimit(resources[nth], &limit)) return 1;
        printf("%d %lu %lu\n", resources[nth], (long)limit.rlim_cur, (long)limit.rlim_max);
    }
    return 0;
}
