// Reads and writes its own memory through /proc/self/mem, after most of the memory was evicted.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 10 << 10, STEP = 16 };

static unsigned long *memory;
static int wrong;

static unsigned long *page(size_t nth) { return memory + nth * PAGE / sizeof *memory; }

static void fill(unsigned long salt) {
    for (size_t nth = 0; nth < PAGES; nth++)
        for (size_t at = 0; at < PAGE / sizeof *memory; at++) page(nth)[at] = nth * 7 + at / 8 + salt;
}

// Compares the first word of each page with a value that grows by 7.
static void check(unsigned long salt) {
    for (size_t nth = 0; nth < PAGES; nth++) wrong += *page(nth) != nth * 7 + salt;
}

static void access_by(const char *path, unsigned long salt) {
    int file = open(path, O_RDWR);
    if (file < 0) exit(2);
    for (size_t nth = 0; nth < PAGES; nth += STEP) {
        unsigned long word = 0, more = nth * 7 + salt + 1;
        if (pread(file, &word, sizeof word, (off_t)page(nth)) != sizeof word) wrong++;
        wrong += word != nth * 7 + salt;
        if (pwrite(file, &more, sizeof more, (off_t)page(nth)) != sizeof more) wrong++;
        wrong += *page(nth) != more;
        *page(nth) -= 1;
    }
    close(file);
}

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) return 2;
    char own[64];
    snprintf(own, sizeof own, "/proc/%d/mem", getpid());
    const char *paths[] = {"/proc/self/mem", "/proc/thread-self/mem", own};
    for (int nth = 0; nth < 3; nth++) {
        fill(nth);
        check(nth);
        access_by(paths[nth], nth);
        check(nth);
        // The runtime checks once a second whether the file is closed.
        usleep(1100000);
        check(nth);
    }
    printf("%d wrong\n", wrong);
    return 0;
}
