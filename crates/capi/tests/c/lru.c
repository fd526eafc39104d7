/* LRU caches. */
#include "check.h"

enum { KEYS = 3000, LIMIT = 2 << 20, VALUE_MAX = 5000 };

static size_t length(uint64_t nth)
{
    return (size_t)(nth * 7919 % VALUE_MAX);
}

static void put(uzram_lru *lru, uint64_t nth)
{
    char value[VALUE_MAX];
    fill(value, length(nth), nth);
    CHECK(uzram_lru_put(lru, &nth, sizeof nth, value, length(nth)) == 0);
}

/* Returns whether the key has a value, and checks the value. */
static int check_value(uzram_lru *lru, uint64_t nth)
{
    char expected[VALUE_MAX], found[VALUE_MAX];
    uint64_t len = UINT64_MAX;
    int result = uzram_lru_get(lru, &nth, sizeof nth, found, sizeof found, &len);
    if (result == -ENOENT) {
        CHECK(len == UINT64_MAX);
        return 0;
    }
    fill(expected, length(nth), nth);
    CHECK(result == 0 && len == length(nth) && memcmp(expected, found, (size_t)len) == 0);
    return 1;
}

struct log {
    uint64_t count;
    uint64_t next;
};

/* Values are evicted in the order of their last use. */
static void evicted(void *context, const void *key, uint64_t key_bytes, const void *value,
                    uint64_t value_bytes)
{
    struct log *log = (struct log *)context;
    char expected[VALUE_MAX];
    uint64_t nth;
    CHECK(key_bytes == sizeof nth);
    memcpy(&nth, key, sizeof nth);
    CHECK(nth == log->next && value_bytes == length(nth));
    fill(expected, length(nth), nth);
    CHECK(memcmp(expected, value, (size_t)value_bytes) == 0);
    log->count++;
    log->next++;
}

static void test_order(struct uzram_lru_options *options)
{
    struct uzram_lru_stat stat = UZRAM_INIT(struct uzram_lru_stat);
    struct log log = {0, 0};
    uzram_lru *lru = NULL;
    uint64_t i, kept = 0;
    options->on_evict = evicted;
    options->context = &log;
    CHECK(uzram_lru_new(options, &lru) == 0);
    for (i = 0; i < KEYS; i++)
        put(lru, i);
    CHECK(uzram_lru_stat(lru, &stat) == 0);
    CHECK(stat.evictions == log.count && log.count > 100 && stat.entries == KEYS - log.count);
    CHECK(stat.held <= LIMIT && stat.limit == LIMIT && stat.compressed < stat.stored);
    for (i = 0; i < KEYS; i++) {
        CHECK(check_value(lru, i) == (i >= log.next));
        kept += i >= log.next;
    }
    CHECK(uzram_lru_stat(lru, &stat) == 0 && stat.hits == kept && stat.misses == KEYS - kept);
    CHECK(uzram_lru_clear(lru) == 0);
    CHECK(uzram_lru_stat(lru, &stat) == 0 && stat.entries == 0 && log.count == stat.evictions);
    uzram_lru_destroy(lru);
    options->on_evict = NULL;
}

static void *work(void *given)
{
    uzram_lru *lru = *(uzram_lru **)given;
    uint64_t i;
    for (i = 0; i < KEYS; i++) {
        put(lru, i);
        check_value(lru, i / 2);
        if (i % 7 == 0)
            uzram_lru_remove(lru, &i, sizeof i);
    }
    return NULL;
}

static void child_of_copy(void *given)
{
    uzram_lru *lru = (uzram_lru *)given;
    put(lru, KEYS + 1);
    CHECK(check_value(lru, KEYS) && check_value(lru, KEYS + 1));
}

/* Makes all calls with one key, with various arguments. */
static void test_calls(uzram_lru *lru)
{
    char bytes[16] = "0123456789abcde";
    static char noise[LIMIT];
    uint64_t len = 0;
    CHECK(uzram_lru_put(lru, "key", 3, "a value", 7) == 0);
    CHECK(uzram_lru_get(lru, "key", 3, bytes, 3, &len) == 0 && len == 7);
    CHECK(memcmp(bytes, "a v3", 4) == 0);
    CHECK(uzram_lru_peek(lru, "key", 3, NULL, 0, &len) == 0 && len == 7);
    /* The value may be written to the memory of the key. */
    memcpy(bytes, "key", 3);
    CHECK(uzram_lru_peek(lru, bytes, 3, bytes, sizeof bytes, NULL) == 0);
    CHECK(memcmp(bytes, "a value", 7) == 0);
    fill_noise(noise, sizeof noise, 1);
    FAILS(uzram_lru_put(lru, "key", 3, noise, sizeof noise), ENOSPC, "finds no room");
    CHECK(uzram_lru_peek(lru, "key", 3, bytes, sizeof bytes, &len) == 0 && len == 7);
    CHECK(uzram_lru_remove(lru, "key", 3) == 0);
    FAILS(uzram_lru_remove(lru, "key", 3), ENOENT, "no value of this key");
    FAILS(uzram_lru_get(lru, "key", 3, bytes, sizeof bytes, NULL), ENOENT, "no value");
    FAILS(uzram_lru_peek(lru, "key", 3, bytes, sizeof bytes, NULL), ENOENT, "no value");
    /* A key and a value may be empty. */
    CHECK(uzram_lru_put(lru, NULL, 0, NULL, 0) == 0);
    CHECK(uzram_lru_get(lru, NULL, 0, bytes, sizeof bytes, &len) == 0 && len == 0);
    FAILS(uzram_lru_put(lru, NULL, 1, "", 0), EINVAL, "1 bytes is NULL");
    FAILS(uzram_lru_get(NULL, "key", 3, bytes, 1, NULL), EINVAL, "the cache is NULL");
    FAILS(uzram_lru_clear(NULL), EINVAL, "the cache is NULL");
    FAILS(uzram_lru_stat(lru, NULL), EINVAL, "a struct is NULL");
}

void test_lru_caches(void)
{
    struct uzram_lru_options options = UZRAM_INIT(struct uzram_lru_options);
    struct uzram_lru_stat stat = UZRAM_INIT(struct uzram_lru_stat);
    uzram_lru *lru = NULL, *all[THREADS];
    static char dictionary[2000];
    int i;
    FAILS(uzram_lru_new(&options, &lru), EINVAL, "the limit is too small");
    options.limit = LIMIT;
    FAILS(uzram_lru_new(&options, NULL), EINVAL, "the place of the new cache");
    options.flags = UZRAM_LRU_NO_DICTIONARY << 1;
    FAILS(uzram_lru_new(&options, &lru), EINVAL, "flags 0x2");
    options.flags = UZRAM_LRU_NO_DICTIONARY;
    options.algorithm = "none";
    FAILS(uzram_lru_new(&options, &lru), EINVAL, "none");
    options.algorithm = "lz4";
    test_order(&options);
    options.flags = 0;
    options.algorithm = NULL;
    options.level = 1;
    test_order(&options);
    fill(dictionary, sizeof dictionary, 1);
    options.dictionary = dictionary;
    options.dictionary_bytes = sizeof dictionary;
    CHECK(uzram_lru_new(&options, &lru) == 0);
    CHECK(uzram_lru_stat(lru, &stat) == 0 && stat.dictionary_bytes == sizeof dictionary);
    test_calls(lru);
    for (i = 0; i < THREADS; i++)
        all[i] = lru;
    on_threads(work, all, sizeof all[0]);
    put(lru, KEYS);
    in_child(child_of_copy, lru);
    uzram_lru_destroy(lru);
    uzram_lru_destroy(NULL);
}
