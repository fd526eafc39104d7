/* Pools. */
#include "check.h"

enum { OBJECTS = 2000 };

static size_t length(uint64_t nth)
{
    return 1 + (size_t)(nth * 7919 % 3000);
}

static void check_object(uzram_pool *pool, uint64_t handle, uint64_t nth)
{
    char expected[3001], found[3001];
    uint64_t len = 0;
    fill(expected, length(nth), nth);
    CHECK(uzram_pool_read(pool, handle, found, sizeof found, &len) == 0);
    CHECK(len == length(nth) && memcmp(expected, found, (size_t)len) == 0);
}

static void *work(void *given)
{
    uzram_pool *pool = *(uzram_pool **)given;
    uint64_t *handles = (uint64_t *)malloc(OBJECTS * sizeof(uint64_t)), i;
    char bytes[3001];
    CHECK(handles != NULL);
    for (i = 0; i < OBJECTS; i++) {
        fill(bytes, length(i), i);
        CHECK(uzram_pool_store(pool, bytes, length(i), &handles[i]) == 0 && handles[i] != 0);
    }
    for (i = 0; i < OBJECTS; i += 2) {
        CHECK(uzram_pool_free(pool, handles[i]) == 0);
        FAILS(uzram_pool_free(pool, handles[i]), ESTALE, "stale");
    }
    CHECK(uzram_pool_compact(pool, NULL) == 0);
    for (i = 1; i < OBJECTS; i += 2) {
        check_object(pool, handles[i], i);
        CHECK(uzram_pool_free(pool, handles[i]) == 0);
    }
    free(handles);
    return NULL;
}

struct named {
    uzram_pool *pool;
    uint64_t handle;
    uzram_pool_pinned *pinned;
};

static void child_of_copy(void *given)
{
    struct named *object = (struct named *)given;
    char letter;
    CHECK(uzram_pool_read(object->pool, object->handle, &letter, 1, NULL) == 0 && letter == 'a');
    CHECK(uzram_pool_write(object->pool, object->handle, "c", 1) == 0);
}

static void child_left_behind(void *given)
{
    struct named *object = (struct named *)given;
    FAILS(uzram_pool_free(object->pool, object->handle), ENODEV, "parent");
}

static void test_limit(uzram_pool *pool)
{
    struct uzram_pool_stat stat = UZRAM_INIT(struct uzram_pool_stat);
    uint64_t handle, count = 0, before, freed = 0;
    char noise[1000];
    int result;
    CHECK(uzram_pool_stat(pool, &stat) == 0);
    before = stat.objects;
    CHECK(uzram_pool_set_limit(pool, 1 << 20) == 0);
    fill_noise(noise, sizeof noise, 1);
    while ((result = uzram_pool_store(pool, noise, sizeof noise, &handle)) == 0)
        count++;
    CHECK(result == -ENOSPC && strstr(uzram_error_message(), "limit") != NULL);
    CHECK(uzram_pool_stat(pool, &stat) == 0 && stat.objects == before + count);
    CHECK(count > 900 && stat.pages_bytes <= 1 << 20 && stat.total_bytes > stat.pages_bytes);
    CHECK(uzram_pool_set_limit(pool, 0) == 0);
    CHECK(uzram_pool_store(pool, noise, sizeof noise, &handle) == 0);
    CHECK(uzram_pool_compact(pool, &freed) == 0);
}

static void child_has_no_pins(void *given)
{
    struct named *object = (struct named *)given;
    char letter;
    CHECK(uzram_pool_write(object->pool, object->handle, "w", 1) == 0);
    uzram_pool_unpin(object->pinned);
    CHECK(uzram_pool_read(object->pool, object->handle, &letter, 1, NULL) == 0 && letter == 'w');
}

static void *write_once_unpinned(void *given)
{
    struct named *object = (struct named *)given;
    CHECK(uzram_pool_write(object->pool, object->handle, "x", 1) == 0);
    return NULL;
}

static void *unpin(void *given)
{
    uzram_pool_unpin((uzram_pool_pinned *)given);
    return NULL;
}

/* Pinned bytes do not change, regardless of changes to other objects and to the pool. */
static void test_pins(uzram_pool *pool)
{
    enum { ALL = 500, PINS = 6 };
    struct uzram_pool_stat stat = UZRAM_INIT(struct uzram_pool_stat);
    struct named object;
    uzram_pool_pinned *pins[PINS];
    uint64_t handles[ALL], i, len = 0;
    const void *bytes = NULL, *same = NULL;
    char expected[3001];
    pthread_t thread;
    for (i = 0; i < ALL; i++) {
        fill(expected, length(i), i);
        CHECK(uzram_pool_store(pool, expected, length(i), &handles[i]) == 0);
    }
    object.pool = pool;
    object.handle = handles[ALL - 1];
    fill(expected, length(ALL - 1), ALL - 1);
    CHECK(uzram_pool_pin(pool, object.handle, &bytes, &len, &pins[0]) == 0);
    CHECK(len == length(ALL - 1));
    for (i = 1; i < PINS; i++)
        CHECK(uzram_pool_pin(pool, object.handle, &same, NULL, &pins[i]) == 0 && same == bytes);
    for (i = 0; i < ALL - 1; i++)
        CHECK(uzram_pool_free(pool, handles[i]) == 0);
    CHECK(uzram_pool_compact(pool, NULL) == 0);
    CHECK(memcmp(bytes, expected, (size_t)len) == 0);
    object.pinned = pins[0];
    in_child(child_has_no_pins, &object);

    CHECK(pthread_create(&thread, NULL, write_once_unpinned, &object) == 0);
    for (i = 1; i < PINS; i++)
        uzram_pool_unpin(pins[i]);
    CHECK(memcmp(bytes, expected, (size_t)len) == 0);
    uzram_pool_unpin(pins[0]);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(uzram_pool_pin(pool, object.handle, &bytes, NULL, &pins[0]) == 0);
    CHECK(*(const char *)bytes == 'x' && memcmp((const char *)bytes + 1, expected + 1, 100) == 0);
    CHECK(pthread_create(&thread, NULL, unpin, pins[0]) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(uzram_pool_free(pool, object.handle) == 0);

    bytes = NULL;
    FAILS(uzram_pool_pin(pool, object.handle, &bytes, &len, &pins[0]), ESTALE, "stale");
    FAILS(uzram_pool_pin(pool, 0, &bytes, &len, &pins[0]), ESTALE, "0x0");
    FAILS(uzram_pool_pin(NULL, 1, &bytes, &len, &pins[0]), EINVAL, "the pool is NULL");
    FAILS(uzram_pool_pin(pool, 1, NULL, &len, &pins[0]), EINVAL, "the place of the address");
    FAILS(uzram_pool_pin(pool, 1, &bytes, &len, NULL), EINVAL, "the place of the new pin");
    CHECK(bytes == NULL);
    uzram_pool_unpin(NULL);
    CHECK(uzram_pool_stat(pool, &stat) == 0 && stat.objects == 0);
}

/* A pin outlives its pool. */
static void test_last_pin(void)
{
    struct uzram_pool_options options = UZRAM_INIT(struct uzram_pool_options);
    uzram_pool *pool = NULL;
    uzram_pool_pinned *pinned = NULL;
    const void *bytes = NULL;
    uint64_t handle;
    CHECK(uzram_pool_new(&options, &pool) == 0);
    CHECK(uzram_pool_store(pool, "kept", 5, &handle) == 0);
    CHECK(uzram_pool_pin(pool, handle, &bytes, NULL, &pinned) == 0);
    uzram_pool_destroy(pool);
    CHECK(strcmp((const char *)bytes, "kept") == 0);
    uzram_pool_unpin(pinned);
}

void test_pools(void)
{
    struct uzram_pool_options options = UZRAM_INIT(struct uzram_pool_options);
    struct uzram_pool_stat stat = UZRAM_INIT(struct uzram_pool_stat);
    uzram_pool *pools[THREADS], *pool = NULL;
    struct named object;
    uint64_t len = 0, other;
    char bytes[8] = "";
    int i;
    options.flags = UZRAM_POOL_COMPACT_IN_BACKGROUND;
    CHECK(uzram_pool_new(&options, &pool) == 0);
    for (i = 0; i < THREADS; i++)
        pools[i] = pool;
    on_threads(work, pools, sizeof pools[0]);
    CHECK(uzram_pool_stat(pool, &stat) == 0 && stat.objects == 0);
    test_pins(pool);
    test_last_pin();

    object.pool = pool;
    CHECK(uzram_pool_store(pool, "bcd", 3, &object.handle) == 0);
    CHECK(uzram_pool_write(pool, object.handle, "a", 1) == 0);
    CHECK(uzram_pool_read(pool, object.handle, bytes, 2, &len) == 0);
    CHECK(len == 3 && strcmp(bytes, "ac") == 0);
    CHECK(uzram_pool_read(pool, object.handle, NULL, 0, &len) == 0 && len == 3);
    in_child(child_of_copy, &object);
    CHECK(uzram_pool_read(pool, object.handle, bytes, 1, NULL) == 0 && bytes[0] == 'a');
    /* The handle may be stored in the memory of the object's bytes. */
    other = UINT64_C(0x1122334455667788);
    CHECK(uzram_pool_store(pool, &other, sizeof other, &other) == 0);
    CHECK(uzram_pool_read(pool, other, bytes, sizeof bytes, NULL) == 0);
    CHECK(memcmp(bytes, "\x88\x77\x66\x55\x44\x33\x22\x11", 8) == 0);
    CHECK(uzram_pool_free(pool, other) == 0);
    FAILS(uzram_pool_write(pool, object.handle, "abcd", 4), EINVAL, "4 bytes");
    FAILS(uzram_pool_store(pool, NULL, 0, &other), EINVAL, "0 bytes");
    FAILS(uzram_pool_store(pool, bytes, 1, NULL), EINVAL, "the place of the handle");
    FAILS(uzram_pool_read(pool, 0, bytes, 1, NULL), ESTALE, "0x0");
    other = object.handle ^ (UINT64_C(1) << 40);
    FAILS(uzram_pool_read(pool, other, bytes, 1, NULL), ESTALE, "of another");
    test_limit(pool);
    uzram_pool_destroy(pool);
    uzram_pool_destroy(NULL);

    options.flags = UZRAM_POOL_LEAVE_AT_FORK;
    CHECK(uzram_pool_new(&options, &object.pool) == 0);
    FAILS(uzram_pool_free(object.pool, object.handle), ESTALE, "of another");
    CHECK(uzram_pool_store(object.pool, "x", 1, &object.handle) == 0);
    in_child(child_left_behind, &object);
    CHECK(uzram_pool_free(object.pool, object.handle) == 0);
    uzram_pool_destroy(object.pool);
}
