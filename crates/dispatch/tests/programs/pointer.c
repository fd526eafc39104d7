// Tests thread pointers that the program sets. While a pointer of the program is set, no function
// of the C library runs.
#include "common.h"
#include <asm/prctl.h>
#include <sys/auxv.h>


static long call(long number, long a, long b, long c, long d, long e) {
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

static char own[3][8192] __attribute__((aligned(64)));

static long pointer(int nth) { return (long)(own[nth] + 4096); }

static void set(long to) { call(SYS_arch_prctl, ARCH_SET_FS, to, 0, 0, 0); }

static long get(void) {
    long now = 0;
    return call(SYS_arch_prctl, ARCH_GET_FS, (long)&now, 0, 0, 0) == 0 ? now : -1;
}

static volatile long seen[8];

static void heals(int signal, siginfo_t *info, void *context) {
    seen[7]++;
    call(SYS_mprotect, (long)info->si_addr & ~4095l, 4096, PROT_READ | PROT_WRITE, 0, 0);
}

// Makes calls, causes faults, and sets invalid pointers.
static void own_pointer(void) {
    volatile char *page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    on(SIGSEGV, heals, SA_NODEFER);
    long before = get();
    set(pointer(0));
    seen[0] = get() == pointer(0);
    seen[1] = call(SYS_getppid, 0, 0, 0, 0, 0) > 0;
    page[1] = 1;
    page[5000] = 2;
    seen[2] = page[1] + page[5000];
    seen[3] = call(SYS_arch_prctl, ARCH_SET_FS, 1l << 62, 0, 0, 0);
    seen[4] = call(SYS_arch_prctl, ARCH_GET_FS, 8, 0, 0, 0);
    seen[5] = get() == pointer(0);
    set(before);
    printf("%ld %ld %ld, %ld %ld, %ld, healed %ld\n", seen[0], seen[1], seen[2], seen[3], seen[4], seen[5], seen[7]);
}

// Sets the thread pointer by an instruction.
__attribute__((target("fsgsbase"))) static void by_instruction(void) {
    if (!(getauxval(AT_HWCAP2) & 2)) return;
    long before = get();
    __asm__ volatile("wrfsbase %0" ::"r"(pointer(1)));
    seen[0] = get() == pointer(1);
    long now;
    __asm__ volatile("rdfsbase %0" : "=r"(now));
    seen[1] = now == pointer(1);
    __asm__ volatile("wrfsbase %0" ::"r"(before));
    printf("%ld %ld\n", seen[0], seen[1]);
}

// Creates a child on a separate stack. The child exits with 40 if its thread pointer is `expected`.
static long child_of(long flags, long tls, long expected) {
    static char stack[65536] __attribute__((aligned(16)));
    long *top = (long *)(stack + sizeof stack) - 2;
    top[0] = expected;
    long result;
    register long r10 __asm__("r10") = 0, r8 __asm__("r8") = tls;
    __asm__ volatile(
        "syscall\n"
        "test %%rax, %%rax\n"
        "jnz 1f\n"
        "sub $16, %%rsp\n"
        "mov $158, %%eax\n mov $0x1003, %%edi\n mov %%rsp, %%rsi\n syscall\n" // ARCH_GET_FS
        "mov (%%rsp), %%rdi\n"
        "cmp 16(%%rsp), %%rdi\n"
        "mov $41, %%edi\n"
        "jne 2f\n"
        "mov $40, %%edi\n"
        "2: mov $60, %%eax\n syscall\n"
        "1:\n"
        : "=a"(result)
        : "a"(SYS_clone), "D"(flags), "S"(top), "d"(0), "r"(r10), "r"(r8)
        : "rcx", "r11", "memory");
    int status = 0;
    if (result > 0) call(SYS_wait4, result, (long)&status, __WALL, 0, 0);
    return WEXITSTATUS(status);
}

static void children_with_pointers(void) {
    long before = get();
    set(pointer(0));
    seen[0] = child_of(SIGCHLD, 0, pointer(0));
    seen[1] = child_of(SIGCHLD | CLONE_VM | CLONE_VFORK, 0, pointer(0));
    seen[2] = child_of(SIGCHLD | CLONE_VM, 0, pointer(0));
    seen[3] = child_of(SIGCHLD | CLONE_VM | CLONE_SETTLS, pointer(2), pointer(2));
    seen[4] = child_of(SIGCHLD | CLONE_SETTLS, pointer(2), pointer(2));
    seen[5] = get() == pointer(0);
    set(before);
    printf("%ld %ld %ld %ld %ld %ld\n", seen[0], seen[1], seen[2], seen[3], seen[4], seen[5]);
}

static void interrupts(int signal, siginfo_t *info, void *context) { seen[6] += get() == seen[7]; }

// Interrupts waiting calls by signals.
static void signals_with_pointers(void) {
    on(SIGALRM, interrupts, 0);
    long before = get();
    struct timespec while_long = {0, 20000000};
    every(3000);
    seen[7] = pointer(0);
    set(pointer(0));
    for (int i = 0; i < 20; i++) call(SYS_nanosleep, (long)&while_long, 0, 0, 0, 0);
    seen[7] = before;
    set(before);
    every(0);
    printf("%d\n", seen[6] >= 20);
}

int main(int argc, char **argv) {
    const struct program programs[] = {
        {"own", own_pointer},
        {"instruction", by_instruction},
        {"children", children_with_pointers},
        {"signals", signals_with_pointers},
        {NULL, NULL},
    };
    return run_one(programs, argv[1]);
}
