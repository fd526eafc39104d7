// While a thread waits in a system call, drops the pages of all code that is mapped from files. The
// next access makes the kernel read the pages from the files.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); } \
    } while (0)

enum { CALLS = 200, MAPPINGS = 200 };

static int first[2], second[2];
static char *code[MAPPINGS], *ends[MAPPINGS];
static int mappings;

static void find_code(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps))
        if (strstr(line, " r-xp ") && strchr(line, '/') && mappings < MAPPINGS) {
            CHECK(sscanf(line, "%p-%p", (void **)&code[mappings], (void **)&ends[mappings]) == 2);
            mappings++;
        }
    fclose(maps);
}

static void drop_code(void) {
    for (int i = 0; i < mappings; i++)
        CHECK(madvise(code[i], ends[i] - code[i], MADV_DONTNEED) == 0);
}

static void pass(int ends[2]) {
    char byte = 7;
    CHECK(write(ends[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 7);
}

static void *waits(void *ignored) {
    char byte = 0;
    // A C library may use other `syscall` instructions in a process with several threads than in
    // one with a single thread.
    for (int i = 0; i < CALLS; i++) pass(first);
    CHECK(read(second[0], &byte, 1) == 1 && byte == 5);
    return ignored;
}

int main(void) {
    CHECK(pipe(first) == 0 && pipe(second) == 0);
    find_code();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    usleep(100000);
    for (int round = 0; round < 3; round++) {
        drop_code();
        for (int i = 0; i < CALLS; i++) pass(first);
    }
    CHECK(write(second[1], "\5", 1) == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    puts("all is as it has to be");
    return 0;
}
