// Executes programs in every way that the system offers. Checks that each executed program has no
// unexpected child, and inherits the signal mask and pending signals. Also checks that failed calls
// return errors. Usage: executes ROUNDS
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(it) do { if (!(it)) { printf("%d: %s, %s\n", __LINE__, #it, strerror(errno)); exit(1); } } while (0)
#define HEAP (4 << 20)

static char *own;
static char **environment;

// Checks that the process has no child, including children that send no signal when they end.
static void has_no_child(void) {
    CHECK(waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD);
}

static int is_blocked(int signal) {
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    return sigismember(&mask, signal);
}

// Returns whether the process has every capability that it can have.
static int has_capabilities(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    CHECK(!syscall(SYS_capget, &head, sets));
    int has_all = 1;
    for (int nth = 0; nth < 64; nth++)
        if (prctl(PR_CAPBSET_READ, nth) == 1) has_all &= sets[nth / 32].permitted >> (nth % 32) & 1;
    return has_all;
}

// Checks a program that was executed by the method `how`.
static int child(const char *how) {
    int is_left = !strcmp(how, "left");
    if (!is_left) has_no_child();
    sigset_t pending;
    sigpending(&pending);
    int is_masked = !strcmp(how, "masked");
    CHECK(is_blocked(SIGUSR2) == is_masked && sigismember(&pending, SIGUSR2) == is_masked);
    CHECK(!is_blocked(SIGSEGV) && !is_blocked(SIGSYS));
    // The SIGCHLD of a child that was not waited for stays pending. No SIGCHLD of the helper that
    // injects a host is pending.
    CHECK(sigismember(&pending, SIGCHLD) == is_left && is_blocked(SIGCHLD) == (is_masked || is_left));
    CHECK(!is_left || waitpid(-1, NULL, WNOHANG) > 0);
    CHECK(strcmp(how, "traps") || signal(SIGTRAP, SIG_IGN) == SIG_IGN);
    CHECK(strcmp(how, "capabilities") || geteuid() || has_capabilities());
    char *memory = malloc(HEAP);
    memset(memory, 7, HEAP);
    for (int nth = 0; nth < HEAP; nth += 4096) CHECK(memory[nth] == 7);
    char exe[4096] = "";
    CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0 && !strcmp(exe, own));
    return 42;
}

// Drops an arbitrary capability, and the capability to trace any process.
static void give_up_capabilities(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    CHECK(!syscall(SYS_capget, &head, sets));
    sets[0].permitted &= ~(1u << CAP_SYS_PTRACE | 1u << CAP_CHOWN);
    sets[0].effective = sets[0].inheritable = 0;
    sets[1].inheritable = 0;
    CHECK(!syscall(SYS_capset, &head, sets));
}

static void block(int signal) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    sigprocmask(SIG_BLOCK, &one, NULL);
}

static void nothing(int signal) {
    (void)signal;
}

static void *sends(void *to) {
    for (;;) pthread_kill(*(pthread_t *)to, SIGURG);
    return NULL;
}

static void ends_well(pid_t process) {
    int status;
    CHECK(process > 0 && waitpid(process, &status, 0) == process);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 42) printf("status %x\n", status), exit(1);
}

static void *executes(void *how) {
    execl(own, "executes", "child", how, NULL);
    _exit(3);
}

static void *spins(void *stop) {
    while (!*(volatile int *)stop) sched_yield();
    return NULL;
}

static pid_t forked(const char *how) {
    pid_t process = fork();
    if (process) return process;
    static int never;
    pthread_t thread;
    if (!strcmp(how, "masked")) {
        block(SIGUSR2);
        block(SIGCHLD);
        raise(SIGUSR2);
    } else if (!strcmp(how, "left")) {
        block(SIGCHLD);
        pid_t ended = fork();
        if (!ended) _exit(0);
        siginfo_t info;
        CHECK(!waitid(P_PID, ended, &info, WEXITED | WNOWAIT));
    } else if (!strcmp(how, "traps")) {
        signal(SIGTRAP, SIG_IGN);
    } else if (!strcmp(how, "capabilities") && !geteuid()) {
        give_up_capabilities();
    } else if (!strcmp(how, "signals")) {
        // The thread that receives signals all the time. The executed program ignores these
        // signals.
        static pthread_t self;
        self = pthread_self();
        signal(SIGURG, nothing);
        pthread_create(&thread, NULL, sends, &self);
    } else if (!strcmp(how, "threads")) {
        for (int nth = 0; nth < 3; nth++) pthread_create(&thread, NULL, spins, &never);
        pthread_create(&thread, NULL, executes, (void *)how);
        pause();
    } else if (!strcmp(how, "descriptor")) {
        int file = open(own, O_RDONLY | O_CLOEXEC);
        char *const arguments[] = {"executes", "child", (char *)how, NULL};
        syscall(SYS_execveat, file, "", arguments, environment, AT_EMPTY_PATH);
        _exit(4);
    } else if (!strcmp(how, "link")) {
        execl("/proc/self/exe", "executes", "child", how, NULL);
        _exit(5);
    }
    executes((void *)how);
    _exit(6);
}

// Executes a program from a child of `vfork`, which uses the memory of its parent, as in a shell.
static pid_t vforked(void) {
    pid_t process = vfork();
    if (!process) {
        execl(own, "executes", "child", "vforked", NULL);
        _exit(7);
    }
    return process;
}

static void *vforks(void *rounds) {
    for (int nth = *(int *)rounds; nth > 0; nth--) ends_well(vforked());
    return NULL;
}

// Ignored signals, and signals that stop the process, arrive at any time during an `execve`.
static void disturbed(int rounds) {
    for (int nth = 0; nth < rounds; nth++) {
        signal(SIGUSR1, SIG_IGN);
        pid_t process = forked("plain");
        signal(SIGUSR1, SIG_DFL);
        for (int times = nth % 40; times >= 0; times--) {
            kill(process, SIGUSR1);
            if (times % 4 == 0) kill(process, SIGSTOP), sched_yield(), kill(process, SIGCONT);
        }
        ends_well(process);
    }
}

// Stops process groups at any time during an `execve`, and continues only the executing process.
static void stopped_groups(int rounds) {
    for (int nth = 0; nth < rounds; nth++) {
        pid_t process = fork();
        if (!process) {
            setpgid(0, 0);
            executes("plain");
        }
        setpgid(process, process);
        usleep(nth * 137 % 3000);
        kill(-process, SIGSTOP);
        kill(process, SIGCONT);
        ends_well(process);
    }
}

static void refused(void) {
    char *long_one = malloc(256 << 10), name[] = "/tmp/uzram-executes-XXXXXX";
    memset(long_one, 'x', (256 << 10) - 1);
    long_one[(256 << 10) - 1] = 0;
    CHECK(execl(own, "executes", long_one, NULL) == -1 && errno == E2BIG);
    has_no_child();
    int file = mkstemp(name), from = open(own, O_RDONLY);
    char bytes[65536];
    for (ssize_t got; (got = read(from, bytes, sizeof bytes)) > 0;) CHECK(write(file, bytes, got) == got);
    CHECK(!fchmod(file, 0700) && !close(from));
    if (getenv("IS_INJECTED")) {
        CHECK(execl(name, "executes", NULL) == -1 && errno == ETXTBSY);
        has_no_child();
    }
    close(file);
    CHECK(!truncate(name, 100) && execl(name, "executes", NULL) == -1 && errno == ENOEXEC);
    CHECK(!unlink(name) && execl(name, "executes", NULL) == -1 && errno == ENOENT);
    CHECK(execl("/", "executes", NULL) == -1 && errno == EACCES);
    CHECK(execve((char *)16, NULL, NULL) == -1 && errno == EFAULT);
    has_no_child();
}

int main(int count, char **arguments, char **with) {
    static char path[4096];
    CHECK(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    own = path;
    environment = with;
    if (count > 2) return child(arguments[2]);
    int rounds = atoi(arguments[1]);
    has_no_child();
    char *memory = malloc(HEAP);
    for (int nth = 0; nth < HEAP; nth++) memory[nth] = nth >> 8;
    const char *ways[] = {
        "plain", "masked", "left", "traps", "capabilities", "signals", "threads", "descriptor", "link",
    };
    for (int nth = 0; nth < rounds; nth++) {
        for (int way = 0; way < 9; way++) ends_well(forked(ways[way]));
        ends_well(vforked());
        refused();
    }
    pthread_t threads[3];
    for (int nth = 0; nth < 3; nth++) pthread_create(&threads[nth], NULL, vforks, &rounds);
    for (int nth = 0; nth < 3; nth++) pthread_join(threads[nth], NULL);
    disturbed(10 * rounds);
    stopped_groups(10 * rounds);
    for (int nth = 0; nth < HEAP; nth++) CHECK(memory[nth] == (char)(nth >> 8));
    puts("all is as it has to be");
    return 0;
}
