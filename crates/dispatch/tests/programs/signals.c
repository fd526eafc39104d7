// Tests signals: stacks, masks, jumps out of handlers, and restarted calls.
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static volatile sig_atomic_t count;
static char stack[65536];
static int ends[2];
static sigjmp_buf back;

static void counts(int signal, siginfo_t *info, void *context) { count++; }

static void looks_at_stack(int signal, siginfo_t *info, void *context) {
    char here;
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0);
    ucontext_t *uc = context;
    printf("inside %d, flags %d, told %d\n", &here >= stack && &here < stack + sizeof stack,
           now.ss_flags, uc->uc_stack.ss_sp == stack);
    CHECK(getppid() > 0);
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    printf("changed %d\n", sigaltstack(&other, NULL) == -1 && errno == EPERM ? -1 : 0);
}

static void altstack(void) {
    stack_t ours = {.ss_sp = stack, .ss_size = sizeof stack}, seen;
    CHECK(sigaltstack(NULL, &seen) == 0);
    printf("before %d\n", seen.ss_flags);
    CHECK(sigaltstack(&ours, NULL) == 0);
    on(SIGUSR1, looks_at_stack, SA_ONSTACK);
    raise(SIGUSR1);
    on(SIGUSR1, counts, 0);
    raise(SIGUSR1);
    CHECK(sigaltstack(NULL, &seen) == 0);
    printf("after %d %d %d\n", seen.ss_flags, seen.ss_sp == stack, (int)seen.ss_size);
    ours.ss_size = 100;
    printf("small %d %d\n", sigaltstack(&ours, NULL), errno);
}

static void jumps_back(int signal, siginfo_t *info, void *context) { siglongjmp(back, 1); }

static void jump(void) {
    char byte;
    CHECK(pipe(ends) == 0);
    on(SIGALRM, jumps_back, 0);
    for (volatile int i = 0; i < 300; i++) {
        if (sigsetjmp(back, 1) == 0) {
            every(300);
            syscall(SYS_read, ends[0], &byte, 1);
            CHECK(0);
        }
        every(0);
    }
    CHECK(syscall(SYS_write, ends[1], "x", 1) == 1 && syscall(SYS_read, ends[0], &byte, 1) == 1);
    print_mask("mask");
}

static void writes(int signal, siginfo_t *info, void *context) {
    if (++count == 5) CHECK(syscall(SYS_write, ends[1], "x", 1) == 1);
}

static void restart(void) {
    char byte;
    CHECK(pipe(ends) == 0);
    on(SIGALRM, writes, SA_RESTART);
    every(2000);
    CHECK(syscall(SYS_read, ends[0], &byte, 1) == 1);
    CHECK(count >= 5);
    on(SIGALRM, counts, 0);
    CHECK(syscall(SYS_read, ends[0], &byte, 1) == -1 && errno == EINTR);
    struct timespec second = {5, 0}, rest = {0, 0};
    CHECK(nanosleep(&second, &rest) == -1 && errno == EINTR && rest.tv_sec > 1);
    struct pollfd fd = {ends[0], POLLIN, 0};
    CHECK(syscall(SYS_poll, &fd, 1, 5000) == -1 && errno == EINTR);
    every(0);
}

static void inner(int signal, siginfo_t *info, void *context) { print_mask("inner"); }

static void outer(int signal, siginfo_t *info, void *context) {
    print_mask("outer");
    raise(SIGUSR2);
    if (count++ < 2) { // The signal is blocked, and arrives once, after this handler returns.
        raise(SIGUSR1);
        raise(SIGUSR1);
    }
    printf("info %d %d %d\n", info->si_signo, info->si_code, info->si_value.sival_int);
}

static void nested(void) {
    struct sigaction action = {.sa_sigaction = outer, .sa_flags = SA_SIGINFO}, seen;
    action.sa_mask = set_of(SIGSYS, SIGTERM);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR1, NULL, &seen) == 0);
    printf("seen %d %d %d\n", seen.sa_sigaction == outer, sigismember(&seen.sa_mask, SIGSYS),
           seen.sa_flags & (SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART));
    on(SIGUSR2, inner, SA_NODEFER | SA_RESETHAND);
    union sigval value = {.sival_int = 77};
    on(SIGUSR2, inner, SA_NODEFER);
    CHECK(sigqueue(getpid(), SIGUSR1, value) == 0);
    print_mask("end");
    on(SIGUSR2, inner, SA_RESETHAND);
    raise(SIGUSR2);
    CHECK(sigaction(SIGUSR2, NULL, &seen) == 0);
    printf("reset %d\n", seen.sa_handler == SIG_DFL);
}

static void prints(int signal, siginfo_t *info, void *context) {
    printf("signal %d code %d\n", signal, info->si_code);
    print_mask("in handler");
}

static void sigsys(void) {
    int ours[] = {SIGSYS, SIGSEGV, SIGBUS};
    for (int i = 0; i < 3; i++) {
        on(ours[i], prints, 0);
        raise(ours[i]);
        sigset_t set = set_of(ours[i], SIGUSR1), before, pending;
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        raise(ours[i]);
        CHECK(sigpending(&pending) == 0);
        printf("pending %d\n", sigismember(&pending, ours[i]));
        CHECK(sigprocmask(SIG_UNBLOCK, &set, &before) == 0);
        printf("was blocked %d\n", sigismember(&before, ours[i]));
    }
    signal(SIGSYS, SIG_IGN);
    raise(SIGSYS);
}

static void heals(int signal, siginfo_t *info, void *context) {
    count++;
    CHECK(mprotect((void *)((uintptr_t)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE) == 0);
}

static void faults(void) {
    char *page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    on(SIGSEGV, heals, 0);
    page[1] = 1;
    page[5000] = 2;
    printf("%d %d, healed %d\n", page[1], page[5000], count);
    on(SIGSEGV, jumps_back, 0);
    for (volatile int i = 0; i < 100; i++)
        if (sigsetjmp(back, 1) == 0) { *(volatile char *)8 = 1; CHECK(0); }
    print_mask("mask");
    CHECK(syscall(SYS_rt_sigprocmask, 0, 8, 0, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, 8, 0, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigaction, 65, 0, 0, 8) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_sigaltstack, 8, 0) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_read, 0, 8, 1) == -1 || 1);
}

static void waits(void) {
    on(SIGALRM, prints, 0);
    sigset_t blocked = set_of(SIGALRM, SIGUSR2), temporary = set_of(SIGUSR1, SIGSEGV);
    CHECK(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
    ualarm(20000, 0);
    CHECK(sigsuspend(&temporary) == -1 && errno == EINTR);
    ualarm(20000, 0);
    CHECK(ppoll(NULL, 0, NULL, &temporary) == -1 && errno == EINTR);
    ualarm(20000, 0);
    CHECK(pselect(0, NULL, NULL, NULL, NULL, &temporary) == -1 && errno == EINTR);
    print_mask("after");
    int signal = 0;
    ualarm(20000, 0);
    CHECK(sigwait(&blocked, &signal) == 0);
    printf("waited for %d\n", signal);
    int fd = signalfd(-1, &blocked, 0);
    ualarm(20000, 0);
    struct signalfd_siginfo info;
    CHECK(read(fd, &info, sizeof info) == sizeof info);
    printf("read %d\n", info.ssi_signo);
}

static void answers(int signal, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    printf("signal %d code %d call %d\n", signal, info->si_code, info->si_syscall == SYS_getppid);
    printf("behind %d\n", uc->uc_mcontext.gregs[REG_RIP] == (long)info->si_call_addr);
    uc->uc_mcontext.gregs[REG_RAX] = 4242;
}

static void filter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, code};
    on(SIGSYS, answers, 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    for (int i = 0; i < 3; i++) printf("%ld\n", syscall(SYS_getppid));
}

#define STORM_CALLS 60000
static volatile int storm_ends;
static pthread_t stormed;

static void *storms(void *unused) {
    for (unsigned nth = 0; !storm_ends; nth++)
        pthread_kill(stormed, nth / 999 % 2 ? SIGBUS : SIGSEGV);
    return NULL;
}

// Sends many SIGBUS and SIGSEGV signals while the handler of `dispatch` returns. The frames of the
// signals must not fill the stack. Later calls must still be dispatched.
static void storm(void) {
    pthread_t thread;
    on(SIGBUS, counts, 0);
    on(SIGSEGV, counts, 0);
    stormed = pthread_self();
    CHECK(pthread_create(&thread, NULL, storms, NULL) == 0);
    for (int i = 0; i < STORM_CALLS || count == 0; i++) CHECK(syscall(SYS_getppid) > 0);
    storm_ends = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    printf("came %d\n", count > 0);
}

int main(int argc, char **argv) {
    const struct program programs[] = {
        {"altstack", altstack}, {"jump", jump},     {"restart", restart}, {"nested", nested},
        {"sigsys", sigsys},     {"faults", faults}, {"waits", waits},     {"filter", filter},
        {"storm", storm},
        {NULL, NULL},
    };
    return run_one(programs, argv[1]);
}
