// Tests threads and processes: each kind of clone, registers, stacks, and many children at once.
#include "common.h"
#include <sys/prctl.h>

static volatile int begun;
static volatile sig_atomic_t count;
static char child_stack[65536] __attribute__((aligned(16)));

static int mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0;
    for (int c; (c = fgetc(maps)) != EOF;) lines += c == '\n';
    fclose(maps);
    return lines;
}

static void wait_for(pid_t child, const char *what) {
    int status;
    CHECK(waitpid(child, &status, __WALL) == child);
    printf("%s: %x\n", what, status);
}

static int raw_child(void *argument) {
    // The child uses its parent's thread-local storage, so it calls only `syscall` in libc.
    for (int i = 0; i < 100; i++) begun += syscall(SYS_getpid) > 0;
    syscall(SYS_exit, 5);
    return 0;
}

static void raw(void) {
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    volatile int tid = 1;
    CHECK(clone(raw_child, child_stack + sizeof child_stack, flags | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID,
                NULL, NULL, NULL, &tid) > 0);
    while (begun < 100) sched_yield();
    while (tid != 0) sched_yield();
    printf("begun %d\n", begun);
    begun = 0;
    wait_for(clone(raw_child, child_stack + sizeof child_stack, CLONE_VM | SIGCHLD, NULL), "shares");
    printf("begun %d\n", begun);
    wait_for(clone(raw_child, child_stack + sizeof child_stack, SIGCHLD, NULL), "copies");
    wait_for(clone(raw_child, child_stack + sizeof child_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL), "vfork");
    unsigned long bad[11] = {CLONE_THREAD};
    CHECK(syscall(SYS_clone3, bad, 8) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_clone3, bad, sizeof bad) == -1 && errno == EINVAL);
    unsigned long three[11] = {0, 0, 0, 0, SIGCHLD};
    long child = syscall(SYS_clone3, three, sizeof three);
    if (child == 0) _exit(9);
    wait_for(child, "clone3");
}

static void counts(int signal, siginfo_t *info, void *context) { count++; }

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ull
#endif

// Creates a child whose signal handlers are reset.
static __attribute__((noinline)) void cleared(unsigned long flags) {
    unsigned long three[11] = {flags, 0, 0, 0, SIGCHLD};
    long child = SYS_clone3;
    __asm__ volatile("syscall" : "+a"(child) : "D"(three), "S"(sizeof three) : "rcx", "r11", "memory");
    if (child == 0) {
        struct sigaction seen;
        int is_default = sigaction(SIGUSR1, NULL, &seen) == 0 && seen.sa_handler == SIG_DFL;
        if (is_default) raise(SIGUSR1);
        _exit(50);
    }
    wait_for(child, "without handlers");
}

static void vforks(void) {
    on(SIGUSR1, counts, 0);
    char *words[] = {"sh", "-c", "echo spawned; exit 4", NULL};
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t child = vfork();
        if (child == 0) {
            signal(SIGUSR1, SIG_IGN); // This changes only the child's action.
            execve("/nowhere", words, environ);
            execve("/bin/sh", words, environ);
            _exit(99);
        }
        wait_for(child, "vfork and exec");
        child = vfork();
        if (child == 0) _exit(6);
        wait_for(child, "vfork and exit");
        posix_spawnattr_t attributes;
        posix_spawnattr_init(&attributes);
        sigset_t all;
        sigfillset(&all);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
        CHECK(posix_spawn(&child, "/bin/sh", NULL, &attributes, words, environ) == 0);
        wait_for(child, "spawn");
    }
    // Checks that a child that shared memory leaves no mapping when it ends.
    int before = mappings();
    for (int i = 0; i < 40; i++) {
        pid_t child = vfork();
        if (child == 0) _exit(0);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    printf("given back %d\n", mappings() <= before + 6);
    cleared(CLONE_CLEAR_SIGHAND);
    cleared(CLONE_CLEAR_SIGHAND | CLONE_VM | CLONE_VFORK);
    struct sigaction seen;
    CHECK(sigaction(SIGUSR1, NULL, &seen) == 0);
    raise(SIGUSR1);
    printf("own action %d, came %d\n", seen.sa_sigaction == counts, count);
}

// load(in, out): loads every register except rax, rcx, r11 and rsp from `in`, makes a call, and
// stores the registers to `out`.
void load(const uint64_t *in, uint64_t *out);
__asm__(".globl load\nload:\n"
    "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %rsi\n"
    "mov %rdi, %r11\n"
    "mov (%r11), %rbx; mov 8(%r11), %rbp; mov 16(%r11), %r12; mov 24(%r11), %r13\n"
    "mov 32(%r11), %r14; mov 40(%r11), %r15; mov 48(%r11), %rdi; mov 56(%r11), %rsi\n"
    "mov 64(%r11), %rdx; mov 72(%r11), %r10; mov 80(%r11), %r8; mov 88(%r11), %r9\n"
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "movq 96+\\n*8(%r11), %xmm\\n\n.endr\n"
    "movq $-1, -128(%rsp)\n"
    "mov $39, %eax; syscall\n"
    "mov (%rsp), %rcx\n"
    "mov %rbx, (%rcx); mov %rbp, 8(%rcx); mov %r12, 16(%rcx); mov %r13, 24(%rcx)\n"
    "mov %r14, 32(%rcx); mov %r15, 40(%rcx); mov %rdi, 48(%rcx); mov %rsi, 56(%rcx)\n"
    "mov %rdx, 64(%rcx); mov %r10, 72(%rcx); mov %r8, 80(%rcx); mov %r9, 88(%rcx)\n"
    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "movq %xmm\\n, 96+\\n*8(%rcx)\n.endr\n"
    "mov %rax, 224(%rcx); mov -128(%rsp), %rax; mov %rax, 232(%rcx)\n"
    "add $8, %rsp; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");

static ucontext_t here, there;
static unsigned char small[32768] __attribute__((aligned(64)));

static void on_small(void) {
    long result = 39;
    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    CHECK(result == getpid());
}

static void clobbers(int signal, siginfo_t *info, void *context) {
    count++;
    __asm__ volatile(".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
                     "pcmpeqd %%xmm\\n, %%xmm\\n\n.endr\n" : : : "memory");
}

static void registers(void) {
    uint64_t in[28], out[30];
    on(SIGALRM, clobbers, 0);
    every(200);
    for (int i = 0; i < 28; i++) in[i] = 0x1111111111111111ull * (i % 14 + 1) + i;
    for (int round = 0; round < 1000 || count < 50; round++) {
        memset(out, 0, sizeof out);
        load(in, out);
        CHECK(memcmp(in, out, sizeof in) == 0);
        CHECK(out[28] == (uint64_t)getpid() && out[29] == UINT64_MAX);
    }
    every(0);
    // Checks that only code of the program writes to the program's stacks.
    memset(small, 0xa5, sizeof small);
    CHECK(getcontext(&there) == 0);
    there.uc_stack = (stack_t){.ss_sp = small, .ss_size = sizeof small};
    there.uc_link = &here;
    makecontext(&there, on_small, 0);
    CHECK(swapcontext(&here, &there) == 0);
    unsigned used = 0;
    while (used < sizeof small && small[used] == 0xa5) used++;
    printf("little is used: %d\n", sizeof small - used < 1024);
}

static void execs(void) {
    if (getenv("AGAIN")) return print_mask("after exec");
    sigset_t set = set_of(SIGUSR1, SIGSEGV);
    CHECK(sigprocmask(SIG_SETMASK, &set, NULL) == 0);
    setenv("AGAIN", "1", 1);
    char *words[] = {"children", "execs", NULL};
    CHECK(execve("/nowhere", words, environ) == -1 && errno == ENOENT);
    print_mask("before exec");
    execve("/proc/self/exe", words, environ);
}

static void *works(void *argument) { count += getppid() > 0; return argument; }
static void *sleeps(void *argument) {
    for (;;) pause();
    return NULL;
}

static void threads(void) {
    pthread_t thread;
    int before = 0;
    for (int i = 0; i < 300; i++) {
        CHECK(pthread_create(&thread, NULL, works, &before) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        if (i == 20) before = mappings();
    }
    // A thread's memory may be unmapped shortly after `pthread_join` has returned.
    for (int i = 0; i < 1000 && mappings() > before + 6; i++) usleep(1000);
    printf("given back %d\n", mappings() <= before + 6);
    void *result;
    CHECK(pthread_create(&thread, NULL, sleeps, NULL) == 0);
    usleep(1000);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    printf("cancelled %d\n", result == PTHREAD_CANCELED);
}

static void *strains(void *argument) {
    uintptr_t seed = (uintptr_t)argument;
    for (int i = 0; i < 60; i++) {
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
        page[0] = seed;
        int ends[2];
        CHECK(pipe(ends) == 0);
        pthread_kill(pthread_self(), SIGUSR1);
        if (i % 12 == (int)(seed % 12)) {
            pid_t child = fork();
            if (child == 0) {
                char byte = 'c';
                _exit(write(ends[1], &byte, 1) == 1 && getpid() > 0 ? 7 : 8);
            }
            int status, result;
            while ((result = waitpid(child, &status, 0)) == -1 && errno == EINTR) {}
            CHECK(result == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
        } else {
            CHECK(syscall(SYS_write, ends[1], &page[0], 1) == 1);
        }
        char byte;
        long got;
        while ((got = syscall(SYS_read, ends[0], &byte, 1)) == -1 && errno == EINTR) {}
        CHECK(got == 1);
        struct timespec short_time = {0, 20000};
        nanosleep(&short_time, NULL);
        close(ends[0]);
        close(ends[1]);
        CHECK(munmap(page, 4096) == 0);
    }
    return NULL;
}

static void stress(void) {
    pthread_t all[16];
    on(SIGALRM, counts, 0);
    on(SIGUSR1, counts, SA_RESTART);
    every(500);
    for (uintptr_t i = 0; i < 16; i++) CHECK(pthread_create(&all[i], NULL, strains, (void *)i) == 0);
    for (int i = 0; i < 16; i++) CHECK(pthread_join(all[i], NULL) == 0);
    every(0);
    printf("signals came %d\n", count >= 16);
}

static void *stays(void *argument) {
    usleep(100000);
    printf("stays\n");
    _exit(6);
}

static void leaves(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stays, NULL) == 0);
    syscall(SYS_exit, 3);
}

static void dispatch(void) {
    char selector = 0;
    int result = prctl(59, 1, 0, 0, &selector);
    printf("%d %d\n", result, errno);
}

// Makes calls that the hook changes or does not issue, and accesses a page that the hook maps: see
// `counting.rs`.
static void meddled(void) {
    char *page = (char *)0x555500000000;
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "abc", 3) == 3);
    printf("%d %d\n", getppid(), getpgrp() == getpid());
    printf("%d\n", getuid());
    CHECK(read(ends[0], page, 1) == 1 && page[0] == 'a');
    CHECK(munmap(page, 4096) == 0);
    page[1] = 5;
    CHECK(page[1] == 5 && munmap(page, 4096) == 0);
    // Code of `dispatch`, not the kernel, reads the signal set in the unmapped page.
    CHECK(sigprocmask(SIG_BLOCK, (sigset_t *)page, NULL) == 0);
    print_mask("mask");
}

int main(int argc, char **argv) {
    const struct program programs[] = {
        {"raw", raw},         {"vforks", vforks}, {"registers", registers}, {"execs", execs},
        {"threads", threads}, {"stress", stress}, {"leaves", leaves},       {"dispatch", dispatch},
        {"meddled", meddled},
        {NULL, NULL},
    };
    return run_one(programs, argv[1]);
}
