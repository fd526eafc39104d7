/* Object caches. */
#include "check.h"

enum { OBJECTS = 5000 };

struct item {
    uint64_t number;
    char text[32];
};

static uzram_cache *made(uint64_t object_bytes, uint64_t limit, uint64_t flags)
{
    struct uzram_cache_options options = UZRAM_INIT(struct uzram_cache_options);
    uzram_cache *cache = NULL;
    options.object_bytes = object_bytes;
    options.limit = limit;
    options.flags = flags;
    options.name = "items";
    CHECK(uzram_cache_new(&options, &cache) == 0);
    return cache;
}

static struct item *taken(uzram_cache *cache)
{
    void *object = NULL;
    CHECK(uzram_cache_alloc(cache, &object) == 0 && (uintptr_t)object % 16 == 0);
    return (struct item *)object;
}

static void *work(void *given)
{
    uzram_cache *cache = *(uzram_cache **)given;
    struct item **items = (struct item **)malloc(OBJECTS * sizeof(struct item *));
    uint64_t i, turn;
    CHECK(items != NULL);
    for (turn = 0; turn < 4; turn++) {
        for (i = 0; i < OBJECTS; i++) {
            items[i] = taken(cache);
            items[i]->number = i + turn;
            snprintf(items[i]->text, sizeof items[i]->text, "%d", (int)i);
        }
        for (i = 0; i < OBJECTS; i++) {
            CHECK(items[i]->number == i + turn && atoi(items[i]->text) == (int)i);
            CHECK(uzram_cache_free(cache, items[i]) == 0);
        }
    }
    free(items);
    return NULL;
}

static void child(void *given)
{
    uzram_cache *cache = (uzram_cache *)given;
    struct item *item = taken(cache);
    item->number = 1;
    CHECK(uzram_cache_free(cache, item) == 0);
}

static void *free_all(void *given)
{
    struct item **items = (struct item **)given;
    int i;
    for (i = 1; i < 100; i++)
        CHECK(uzram_cache_free(*(uzram_cache **)given, items[i]) == 0);
    return NULL;
}

/* An object that another thread has freed does not count as in use, even if its allocating thread
 * stays idle. */
static void test_freed_elsewhere(void)
{
    uzram_cache *cache = made(64, 0, 0);
    void *given[100];
    pthread_t thread;
    int i;
    given[0] = cache;
    for (i = 1; i < 100; i++)
        given[i] = taken(cache);
    CHECK(pthread_create(&thread, NULL, free_all, given) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(uzram_cache_destroy(cache) == 0);
}

static void test_limit(void)
{
    uzram_cache *cache = made(1024, 1 << 20, 0);
    struct uzram_cache_stat stat = UZRAM_INIT(struct uzram_cache_stat);
    void *object, *all[1100];
    size_t count = 0;
    int result;
    while ((result = uzram_cache_alloc(cache, &object)) == 0) {
        CHECK(count < 1100);
        memset(object, (int)count, 1024);
        all[count++] = object;
    }
    CHECK(result == -ENOSPC && count > 900 && count <= 1024);
    CHECK(uzram_cache_stat(cache, &stat) == 0 && stat.objects == count);
    CHECK(stat.total_bytes < 2 << 20 && stat.room >= count);
    FAILS(uzram_cache_destroy(cache), EBUSY, "items");
    while (count > 0) {
        count--;
        CHECK(*(unsigned char *)all[count] == (unsigned char)count);
        CHECK(uzram_cache_free(cache, all[count]) == 0);
    }
    CHECK(uzram_cache_destroy(cache) == 0);
}

static void test_misuse(void)
{
    struct uzram_cache_options options = UZRAM_INIT(struct uzram_cache_options);
    uzram_cache *cache = NULL, *other = made(40, 0, 0);
    char local[64];
    struct item *item;
    FAILS(uzram_cache_new(&options, &cache), EINVAL, "0 bytes");
    options.object_bytes = UINT64_MAX;
    FAILS(uzram_cache_new(&options, &cache), EINVAL, "bytes can't be cached");
    options.object_bytes = 48;
    options.align = 24;
    FAILS(uzram_cache_new(&options, &cache), EINVAL, "alignment 24");
    options.align = 64;
    options.flags = UZRAM_CACHE_DEBUG;
    CHECK(uzram_cache_new(&options, &cache) == 0);
    item = taken(cache);
    CHECK((uintptr_t)item % 64 == 0);
    FAILS(uzram_cache_free(cache, local), EINVAL, "not the start of an object");
    FAILS(uzram_cache_free(other, item), EINVAL, "not the start of an object");
    CHECK(uzram_cache_free(cache, NULL) == 0);
    CHECK(uzram_cache_free(cache, item) == 0);
    FAILS(uzram_cache_free(cache, item), EINVAL, "free already");
    item = taken(cache);
    ((char *)item)[48] = 1;
    FAILS(uzram_cache_free(cache, item), EIO, "beyond its end");
    FAILS(uzram_cache_alloc(NULL, NULL), EINVAL, "NULL");
    CHECK(uzram_cache_destroy(other) == 0 && uzram_cache_destroy(NULL) == 0);
    CHECK(uzram_cache_destroy(cache) == 0);
}

void test_caches(void)
{
    uzram_cache *cache = made(sizeof(struct item), 0, 0), *caches[THREADS];
    struct uzram_cache_stat stat = UZRAM_INIT(struct uzram_cache_stat);
    uint64_t freed = 0;
    int i;
    for (i = 0; i < THREADS; i++)
        caches[i] = cache;
    on_threads(work, caches, sizeof caches[0]);
    in_child(child, cache);
    CHECK(uzram_cache_shrink(cache, &freed) == 0 && uzram_cache_shrink(cache, NULL) == 0);
    CHECK(uzram_cache_stat(cache, &stat) == 0);
    CHECK(stat.objects == 0 && stat.slabs == 0 && stat.refused == 0);
    CHECK(uzram_cache_destroy(cache) == 0);
    test_freed_elsewhere();
    test_limit();
    test_misuse();
}
