// Tests simple calls, made without a signal: registers, results, signals, threads, changed code.
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

#define MEMORY ((char *)0x555600000000)
#define PAGE 4096
#define PAGES 16
#define WARM 64
#define PATTERN 0x1111111111111111UL

// Words 0 to 15 are the registers, as the enum `RAX` ... below numbers them; word 16 is the flags.
struct registers {
    long general[16];
    long flags;
    char vectors[16][16];
};

// The call sites, one for each shape. The bytes after a site's `syscall` determine the address of
// the stub. The stub lies about 20 MB above the call for `cmp`, 1 GB below the call for `mov`, and
// 57 MB below the call for other shapes.
__asm__(
    ".macro shape name, lines\n"
    ".globl site_call_\\name, site_\\name\n"
    "site_call_\\name:\n"
    "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n push %rdi\n"
    "mov %rdi, %r11\n"
    ".set at, 136\n .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "movups at(%r11), %xmm\\n\n .set at, at + 16\n .endr\n"
    "cmpb $0, traps_here(%rip)\n je 1f\n int3\n 1:\n"
    "push 128(%r11)\n popfq\n"
    "mov 0(%r11), %rax\n mov 8(%r11), %rbx\n mov 24(%r11), %rdx\n mov 32(%r11), %rsi\n"
    "mov 40(%r11), %rdi\n mov 48(%r11), %rbp\n mov 56(%r11), %r8\n mov 64(%r11), %r9\n"
    "mov 72(%r11), %r10\n mov 88(%r11), %r12\n mov 96(%r11), %r13\n mov 104(%r11), %r14\n"
    "mov 112(%r11), %r15\n"
    "\\lines\n"
    "push %r11\n mov 8(%rsp), %r11\n"
    "mov %rax, 0(%r11)\n mov %rbx, 8(%r11)\n mov %rcx, 16(%r11)\n mov %rdx, 24(%r11)\n"
    "mov %rsi, 32(%r11)\n mov %rdi, 40(%r11)\n mov %rbp, 48(%r11)\n mov %r8, 56(%r11)\n"
    "mov %r9, 64(%r11)\n mov %r10, 72(%r11)\n mov %r12, 88(%r11)\n mov %r13, 96(%r11)\n"
    "mov %r14, 104(%r11)\n mov %r15, 112(%r11)\n pop 80(%r11)\n"
    "pushfq\n pop 128(%r11)\n"
    ".set at, 136\n .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
    "movups %xmm\\n, at(%r11)\n .set at, at + 16\n .endr\n"
    "pop %rdi\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
    "ret\n"
    ".endm\n"
    "shape other, \"site_other: syscall; .byte 0x66, 0x90, 0xfc\"\n"
    "shape cmp, \"site_cmp: syscall; cmp $-4095, %rax\"\n"
    "shape mov, \"site_mov: syscall; mov %rax, %rbp\"\n"
    "shape ret, \"call 2f; jmp 3f; 2: site_ret: syscall; ret; .byte 0x90, 0xfc; 3:\"\n"
    "shape pad, \".balign 32; site_pad: syscall; cmp $-4095, %rax; jmp 4f; ret; .balign 32, 0xcc; 4:\"\n");
void site_call_other(struct registers *), site_call_cmp(struct registers *);
void site_call_mov(struct registers *), site_call_ret(struct registers *);
void site_call_pad(struct registers *);
extern char site_other[], site_cmp[], site_mov[], site_ret[], site_pad[];
enum shape { OTHER, CMP, MOV, RET, PAD } shape;
static void (*const site_calls[])(struct registers *) = {
    site_call_other, site_call_cmp, site_call_mov, site_call_ret, site_call_pad};
static char *const sites[] = {site_other, site_cmp, site_mov, site_ret, site_pad};
#define site (sites[shape])
char traps_here;

enum { RAX, RBX, RCX, RDX, RSI, RDI, RBP, R8, R9, R10, R11, R12 };

static struct registers pattern(void) {
    struct registers set;
    for (int i = 0; i < 16; i++) set.general[i] = PATTERN * i + 7;
    memset(set.vectors, 0x5a, sizeof set.vectors);
    for (int i = 0; i < 16; i++) set.vectors[i][3] = i;
    set.flags = 0x202;
    return set;
}

static long call(long number, long a, long b, long c, long d) {
    struct registers set = pattern();
    long given[] = {RDI, RSI, RDX, R10}, values[] = {a, b, c, d};
    set.general[RAX] = number;
    for (int i = 0; i < 4; i++) set.general[given[i]] = values[i];
    set.general[R8] = set.general[R9] = 0;
    struct registers before = set;
    // Each flag that a computation can change is set in one of these values and clear in another.
    static __thread unsigned nth;
    static const long flags[] = {0x202, 0xad7, 0x246, 0xa02};
    before.flags = set.flags = flags[nth++ % 4];
    site_calls[shape](&set);
    unsigned long result = set.general[RAX];
    if (shape == MOV) before.general[RBP] = result;
    for (int i = 0; i < 16; i++)
        if (i != RAX && i != RCX && i != R11 && i != 15) CHECK(set.general[i] == before.general[i]);
    if (shape == CMP || shape == PAD) CHECK((set.flags & 1) == (result < -4095UL));
    else CHECK((set.flags & 0xcd5) == (before.flags & 0xcd5));
    CHECK((set.general[R11] & 0xcd5) == (before.flags & 0xcd5));
    CHECK(set.general[RCX] == (long)(site + 2));
    CHECK(memcmp(set.vectors, before.vectors, sizeof set.vectors) == 0);
    return set.general[RAX];
}

static void warm(void) {
    for (int i = 0; i < WARM; i++) CHECK(call(SYS_getpid, 0, 0, 0, 0) == getpid());
}

static int pipe_ends[2];
// The addresses of the preloaded library's code, if the library is loaded.
static char *hook, *hook_end;

static int is_of_hook(char *at) { return at >= hook && at < hook_end; }

static void find_hook(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "libcounting") && strstr(line, " r-xp "))
            CHECK(sscanf(line, "%p-%p", (void **)&hook, (void **)&hook_end) == 2);
    fclose(maps);
}

// Returns the address of the stub to which a single jump at the site would lead. The bytes after
// the call determine the distance.
static char *single_stub(void) {
    int distance;
    memcpy(&distance, site + 1, 4);
    return site + 5 + distance;
}

static char *page_of(char *at) { return (char *)((long)at & -PAGE); }

// Maps the addresses of the stub to which a single jump of shape PAD would lead.
static void occupy(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    char *page = page_of(single_stub());
    if (shape == PAD) CHECK(mmap(page, 2 * PAGE, PROT_READ, flags, -1, 0) == page);
}

static void begin(void) {
    find_hook();
    occupy();
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(MEMORY, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == MEMORY);
    CHECK(pipe(pipe_ends) == 0);
    warm();
}

static void pass(char *from, char *to, size_t bytes) {
    CHECK(call(SYS_write, pipe_ends[1], (long)from, bytes, 0) == (long)bytes);
    CHECK(call(SYS_read, pipe_ends[0], (long)to, bytes, 0) == (long)bytes);
    CHECK(memcmp(from, to, bytes) == 0);
}

static void results(void) {
    begin();
    for (int round = 0; round < 500; round++) {
        char *from = MEMORY + round * 37 % PAGE, *to = MEMORY + 8 * PAGE + round * 91 % PAGE;
        size_t bytes = round % 11 * 700 + 1;
        memset(from, round, bytes);
        from[bytes / 2] = 99;
        pass(from, to, bytes);
    }
    pass(MEMORY, MEMORY + 15 * PAGE, PAGE);
    pass(MEMORY + 16 * PAGE - 1, MEMORY, 1);
    char near[16] = "local";
    pass(near, MEMORY + 3, 6);
    CHECK(call(SYS_read, pipe_ends[0], (long)MEMORY, 0, 0) == 0);
    CHECK(call(SYS_write, pipe_ends[1], (long)MEMORY, 10, 0) == 10);
    CHECK(call(SYS_read, pipe_ends[0], 16, 10, 0) == -EFAULT);
    CHECK(call(SYS_read, pipe_ends[0], -1L, 10, 0) == -EFAULT);
    CHECK(call(SYS_read, pipe_ends[0], (long)MEMORY + 16 * PAGE - 4, 10, 0) != 0);
    CHECK(call(SYS_read, 999, (long)MEMORY, 10, 0) == -EBADF);
    CHECK(call(SYS_openat, AT_FDCWD, (long)"/no/such/file", 0, 0) == -ENOENT);
    CHECK(call(SYS_openat, AT_FDCWD, 8, 0, 0) == -EFAULT);
    long file = call(SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR, 0);
    CHECK(file > 2 && call(SYS_lseek, file, 0, SEEK_END, 0) == 0);
    CHECK(call(SYS_close, file, 0, 0, 0) == 0 && call(SYS_close, file, 0, 0, 0) == -EBADF);
    CHECK(call(SYS_fcntl, pipe_ends[0], F_SETFL, O_NONBLOCK, 0) == 0);
    CHECK(call(SYS_fcntl, pipe_ends[0], F_GETFL, 0, 0) == O_NONBLOCK);
    CHECK(call(SYS_read, pipe_ends[0], (long)MEMORY, 10, 0) == -EAGAIN);
    CHECK(call(SYS_fcntl, pipe_ends[0], F_SETFL, 0, 0) == 0);
    CHECK(call(SYS_fcntl, 999, F_GETFL, 0, 0) == -EBADF);
    long copy = call(SYS_fcntl, pipe_ends[0], F_DUPFD_CLOEXEC, 100, 0);
    CHECK(copy >= 100 && call(SYS_fcntl, copy, F_GETFD, 0, 0) == FD_CLOEXEC);
    CHECK(call(SYS_fcntl, copy, F_SETFD, 0, 0) == 0 && call(SYS_fcntl, copy, F_GETFD, 0, 0) == 0);
    CHECK(call(SYS_close, copy, 0, 0, 0) == 0);
    CHECK(call(SYS_fcntl, pipe_ends[0], -1, 0, 0) == -EINVAL);
    CHECK(call(100000, 0, 0, 0, 0) == -ENOSYS && call(-1, 0, 0, 0, 0) == -ENOSYS);
}

static volatile sig_atomic_t signals;

static void on_time(int signal, siginfo_t *info, void *context) {
    mcontext_t *it = &((ucontext_t *)context)->uc_mcontext;
    char *rip = (char *)it->gregs[REG_RIP];
    // The handler sees an instruction of this program or of a library, but never of a stub or a
    // tail. Tails lie in the hook's library.
    char *stub = single_stub();
    CHECK(rip < stub || rip >= stub + 24);
    if (shape == PAD) CHECK(rip <= site + 10 || rip >= site + 32);
    CHECK(!is_of_hook(rip));
    if (rip == site || rip == site + 2) {
        long rax = it->gregs[REG_RAX];
        CHECK((unsigned long)it->gregs[REG_RBX] == PATTERN + 7);
        CHECK((unsigned long)it->gregs[REG_R12] == PATTERN * R12 + 7);
        CHECK(rip == site ? rax == SYS_read || rax == SYS_write : rax > 0 || rax == -EINTR);
        if (rip != site) CHECK(it->gregs[REG_RCX] == (long)rip);
    }
    signals++;
}

static void storm(void) {
    begin();
    on(SIGALRM, on_time, SA_RESTART);
    every(200);
    for (int round = 0; round < 20000 || signals < 200; round++) {
        pass(MEMORY + round % PAGES * 255, MEMORY + 8 * PAGE + round % 4000, 3000);
    }
    every(0);
}

static void on_sent(int signal, siginfo_t *info, void *context) { signals++; }

// Sends SIGTRAP to the thread `other`, and later ends its `read`.
static void *traps_other(void *other) {
    usleep(20000);
    pthread_kill(*(pthread_t *)other, SIGTRAP);
    usleep(20000);
    CHECK(write(pipe_ends[1], "x", 1) == 1);
    return NULL;
}

static void sent(void) {
    begin();
    on(SIGTRAP, on_sent, SA_RESTART);
    pthread_t self = pthread_self(), thread;
    CHECK(pthread_create(&thread, NULL, traps_other, &self) == 0);
    CHECK(call(SYS_read, pipe_ends[0], (long)MEMORY, 10, 0) == 1 && signals == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    // A call with an invalid buffer is made only once.
    int counter = eventfd(1, EFD_NONBLOCK);
    for (int i = 0; i < 3; i++) {
        long result = call(SYS_read, counter, (long)site & -PAGE, 8, 0);
        printf("%ld\n", result);
    }
}

static void write_later(void *ignored) {
    (void)ignored;
    usleep(30000);
    CHECK(write(pipe_ends[1], "x", 1) == 1);
}

static void *writer(void *ignored) {
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    write_later(ignored);
    return NULL;
}

static void waits(void) {
    begin();
    for (int flags = 0; flags < 2; flags++) {
        on(SIGALRM, on_time, flags ? SA_RESTART : 0);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, writer, NULL) == 0);
        struct itimerval timer = {{0, 0}, {0, 5000}};
        CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
        long result = call(SYS_read, pipe_ends[0], (long)MEMORY, 10, 0);
        printf("flags %d: %ld\n", flags, result);
        CHECK(pthread_join(thread, NULL) == 0);
        if (result != 1) CHECK(call(SYS_read, pipe_ends[0], (long)MEMORY, 10, 0) == 1);
    }
}

static void *passes(void *at) {
    char *memory = at;
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int round = 0; round < 4000; round++) {
        size_t bytes = round % 9 * 900 + 1;
        memset(memory, round, bytes);
        CHECK(call(SYS_write, ends[1], (long)memory, bytes, 0) == (long)bytes);
        CHECK(call(SYS_read, ends[0], (long)memory + 20, bytes, 0) == (long)bytes);
        CHECK(memory[20] == (char)round && memory[19 + bytes] == (char)round);
    }
    return NULL;
}

static void threads(void) {
    begin();
    on(SIGALRM, on_time, SA_RESTART);
    every(300);
    pthread_t made[4];
    for (int i = 0; i < 4; i++)
        // Neighbouring buffers share a block, but no bytes.
        CHECK(pthread_create(&made[i], NULL, passes, MEMORY + i * 7300) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(made[i], NULL) == 0);
    every(0);
}

static void forks(void) {
    begin();
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int k = 0; k < 100; k++) {
                CHECK(call(SYS_getpid, 0, 0, 0, 0) == getpid());
                pass(MEMORY, MEMORY + PAGE, 100);
            }
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
        CHECK(call(SYS_getpid, 0, 0, 0, 0) == getpid());
    }
}

static void changes(void) {
    begin();
    char *page = page_of(site);
    // A program that makes its code writable finds the original instructions in the code.
    // `mprotect` changes the whole page, although the length is 1.
    CHECK(mprotect(page, 1, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    CHECK((site[0] & 255) == 0x0f && site[1] == 0x05);
    warm();
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0);
    warm();
}

// Returns the page of the stubs to which pads lead. Without the hook, returns a page that is free.
static char *stubs_of_pads(void) {
    if ((site[0] & 255) != 0xeb) return page_of(site) - (64 << 10);
    char *pad = site + 2 + site[1];
    CHECK((pad[0] & 255) == 0xe9);
    int distance;
    memcpy(&distance, pad + 1, 4);
    return page_of(pad + 5 + distance);
}

// Threads make calls while the site is replaced and restored.
static volatile int is_over;

static void *hammers(void *ignored) {
    while (!is_over) CHECK(call(SYS_getpid, 0, 0, 0, 0) == getpid());
    return ignored;
}

static void races(void) {
    find_hook();
    occupy();
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t made[3];
            for (int k = 0; k < 3; k++) CHECK(pthread_create(&made[k], NULL, hammers, NULL) == 0);
            usleep(i * 200);
            CHECK(mprotect(page_of(site), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
            usleep(1000);
            is_over = 1;
            for (int k = 0; k < 3; k++) CHECK(pthread_join(made[k], NULL) == 0);
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
}

static void stubs(void) {
    begin();
    char *page = shape == PAD ? stubs_of_pads() : page_of(single_stub());
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(page, 2 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == page);
    warm();
    for (int i = 0; i < 2 * PAGE; i++) CHECK(page[i] == 0);
    CHECK(munmap(page, 2 * PAGE) == 0);
    warm();
}

static void on_trap(int signal, siginfo_t *info, void *context) {
    mcontext_t *it = &((ucontext_t *)context)->uc_mcontext;
    printf("trap at %ld, %ld, number %ld\n", (long)info->si_call_addr - (long)site,
           (long)it->gregs[REG_RIP] - (long)site, (long)it->gregs[REG_RAX] - SYS_getuid);
    it->gregs[REG_RAX] = 4711;
}

static void filter(void) {
    begin();
    on(SIGSYS, on_trap, 0);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(call(SYS_getuid, 0, 0, 0, 0) == 4711);
    // During these calls the hook makes no other system call, because the filter would not allow
    // it.
    for (int i = 0; i < WARM; i++) CHECK(lseek(pipe_ends[0], 0, SEEK_CUR) == -1);
    warm();
}

// Makes calls with a stack pointer below which no memory is accessible.
static long on_edge(char *top) {
    long result;
    __asm__ volatile(
        "mov %%rsp, %%rbx\n mov %2, %%rsp\n mov $39, %%eax\n jmp 2f\n"
        "1: mov %%rbx, %%rsp\n jmp 3f\n"
        "2: syscall\n .byte 0x66, 0x90, 0xfc\n jmp 1b\n 3:\n"
        : "=a"(result) : "0"(39), "r"(top) : "rbx", "rcx", "r11", "memory");
    return result;
}

static void edge(void) {
    char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && mprotect(page, PAGE, PROT_NONE) == 0);
    for (int i = 0; i < WARM; i++) CHECK(on_edge(page + PAGE + i) == getpid());
}

// The number of single steps before a signal, in the last round of `stepped` and in the first. With
// one thread, the steps of the last round end after the call. All shapes have the same instructions
// up to the call.
#define STEPS_MAX (shape == OTHER ? 110 : 100)
#define STEPS_MIN (shape == OTHER ? 1 : 72)
#define FLAGS_AT offsetof(struct user, regs.eflags)

static void *sleeps(void *ignored) {
    for (;;) pause();
    return ignored;
}

// Each round makes two calls, and the process traps shortly before each call.
static void stepped(int threads) {
    begin();
    on(SIGALRM, on_time, SA_RESTART);
    pthread_t thread;
    if (threads > 1) CHECK(pthread_create(&thread, NULL, sleeps, NULL) == 0);
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    for (int round = STEPS_MIN - 1; round < STEPS_MAX; round++) {
        char *from = MEMORY + PAGE - 100 + round % 3 * 50, *to = MEMORY + 9 * PAGE - 20;
        memset(from, round + 1, 150);
        traps_here = 1;
        pass(from, to, 150);
        traps_here = 0;
    }
    CHECK(signals > STEPS_MAX - STEPS_MIN);
    _exit(5);
}

// Interrupts a child by SIGALRM after each instruction of its calls in turn.
static void steps_of(int threads) {
    pid_t child = fork();
    if (child == 0) stepped(threads);
    int status, trap = 2 * STEPS_MIN - 3, left = 0;
    for (;;) {
        CHECK(waitpid(child, &status, 0) == child);
        if (!WIFSTOPPED(status)) break;
        int signal = WSTOPSIG(status), is_trap = signal == SIGTRAP;
        if (is_trap && left == 0) left = ++trap / 2 + 1;
        if (left > 1 && (is_trap || signal == SIGSYS)) {
            left -= is_trap;
            CHECK(ptrace(PTRACE_SINGLESTEP, child, 0, is_trap ? 0 : signal) == 0);
        } else if (is_trap) {
            left = 0;
            // A step over popfq would leave the single-step flag set.
            long flags = ptrace(PTRACE_PEEKUSER, child, FLAGS_AT, 0);
            CHECK(ptrace(PTRACE_POKEUSER, child, FLAGS_AT, flags & ~0x100L) == 0);
            CHECK(ptrace(PTRACE_CONT, child, 0, SIGALRM) == 0);
        } else {
            CHECK(ptrace(PTRACE_CONT, child, 0, signal) == 0);
        }
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

static void steps(void) {
    steps_of(1);
    steps_of(2);
}

// In the test `traps`, the program single-steps its own instructions.
static volatile long stepped_over;

static void on_step(int signal, siginfo_t *info, void *context) { stepped_over++; }

static void traps(void) {
    begin();
    on(SIGTRAP, on_step, 0);
    struct registers set = pattern();
    set.general[RAX] = SYS_getpid;
    set.flags = 0x302;
    site_calls[shape](&set);
    __asm__ volatile("pushfq\n andl $~0x100, (%%rsp)\n popfq" ::: "cc", "memory");
    CHECK(set.general[RAX] == getpid() && stepped_over > 10);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    const char *test = argv[1];
    const char *shapes[] = {"other", "cmp", "mov", "ret", "pad"};
    while (strcmp(shapes[shape], argv[2]) != 0) shape++;
    struct { const char *name; void (*run)(void); } tests[] = {
        {"results", results}, {"storm", storm}, {"waits", waits}, {"threads", threads},
        {"forks", forks}, {"changes", changes}, {"stubs", stubs}, {"filter", filter}, {"edge", edge},
        {"sent", sent}, {"steps", steps}, {"traps", traps}, {"races", races},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(test, tests[i].name) == 0) tests[i].run();
    printf("end of %s\n", test);
    return 0;
}
