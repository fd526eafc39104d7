/* The conformance test of uzram.h: conformance DIR [--single]. */
#include "check.h"

int is_single;

void on_threads(void *(*work)(void *), void *things, size_t bytes)
{
    pthread_t threads[THREADS];
    int i;
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (char *)things + (size_t)i * bytes) == 0);
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

void in_child(void (*work)(void *), void *thing)
{
    int status;
    pid_t child;
    if (is_single)
        return;
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work(thing);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static uint64_t mixed(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9u;
    number = (number ^ (number >> 27)) * 0x94D049BB133111EBu;
    return number ^ (number >> 31);
}

void fill(void *bytes, size_t len, uint64_t seed)
{
    char *to = (char *)bytes;
    size_t i;
    for (i = 0; i < len; i++)
        to[i] = (char)(i % 16 < 8 ? mixed(seed + i / 16) >> (i % 8 * 8) : i / 512);
}

void fill_noise(void *bytes, size_t len, uint64_t seed)
{
    char *to = (char *)bytes;
    size_t i;
    for (i = 0; i < len; i++)
        to[i] = (char)(mixed((seed << 32) + i / 8) >> (i % 8 * 8));
}

static void *other_thread(void *message)
{
    CHECK(strcmp(uzram_error_message(), "") == 0);
    FAILS(uzram_pool_free(NULL, 1), EINVAL, "the pool is NULL");
    *(int *)message = 1;
    return NULL;
}

static void test_messages(void)
{
    pthread_t thread;
    int done = 0;
    CHECK(strcmp(uzram_error_message(), "") == 0);
    FAILS(uzram_device_read(NULL, 0, NULL, 0), EINVAL, "the device is NULL");
    CHECK(pthread_create(&thread, NULL, other_thread, &done) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && done == 1);
    CHECK(strstr(uzram_error_message(), "the device is NULL") != NULL);
}

static void test_structs(void)
{
    struct {
        struct uzram_pool_options known;
        uint64_t later;
    } longer;
    struct {
        struct uzram_pool_stat known;
        uint64_t later;
    } told;
    struct uzram_pool_options options = UZRAM_INIT(struct uzram_pool_options);
    struct uzram_pool_stat stat;
    uzram_pool *pool = NULL;

    memset(&longer, 0, sizeof longer);
    longer.known.size = sizeof longer;
    CHECK(uzram_pool_new(&longer.known, &pool) == 0);
    memset(&told, 0xff, sizeof told);
    told.known.size = sizeof told;
    CHECK(uzram_pool_stat(pool, &told.known) == 0);
    CHECK(told.known.size == sizeof told && told.known.objects == 0 && told.later == 0);
    memset(&stat, 0xff, sizeof stat);
    stat.size = 2 * sizeof(uint64_t);
    CHECK(uzram_pool_stat(pool, &stat) == 0);
    CHECK(stat.objects == 0 && stat.pages_bytes == UINT64_MAX);
    uzram_pool_destroy(pool);

    longer.later = 1;
    FAILS(uzram_pool_new(&longer.known, &pool), E2BIG, "does not know");
    options.size = 0;
    FAILS(uzram_pool_new(&options, &pool), EINVAL, "sizeof");
    FAILS(uzram_pool_new(NULL, &pool), EINVAL, "a struct is NULL");
    options.size = sizeof options;
    options.flags = 1u << 20;
    FAILS(uzram_pool_new(&options, &pool), EINVAL, "flags 0x100000");
    options.flags = 0;
    FAILS(uzram_pool_new(&options, NULL), EINVAL, "the place of the new pool");
    /* A caller's struct can consist of its first field alone. */
    options.size = sizeof options.size;
    CHECK(uzram_pool_new(&options, &pool) == 0);
    uzram_pool_destroy(pool);
}

int main(int argc, char **argv)
{
    is_single = argc == 3 && strcmp(argv[2], "--single") == 0;
    CHECK(argc == 2 || is_single);
    CHECK(uzram_version() >> 16 == UZRAM_VERSION_MAJOR);
    CHECK((uzram_version() >> 8 & 0xff) == UZRAM_VERSION_MINOR);
    CHECK((uzram_version() & 0xff) == UZRAM_VERSION_PATCH);
    test_messages();
    test_structs();
    test_devices(argv[1]);
    test_jobs(argv[1]);
    test_pools();
    test_caches();
    test_lru_caches();
    test_ends(argv[1]);
    if (!is_single)
        test_regions();
    puts("all is as uzram.h says");
    return 0;
}
