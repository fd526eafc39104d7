/* Regions. */
#include "check.h"

#include <fcntl.h>

enum { BYTES = 64 << 20, LIMIT = 16 << 20, WORD = 512 };

static void write_all(char *memory, size_t first, size_t len, uint64_t seed)
{
    size_t at;
    for (at = first; at < first + len; at += WORD) {
        uint64_t word = at * 0x9E3779B97F4A7C15u + seed;
        memcpy(memory + at, &word, sizeof word);
    }
}

static void check_all(const char *memory, size_t first, size_t len, uint64_t seed)
{
    size_t at;
    for (at = first; at < first + len; at += WORD) {
        uint64_t word, expected = at * 0x9E3779B97F4A7C15u + seed;
        memcpy(&word, memory + at, sizeof word);
        CHECK(word == expected);
    }
}

struct part {
    char *memory;
    size_t nth;
};

static void *work(void *given)
{
    struct part *part = (struct part *)given;
    size_t len = BYTES / THREADS;
    write_all(part->memory, part->nth * len, len, 1);
    check_all(part->memory, part->nth * len, len, 1);
    return NULL;
}

static void child(void *memory)
{
    check_all((char *)memory, 0, BYTES, 1);
    write_all((char *)memory, 0, 1 << 20, 2);
}

static struct uzram_region_stat stat_of(uzram_region *region)
{
    struct uzram_region_stat stat = UZRAM_INIT(struct uzram_region_stat);
    CHECK(uzram_region_stat(region, &stat) == 0);
    return stat;
}

static void test_calls(uzram_region *region, char *memory)
{
    uzram_region_locked *locked = NULL;
    uint64_t evicted = 0;
    int file = open("/dev/null", O_WRONLY);
    CHECK(file >= 0);
    CHECK(uzram_region_advise(region, 0, 1 << 20, UZRAM_ADVICE_COLD) == 0);
    CHECK(uzram_region_lock(region, 0, 1 << 20, &locked) == 0);
    CHECK(write(file, memory, 1 << 20) == 1 << 20);
    FAILS(uzram_region_discard(region, 0, 8192), EBUSY, "locked");
    uzram_region_unlock(locked);
    uzram_region_unlock(NULL);
    close(file);
    CHECK(uzram_region_lock(region, 0, LIMIT + (4 << 20), &locked) == 0);
    CHECK(stat_of(region).held > LIMIT + (4 << 20));
    uzram_region_unlock(locked);

    CHECK(uzram_region_reclaim(region, 4 << 20, &evicted) == 0 && evicted > 0);
    CHECK(uzram_region_prefetch(region, 0, 1 << 20) == 0);
    CHECK(uzram_region_advise(region, 0, 1 << 20, UZRAM_ADVICE_HOT) == 0);
    CHECK(uzram_region_discard(region, 0, 1 << 20) == 0 && memory[0] == 0 && memory[WORD] == 0);
    check_all(memory, 1 << 20, BYTES - (1 << 20), 1);
    CHECK(uzram_region_set_limit(region, 24 << 20) == 0 && stat_of(region).limit == 24 << 20);

    FAILS(uzram_region_set_limit(region, 4096), EINVAL, "limit of 4096");
    FAILS(uzram_region_advise(region, 0, 1, 7), EINVAL, "UZRAM_ADVICE");
    FAILS(uzram_region_lock(region, BYTES, 1, &locked), EINVAL, "not within");
    FAILS(uzram_region_prefetch(region, UINT64_MAX, 2), EINVAL, "not within");
    FAILS(uzram_region_lock(region, 0, 1, NULL), EINVAL, "the place of the new lock");
}

void test_regions(void)
{
    struct uzram_region_options options = UZRAM_INIT(struct uzram_region_options);
    struct uzram_region_stat stat;
    uzram_region *region = NULL;
    struct part parts[THREADS];
    char *memory;
    int i;
    FAILS(uzram_region_new(&options, &region), EINVAL, "0 bytes");
    options.bytes = BYTES;
    options.block = 6000;
    FAILS(uzram_region_new(&options, &region), EINVAL, "6000");
    options.block = 0;
    options.limit = LIMIT;
    options.algorithm = "zstd";
    options.level = 1;
    options.flags = UZRAM_REGION_CHECKSUMS | UZRAM_REGION_COPY_AT_FORK;
    CHECK(uzram_region_new(&options, &region) == 0);
    CHECK(uzram_region_bytes(region) == BYTES && uzram_region_bytes(NULL) == 0);
    memory = (char *)uzram_region_address(region);
    CHECK(memory != NULL && uzram_region_address(NULL) == NULL);
    for (i = 0; i < THREADS; i++) {
        parts[i].memory = memory;
        parts[i].nth = (size_t)i;
    }
    on_threads(work, parts, sizeof parts[0]);
    stat = stat_of(region);
    CHECK(stat.held <= LIMIT && stat.evicted > 0 && stat.filled > 0 && stat.stored > 0);
    CHECK(stat.compressed < stat.stored && stat.resident <= stat.held);
    in_child(child, memory);
    check_all(memory, 0, BYTES, 1);
    test_calls(region, memory);
    uzram_region_destroy(region);
    uzram_region_destroy(NULL);
}
