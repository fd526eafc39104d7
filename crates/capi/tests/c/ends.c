/* Uses the library at the exit of a thread, of a cancelled thread, and of the program. */
#include "check.h"

static struct {
    uzram_device *device;
    uzram_pool *pool;
    uzram_cache *cache;
    uzram_lru *lru;
    pthread_key_t key;
    int ends;
    int calls;
} all;

/* Uses an object of each kind. */
static void use_all(void)
{
    static char bytes[9000];
    uzram_pool *pool = NULL;
    struct uzram_pool_options options = UZRAM_INIT(struct uzram_pool_options);
    uint64_t handle;
    void *object;
    CHECK(uzram_device_write(all.device, 5, bytes, sizeof bytes) == 0);
    CHECK(uzram_device_read(all.device, 5, bytes, sizeof bytes) == 0);
    CHECK(uzram_pool_store(all.pool, "bytes", 5, &handle) == 0);
    CHECK(uzram_pool_free(all.pool, handle) == 0);
    FAILS(uzram_pool_free(all.pool, handle), ESTALE, "stale");
    CHECK(uzram_cache_alloc(all.cache, &object) == 0);
    memset(object, 1, 100);
    CHECK(uzram_cache_free(all.cache, object) == 0);
    CHECK(uzram_cache_shrink(all.cache, NULL) == 0);
    CHECK(uzram_lru_put(all.lru, "key", 3, bytes, sizeof bytes) == 0);
    CHECK(uzram_lru_get(all.lru, "key", 3, bytes, sizeof bytes, NULL) == 0);
    CHECK(uzram_pool_new(&options, &pool) == 0);
    uzram_pool_destroy(pool);
}

/* The destructor of a thread-local key. The destructor runs before or after the library's own
 * thread-local data are destroyed. */
static void at_end_of_thread(void *value)
{
    use_all();
    all.ends++;
    if (all.ends < 3)
        CHECK(pthread_setspecific(all.key, value) == 0);
}

static void *with_destructor(void *value)
{
    CHECK(pthread_setspecific(all.key, value) == 0);
    use_all();
    return value;
}

/* A cancellation takes effect after the call during which it was requested. */
static void *cancelled(void *dir)
{
    struct uzram_device_options options = UZRAM_INIT(struct uzram_device_options);
    struct uzram_region_options memory = UZRAM_INIT(struct uzram_region_options);
    uzram_device *device = NULL;
    uzram_region *region = NULL;
    char backing[4096], saved[4096];
    static char bytes[70000];
    snprintf(backing, sizeof backing, "%s/cancelled", (const char *)dir);
    snprintf(saved, sizeof saved, "%s/saved of cancelled", (const char *)dir);
    options.disksize = 1 << 20;
    options.backing_path = backing;
    options.backing_bytes = 1 << 20;
    options.algorithm = memory.algorithm = "zstd";
    memory.bytes = 1 << 20;
    fill(bytes, sizeof bytes, 1);
    CHECK(pthread_cancel(pthread_self()) == 0);
    CHECK(uzram_device_new(&options, &device) == 0);
    CHECK(uzram_device_write(device, 0, bytes, sizeof bytes) == 0);
    CHECK(uzram_device_write_back(device, UZRAM_WHICH_ALL, NULL) == 0);
    CHECK(uzram_device_read(device, 0, bytes, sizeof bytes) == 0);
    CHECK(uzram_device_save(device, saved, NULL) == 0);
    CHECK(uzram_device_discard(device, 0, 1 << 20) == 0);
    CHECK(uzram_device_restore(device, saved, 0, NULL) == 0);
    uzram_device_destroy(device);
    if (!is_single) {
        CHECK(uzram_region_new(&memory, &region) == 0);
        memset(uzram_region_address(region), 1, 1 << 20);
        CHECK(uzram_region_advise(region, 0, 1 << 20, UZRAM_ADVICE_COLD) == 0);
        memset(uzram_region_address(region), 2, 1 << 20);
        uzram_region_destroy(region);
    }
    use_all();
    all.calls = 1;
    pthread_testcancel();
    return NULL;
}

static void at_exit(void)
{
    use_all();
    uzram_device_destroy(all.device);
    uzram_lru_destroy(all.lru);
    uzram_pool_destroy(all.pool);
    CHECK(uzram_cache_destroy(all.cache) == 0);
}

void test_ends(const char *dir)
{
    struct uzram_device_options device = UZRAM_INIT(struct uzram_device_options);
    struct uzram_pool_options pool = UZRAM_INIT(struct uzram_pool_options);
    struct uzram_cache_options cache = UZRAM_INIT(struct uzram_cache_options);
    struct uzram_lru_options lru = UZRAM_INIT(struct uzram_lru_options);
    pthread_t thread;
    pthread_attr_t small;
    void *result = NULL;
    device.disksize = 1 << 20;
    pool.flags = UZRAM_POOL_COMPACT_IN_BACKGROUND;
    cache.object_bytes = 100;
    CHECK(uzram_device_new(&device, &all.device) == 0 && uzram_pool_new(&pool, &all.pool) == 0);
    lru.limit = 2 << 20;
    CHECK(uzram_cache_new(&cache, &all.cache) == 0 && uzram_lru_new(&lru, &all.lru) == 0);
    CHECK(pthread_key_create(&all.key, at_end_of_thread) == 0 && atexit(at_exit) == 0);
    CHECK(pthread_create(&thread, NULL, with_destructor, &all) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && all.ends == 3);
    /* The stack that uzram.h requires, plus the stack that a thread needs without the library. */
    CHECK(pthread_attr_init(&small) == 0);
    CHECK(pthread_attr_setstacksize(&small, (128 + 32) << 10) == 0);
    CHECK(pthread_create(&thread, &small, cancelled, (void *)dir) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(all.calls == 1 && result == PTHREAD_CANCELED);
}
