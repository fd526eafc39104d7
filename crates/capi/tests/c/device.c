/* Devices, their jobs, and saved files. */
#include "check.h"

enum { CHUNK = 20000, CHUNKS = 50 };

static uzram_device *made(uint64_t disksize, uint64_t mem_limit, const char *algorithm)
{
    struct uzram_device_options options = UZRAM_INIT(struct uzram_device_options);
    uzram_device *device = NULL;
    options.disksize = disksize;
    options.mem_limit = mem_limit;
    options.algorithm = algorithm;
    CHECK(uzram_device_new(&options, &device) == 0);
    return device;
}

static struct uzram_device_stat stat_of(uzram_device *device)
{
    struct uzram_device_stat stat = UZRAM_INIT(struct uzram_device_stat);
    CHECK(uzram_device_stat(device, &stat) == 0);
    return stat;
}

/* Checks that a chunk holds the data that `fill` makes from `seed`. */
static void check_chunk(uzram_device *device, uint64_t nth, uint64_t seed)
{
    static const size_t len = CHUNK;
    char *expected = (char *)malloc(len), *found = (char *)malloc(len);
    CHECK(expected != NULL && found != NULL);
    fill(expected, len, seed);
    CHECK(uzram_device_read(device, nth * len, found, len) == 0);
    CHECK(memcmp(expected, found, len) == 0);
    free(expected);
    free(found);
}

static void write_chunk(uzram_device *device, uint64_t nth, uint64_t seed)
{
    char *bytes = (char *)malloc(CHUNK);
    CHECK(bytes != NULL);
    fill(bytes, CHUNK, seed);
    CHECK(uzram_device_write(device, nth * CHUNK, bytes, CHUNK) == 0);
    free(bytes);
}

struct part {
    uzram_device *device;
    uint64_t nth;
};

static void *work(void *given)
{
    struct part *part = (struct part *)given;
    uint64_t i, first = part->nth * CHUNKS;
    for (i = first; i < first + CHUNKS; i++)
        write_chunk(part->device, i, i);
    for (i = first; i < first + CHUNKS; i += 2)
        write_chunk(part->device, i, ~i);
    for (i = first; i < first + CHUNKS; i++)
        check_chunk(part->device, i, (i - first) % 2 == 0 ? ~i : i);
    return NULL;
}

static void child_of_copy(void *given)
{
    uzram_device *device = (uzram_device *)given;
    check_chunk(device, 1, 1);
    write_chunk(device, 1, 99);
    check_chunk(device, 1, 99);
}

static void child_left_behind(void *given)
{
    char bytes[16];
    FAILS(uzram_device_read((uzram_device *)given, 0, bytes, sizeof bytes), ENODEV, "parent");
}

static void test_requests(void)
{
    uzram_device *device = made(64 << 20, 0, NULL);
    struct part parts[THREADS];
    struct uzram_device_stat stat;
    char bytes[10000];
    uint64_t i, freed = 0;
    for (i = 0; i < THREADS; i++) {
        parts[i].device = device;
        parts[i].nth = i;
    }
    on_threads(work, parts, sizeof parts[0]);
    stat = stat_of(device);
    CHECK(stat.disksize == 64 << 20 && stat.failed_reads == 0 && stat.failed_writes == 0);
    CHECK(stat.orig_data_size >= THREADS * CHUNKS * CHUNK);
    CHECK(stat.compr_data_size < stat.orig_data_size && stat.mem_total > stat.mem_used);
    in_child(child_of_copy, device);
    check_chunk(device, 1, 1);

    /* The discard covers some slots completely and two slots in part. */
    memset(bytes, 7, sizeof bytes);
    CHECK(uzram_device_write(device, 0, bytes, sizeof bytes) == 0);
    CHECK(uzram_device_discard(device, 4000, 4192) == 0);
    CHECK(uzram_device_discard(device, 0, 2) == 0);
    CHECK(uzram_device_read(device, 0, bytes, sizeof bytes) == 0);
    CHECK(bytes[1] == 0 && bytes[2] == 7 && bytes[3999] == 7 && bytes[4000] == 0);
    CHECK(bytes[8191] == 0 && bytes[8192] == 7);
    CHECK(uzram_device_discard(device, 0, 64 << 20) == 0);
    CHECK(uzram_device_compact(device, &freed) == 0 && uzram_device_compact(device, NULL) == 0);
    CHECK(stat_of(device).orig_data_size == 0);

    CHECK(uzram_device_read(device, 64 << 20, NULL, 0) == 0);
    FAILS(uzram_device_read(device, 64 << 20, bytes, 1), EINVAL, "past the end");
    FAILS(uzram_device_write(device, UINT64_MAX, bytes, 2), EINVAL, "past the end");
    FAILS(uzram_device_write(device, 0, NULL, 2), EINVAL, "NULL");
    FAILS(uzram_device_read(device, 0, bytes, UINT64_MAX), EINVAL, "negative");
    FAILS(uzram_device_stat(device, NULL), EINVAL, "NULL");
    uzram_device_destroy(device);
    uzram_device_destroy(NULL);
}

static void test_limit(void)
{
    uzram_device *device = made(16 << 20, 1 << 20, "lz4");
    char *noise = (char *)malloc(4096), *found = (char *)malloc(4096);
    uint64_t i, stored;
    int result = 0;
    CHECK(noise != NULL && found != NULL);
    for (i = 0; i < 1024 && result == 0; i++) {
        fill_noise(noise, 4096, i);
        result = uzram_device_write(device, i * 4096, noise, 4096);
    }
    stored = i - 1;
    CHECK(result == -ENOSPC && strstr(uzram_error_message(), "limit") != NULL);
    CHECK(stored > 200 && stored <= 256 && stat_of(device).mem_used <= 1 << 20);
    for (i = 0; i < stored; i++) {
        fill_noise(noise, 4096, i);
        CHECK(uzram_device_read(device, i * 4096, found, 4096) == 0);
        CHECK(memcmp(noise, found, 4096) == 0);
    }
    CHECK(uzram_device_set_mem_limit(device, 2 << 20) == 0);
    fill_noise(noise, 4096, stored);
    CHECK(uzram_device_write(device, stored * 4096, noise, 4096) == 0);
    CHECK(uzram_device_set_total_limit(device, 1 << 20) == 0);
    /* A few stores succeed at the limit, in pages that were allocated in advance. */
    for (i = 1, result = 0; i < 64 && result == 0; i++) {
        fill_noise(noise, 4096, stored + i);
        result = uzram_device_write(device, (stored + i) * 4096, noise, 4096);
    }
    CHECK(result == -ENOSPC && strstr(uzram_error_message(), "total_limit") != NULL);
    CHECK(uzram_device_set_total_limit(device, 0) == 0);
    CHECK(uzram_device_write(device, (stored + i) * 4096, noise, 4096) == 0);
    free(noise);
    free(found);
    uzram_device_destroy(device);
}

static void test_options(void)
{
    struct uzram_device_options options = UZRAM_INIT(struct uzram_device_options);
    uzram_device *device = NULL;
    FAILS(uzram_device_new(&options, &device), EINVAL, "0 bytes");
    options.disksize = 1 << 20;
    options.algorithm = "lzo";
    FAILS(uzram_device_new(&options, &device), EINVAL, "lzo");
    options.algorithm = "zstd";
    options.level = 1000;
    FAILS(uzram_device_new(&options, &device), EINVAL, "1000");
    options.level = 3;
    options.block = 5000;
    FAILS(uzram_device_new(&options, &device), EINVAL, "5000");
    options.block = 16384;
    options.flags = 8;
    FAILS(uzram_device_new(&options, &device), EINVAL, "flags 0x8");
    options.flags = UZRAM_DEVICE_CHECKSUMS | UZRAM_DEVICE_LEAVE_AT_FORK;
    options.backing_path = "/no/such/file";
    FAILS(uzram_device_new(&options, &device), ENOENT, "/no/such/file");
    CHECK(device == NULL);
    options.backing_path = NULL;
    CHECK(uzram_device_new(&options, &device) == 0);
    in_child(child_left_behind, device);
    uzram_device_destroy(device);
}

/* A backing file is created only if its device is created. */
static void test_backing(const char *dir)
{
    struct uzram_device_options options = UZRAM_INIT(struct uzram_device_options);
    uzram_device *device = NULL, *other = NULL;
    char backing[4096];
    snprintf(backing, sizeof backing, "%s/made", dir);
    options.disksize = 1 << 20;
    options.backing_path = backing;
    FAILS(uzram_device_new(&options, &device), ENOENT, "set backing_bytes");
    options.backing_bytes = UINT64_MAX;
    FAILS(uzram_device_new(&options, &device), EINVAL, "backing_bytes");
    options.backing_bytes = 1 << 20;
    options.total_limit = 1;
    FAILS(uzram_device_new(&options, &device), EINVAL, "total_limit");
    CHECK(device == NULL && access(backing, F_OK) != 0);
    options.total_limit = 0;
    CHECK(uzram_device_new(&options, &device) == 0 && access(backing, F_OK) == 0);
    FAILS(uzram_device_new(&options, &other), EEXIST, "set backing_bytes to 0");
    options.backing_bytes = 0;
    FAILS(uzram_device_new(&options, &other), EBUSY, "another device has it");
    uzram_device_destroy(device);
    options.total_limit = 1;
    FAILS(uzram_device_new(&options, &device), EINVAL, "total_limit");
    CHECK(access(backing, F_OK) == 0 && unlink(backing) == 0);
}

void test_devices(const char *dir)
{
    test_requests();
    test_limit();
    test_options();
    test_backing(dir);
}

void test_jobs(const char *dir)
{
    struct uzram_device_options options = UZRAM_INIT(struct uzram_device_options);
    struct uzram_recompress_options how = UZRAM_INIT(struct uzram_recompress_options);
    struct uzram_recompressed smaller = UZRAM_INIT(struct uzram_recompressed);
    struct uzram_written_back written = UZRAM_INIT(struct uzram_written_back);
    uzram_device *device = NULL, *other;
    char backing[4096], saved[4096];
    uint64_t i, before, lost = 1;
    snprintf(backing, sizeof backing, "%s/backing", dir);
    snprintf(saved, sizeof saved, "%s/saved", dir);
    options.disksize = 4 << 20;
    options.recompression[0] = "zstd";
    options.backing_path = backing;
    options.backing_bytes = 8 << 20;
    options.flags = UZRAM_DEVICE_TRACK_ACCESS;
    CHECK(uzram_device_new(&options, &device) == 0);
    for (i = 0; i < 100; i++)
        write_chunk(device, i, i);

    before = stat_of(device).compr_data_size;
    CHECK(uzram_device_mark_idle(device, 0) == 0 && uzram_device_mark_idle(device, 60) == 0);
    CHECK(uzram_device_recompress(device, &how, &smaller) == 0);
    CHECK(smaller.tried > 0 && smaller.smaller > 0 && smaller.damaged == 0);
    CHECK(stat_of(device).compr_data_size == before - smaller.saved_bytes);
    /* A job does not run if its results can't be stored. */
    smaller.size = 0;
    FAILS(uzram_device_recompress(device, &how, &smaller), EINVAL, "sizeof");
    written.size = 7;
    FAILS(uzram_device_write_back(device, UZRAM_WHICH_ALL, &written), EINVAL, "sizeof");
    CHECK(stat_of(device).backing_bytes == 0);
    written.size = sizeof written;
    how.priority = 2;
    FAILS(uzram_device_recompress(device, &how, NULL), EINVAL, "priority 2");
    how.which = 9;
    FAILS(uzram_device_recompress(device, &how, NULL), EINVAL, "UZRAM_WHICH");

    CHECK(uzram_device_write_back(device, UZRAM_WHICH_ALL, &written) == 0);
    CHECK(written.slots > 0 && stat_of(device).backing_bytes == written.blocks * 4096);
    for (i = 0; i < 100; i++)
        check_chunk(device, i, i);
    CHECK(uzram_device_cancel_job(device) == 0);

    CHECK(uzram_device_save(device, saved, &lost) == 0 && lost == 0);
    other = made(8 << 20, 0, "zstd");
    CHECK(uzram_device_restore(other, saved, 0, &lost) == 0 && lost == 0);
    for (i = 0; i < 100; i++)
        check_chunk(other, i, i);
    FAILS(uzram_device_restore(other, saved, 0, NULL), ENOTEMPTY, "empty");
    FAILS(uzram_device_write_back(other, UZRAM_WHICH_ALL, NULL), ENODEV, "backing");
    FAILS(uzram_device_save(other, "/no/such/file", NULL), ENOENT, "/no/such/file");
    uzram_device_destroy(other);
    other = made(1 << 20, 0, NULL);
    FAILS(uzram_device_restore(other, saved, 0, NULL), ENOSPC, "fewer than");
    FAILS(uzram_device_restore(other, backing, 0, NULL), EBADMSG, "backing");
    FAILS(uzram_device_restore(other, saved, 2, NULL), EINVAL, "flags 0x2");
    FAILS(uzram_device_restore(other, NULL, 0, NULL), EINVAL, "path");
    uzram_device_destroy(other);
    uzram_device_destroy(device);
}
