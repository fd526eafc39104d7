// A process reads and writes its own memory and its child's memory by `process_vm_readv` and
// `process_vm_writev`. The calls use several buffers at any offset, while the child waits or uses
// its memory.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 48 << 20, PART = 1 << 19, PAGE = 4096 };

static unsigned char at(size_t offset, int round) { return offset / 512 * 7 + round; }

static void fill(unsigned char *memory, int round) {
    for (size_t offset = 0; offset < BYTES; offset += 512) memset(memory + offset, at(offset, round), 512);
}

static int is(const unsigned char *memory, size_t first, size_t bytes, int round) {
    for (size_t offset = 0; offset < bytes; offset++)
        if (memory[offset] != at(first + offset, round)) return 0;
    return 1;
}

// Transfers `bytes` bytes, with two vectors on each side. Returns whether all bytes were
// transferred.
static int transfer(pid_t process, unsigned char *here, unsigned char *there, size_t bytes, int writes) {
    struct iovec local[2] = {{here, bytes / 3}, {here + bytes / 3, bytes - bytes / 3}};
    struct iovec remote[2] = {{there, bytes / 2}, {there + bytes / 2, bytes - bytes / 2}};
    ssize_t done = writes ? process_vm_writev(process, local, 2, remote, 2, 0)
                          : process_vm_readv(process, local, 2, remote, 2, 0);
    return done == (ssize_t)bytes;
}

static int reads(pid_t process, unsigned char *there, int round) {
    static unsigned char buffer[PART];
    for (size_t first = 100; first + PART <= BYTES; first += PART)
        if (!transfer(process, buffer, there + first, PART, 0) || !is(buffer, first, PART, round)) return 0;
    return 1;
}

static int writes(pid_t process, unsigned char *there, int round) {
    static unsigned char buffer[PART];
    for (size_t first = 0; first + PART <= BYTES; first += PART) {
        for (size_t offset = 0; offset < PART; offset++) buffer[offset] = at(first + offset, round);
        if (!transfer(process, buffer, there + first, PART, 1)) return 0;
    }
    return 1;
}

int main(void) {
    int up[2], down[2];
    char token = 0;
    unsigned char *memory = malloc(BYTES);
    if (pipe(up) || pipe(down)) return 1;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    fill(memory, 1);
    if (!reads(getpid(), memory, 1)) return 2;
    pid_t child = fork();
    if (child == 0) {
        fill(memory, 2);
        if (write(up[1], &token, 1) != 1 || read(down[0], &token, 1) != 1) _exit(3);
        // The parent reads the child's memory during these checks.
        for (int turn = 0; turn < 3; turn++)
            if (!is(memory, 0, BYTES, 2)) _exit(4);
        if (write(up[1], &token, 1) != 1 || read(down[0], &token, 1) != 1) _exit(5);
        _exit(is(memory, 0, BYTES, 3) ? 0 : 6);
    }
    if (read(up[0], &token, 1) != 1) return 7;
    int first = reads(child, memory, 2);
    if (write(down[1], &token, 1) != 1) return 8;
    int second = reads(child, memory, 2);
    if (read(up[0], &token, 1) != 1) return 9;
    int third = writes(child, memory, 3);
    if (write(down[1], &token, 1) != 1) return 10;
    int status;
    waitpid(child, &status, 0);
    // The kernel refuses reads of unmapped memory, and reads the bytes before that memory.
    unsigned char *edge = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + PAGE, PAGE);
    static unsigned char two[2 * PAGE];
    struct iovec local = {two, sizeof two}, remote = {edge, sizeof two};
    ssize_t part = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    struct iovec none = {edge + PAGE, PAGE};
    ssize_t refused = process_vm_readv(getpid(), &local, 1, &none, 1, 0);
    printf("read %d, beside %d, written %d, child %d, part %zd, refused %d\n", first, second, third, status,
           part, refused == -1 && errno == EFAULT);
    return 0;
}
