// Tests protection keys: the access rights that calls set, and the rights with which the kernel and
// signal handlers access memory.
#include "common.h"

static char *page;
static int key;
static sigjmp_buf back;

// Returns false if the system has no protection keys.
static int begin(unsigned rights) {
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(page, "text\n");
    key = pkey_alloc(0, rights);
    if (key < 0) return 0;
    CHECK(pkey_mprotect(page, 4096, PROT_READ | PROT_WRITE, key) == 0);
    return 1;
}

static void allocated(void) {
    int ends[2];
    char read_back[5];
    if (!begin(0)) return;
    printf("rights %d\n", pkey_get(key));
    page[100] = 1;
    CHECK(pipe(ends) == 0);
    CHECK(syscall(SYS_write, ends[1], page, 5) == 5 && syscall(SYS_read, ends[0], read_back, 5) == 5);
    CHECK(syscall(SYS_write, ends[1], read_back, 5) == 5 && syscall(SYS_read, ends[0], page, 5) == 5);
    int other = pkey_alloc(0, PKEY_DISABLE_WRITE);
    printf("rights %d %d\n", pkey_get(key), pkey_get(other));
    CHECK(pkey_free(other) == 0);
    printf("rights %d %d\n", pkey_get(key), page[100]);
}

static void looks(int signal, siginfo_t *info, void *context) {
    printf("signal %d code %d, here %d, key %d\n", signal, info->si_code,
           (char *)info->si_addr == page + 200, info->si_pkey == (unsigned)key);
    printf("rights %d in a handler\n", pkey_get(key));
    siglongjmp(back, 1);
}

static void denied(void) {
    int ends[2];
    if (!begin(PKEY_DISABLE_ACCESS)) return;
    CHECK(pipe(ends) == 0);
    printf("written %ld\n", syscall(SYS_write, ends[1], page, 5) == -1 && errno == EFAULT ? -1L : 0);
    on(SIGSEGV, looks, SA_NODEFER);
    if (sigsetjmp(back, 0) == 0) page[200] = 1;
    CHECK(pkey_set(key, PKEY_DISABLE_WRITE) == 0);
    printf("written %ld\n", syscall(SYS_write, ends[1], page, 5));
    printf("read %ld\n", syscall(SYS_read, ends[0], page, 5) == -1 && errno == EFAULT ? -1L : 0);
    CHECK(pkey_set(key, 0) == 0);
    printf("read %ld\n", syscall(SYS_read, ends[0], page, 5));
    page[200] = 1;
    printf("rights %d\n", pkey_get(key));
}

static void *rights_of(void *unused) { return (void *)(intptr_t)pkey_get(key); }

static void threads(void) {
    void *seen;
    pthread_t thread;
    if (!begin(PKEY_DISABLE_WRITE)) return;
    CHECK(pthread_create(&thread, NULL, rights_of, NULL) == 0 && pthread_join(thread, &seen) == 0);
    printf("thread %d\n", (int)(intptr_t)seen);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(10 + pkey_get(key));
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    printf("child %d\n", WEXITSTATUS(status));
}

int main(int argc, char **argv) {
    const struct program programs[] = {
        {"allocated", allocated}, {"denied", denied}, {"threads", threads}, {NULL, NULL}};
    return run_one(programs, argv[1]);
}
