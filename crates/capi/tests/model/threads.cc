// Threads on one device, one pool, one cache and one region, while another thread forks.
#include "check.hpp"

#include <atomic>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr uint64_t THREADS = 4, PART = 1 << 19;

struct Shared {
    uzram_device *device = nullptr;
    uzram_pool *pool = nullptr;
    uzram_cache *cache = nullptr;
    uzram_region *region = nullptr;
    std::mutex mutex;
    // Allocated objects of the cache, which any thread may free.
    std::vector<void *> objects;
    std::atomic<bool> has_ended{false};
};

void make_all(Shared &shared, Random &random)
{
    auto device = made<struct uzram_device_options>();
    auto pool = made<struct uzram_pool_options>();
    auto cache = made<struct uzram_cache_options>();
    auto region = made<struct uzram_region_options>();
    device.disksize = THREADS * PART;
    device.block = random.one_in(2) ? 16384 : 4096;
    device.algorithm = random.one_in(2) ? "zstd" : "lz4";
    device.streams = 1 + static_cast<uint32_t>(random.below(3));
    pool.flags = random.below(2);
    cache.object_bytes = 8 + random.below(200);
    region.bytes = THREADS * PART;
    region.limit = random.one_in(2) ? 6 << 20 : 0;
    region.flags = random.below(4);
    // The region is created before or after the other objects. No fork may deadlock in either case.
    bool is_first = random.one_in(2);
    if (is_first)
        CHECK(uzram_region_new(&region, &shared.region) == 0);
    CHECK(uzram_device_new(&device, &shared.device) == 0);
    CHECK(uzram_pool_new(&pool, &shared.pool) == 0);
    CHECK(uzram_cache_new(&cache, &shared.cache) == 0);
    if (!is_first)
        CHECK(uzram_region_new(&region, &shared.region) == 0);
}

// Writes to and reads from the device, with buffers in a range of the region that is evicted.
void use_device(Shared &shared, Random &random, uint64_t first, Bytes &model)
{
    auto *memory = static_cast<uint8_t *>(uzram_region_address(shared.region)) + first;
    uint64_t at = random.upto(PART), len = random.upto(PART - at < 70000 ? PART - at : 70000);
    if (random.one_in(2)) {
        random.fill(memory + at, len);
        CHECK(uzram_region_advise(shared.region, first + at, len, UZRAM_ADVICE_COLD) == 0);
        CHECK(uzram_device_write(shared.device, first + at, memory + at, len) == 0);
        std::memcpy(model.data() + at, memory + at, len);
    } else {
        CHECK(uzram_region_advise(shared.region, first + at, len, UZRAM_ADVICE_COLD) == 0);
        CHECK(uzram_device_read(shared.device, first + at, memory + at, len) == 0);
        CHECK(std::memcmp(model.data() + at, memory + at, len) == 0);
    }
}

void use_pool(Shared &shared, Random &random, uint64_t first)
{
    auto *memory = static_cast<uint8_t *>(uzram_region_address(shared.region)) + first;
    uint64_t len = 1 + random.below(3000), at = random.below(PART - 3000), handle = 0;
    Bytes found(len);
    random.fill(memory + at, len);
    CHECK(uzram_region_advise(shared.region, first + at, len, UZRAM_ADVICE_COLD) == 0);
    CHECK(uzram_pool_store(shared.pool, memory + at, len, &handle) == 0);
    CHECK(uzram_pool_write(shared.pool, handle, memory + at, len / 2) == 0);
    CHECK(uzram_pool_read(shared.pool, handle, found.data(), len, nullptr) == 0);
    CHECK(std::memcmp(found.data(), memory + at, len) == 0);
    CHECK(uzram_pool_free(shared.pool, handle) == 0);
    CHECK(uzram_pool_free(shared.pool, handle) == -ESTALE);
}

void use_cache(Shared &shared, Random &random)
{
    void *object = nullptr;
    if (random.one_in(2)) {
        CHECK(uzram_cache_alloc(shared.cache, &object) == 0);
        uintptr_t number = reinterpret_cast<uintptr_t>(object);
        std::memcpy(object, &number, sizeof number);
        std::lock_guard<std::mutex> lock(shared.mutex);
        shared.objects.push_back(object);
        return;
    }
    {
        std::lock_guard<std::mutex> lock(shared.mutex);
        if (shared.objects.empty())
            return;
        size_t nth = random.below(shared.objects.size());
        object = shared.objects[nth];
        shared.objects[nth] = shared.objects.back();
        shared.objects.pop_back();
    }
    CHECK(std::memcmp(object, &object, sizeof object) == 0);
    CHECK(uzram_cache_free(shared.cache, object) == 0);
}

void work(Shared &shared, uint64_t nth, uint64_t seed, uint64_t steps)
{
    Random random(seed * THREADS + nth);
    Bytes model(PART);
    for (uint64_t i = 0; i < steps; i++) {
        use_device(shared, random, nth * PART, model);
        use_pool(shared, random, nth * PART);
        for (int j = 0; j < 20; j++)
            use_cache(shared, random);
        switch (random.below(100)) {
        case 0:
            CHECK(uzram_pool_compact(shared.pool, nullptr) == 0);
            break;
        case 1:
            CHECK(uzram_device_compact(shared.device, nullptr) == 0);
            break;
        case 2:
            CHECK(uzram_cache_shrink(shared.cache, nullptr) == 0);
            break;
        case 3:
            CHECK(uzram_region_reclaim(shared.region, PART, nullptr) == 0);
            break;
        default:
            break;
        }
        // The message is that of this thread's last failed call.
        CHECK(std::strstr(uzram_error_message(), "stale") != nullptr);
    }
    Bytes found(PART);
    CHECK(uzram_device_read(shared.device, nth * PART, found.data(), PART) == 0 && found == model);
}

// Uses all objects in a child, whatever the parent's other threads did during the fork.
void in_child(Shared &shared, uint64_t seed)
{
    alarm(120);
    Random random(seed);
    Bytes bytes(THREADS * PART);
    uint64_t handle = 0;
    void *object = nullptr;
    auto *memory = static_cast<uint8_t *>(uzram_region_address(shared.region));
    CHECK(uzram_device_read(shared.device, 0, bytes.data(), bytes.size()) == 0);
    CHECK(uzram_device_write(shared.device, 5, memory, 100000) == 0);
    CHECK(uzram_pool_store(shared.pool, memory + PART, 100, &handle) == 0);
    CHECK(uzram_pool_free(shared.pool, handle) == 0);
    CHECK(uzram_cache_alloc(shared.cache, &object) == 0);
    CHECK(uzram_cache_free(shared.cache, object) == 0);
    std::memcpy(memory, bytes.data(), bytes.size());
    CHECK(std::memcmp(memory, bytes.data(), bytes.size()) == 0);
    if (random.one_in(2)) {
        uzram_region_destroy(shared.region);
        uzram_device_destroy(shared.device);
        uzram_pool_destroy(shared.pool);
    }
    _exit(0);
}

} // namespace

void with_threads(uint64_t seed, uint64_t steps)
{
    Shared shared;
    Random random(seed);
    make_all(shared, random);
    std::vector<std::thread> threads;
    std::thread forks([&] {
        Random random(seed);
        while (!shared.has_ended) {
            int status = 1;
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0)
                in_child(shared, random.next());
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            usleep(static_cast<useconds_t>(random.below(5000)));
        }
    });
    for (uint64_t nth = 0; nth < THREADS; nth++)
        threads.emplace_back(work, std::ref(shared), nth, seed, steps);
    for (auto &thread : threads)
        thread.join();
    shared.has_ended = true;
    forks.join();
    for (void *object : shared.objects)
        CHECK(uzram_cache_free(shared.cache, object) == 0);
    CHECK(uzram_cache_destroy(shared.cache) == 0);
    uzram_pool_destroy(shared.pool);
    uzram_device_destroy(shared.device);
    uzram_region_destroy(shared.region);
}
