// Compares a pool and an object cache with models in plain memory.
#include "check.hpp"

#include <map>

namespace {

class Pool : public Subject {
  public:
    explicit Pool(Random &random)
    {
        auto options = made<struct uzram_pool_options>();
        options.flags = random.below(4);
        is_left = (options.flags & UZRAM_POOL_LEAVE_AT_FORK) != 0;
        if (random.one_in(2))
            options.limit = limit = 1 + random.below(1 << 20);
        CHECK(uzram_pool_new(&options, &pool) == 0);
        most = told().object_bytes_max;
    }

    ~Pool() override
    {
        check();
        uzram_pool_destroy(pool);
    }

    void step(Random &random) override
    {
        switch (random.below(12)) {
        case 0:
        case 1:
        case 2:
        case 3:
            store(random);
            break;
        case 4:
        case 5:
            free(random);
            break;
        case 6:
            write(random);
            break;
        case 7:
            misuse(random);
            break;
        case 8:
            if (random.one_in(8))
                CHECK(uzram_pool_compact(pool, nullptr) == 0);
            break;
        case 9:
            if (limit > 0)
                limit = 1 + random.below(1 << 20);
            CHECK(uzram_pool_set_limit(pool, limit) == 0);
            break;
        case 10:
            figures();
            break;
        default:
            if (!model.empty())
                read(some(random), random.upto(most));
        }
    }

    void check() override
    {
        for (auto &object : model)
            read(object.first, object.second.size());
        CHECK(told().objects == model.size());
    }

    void change(Random &random) override
    {
        uint64_t handle = 0;
        if (is_left) {
            CHECK(uzram_pool_store(pool, "x", 1, &handle) == -ENODEV && handle == 0);
            return;
        }
        check();
        for (int i = 0; i < 20; i++)
            store(random), free(random), write(random);
    }

  private:
    struct uzram_pool_stat told() const
    {
        auto stat = made<struct uzram_pool_stat>();
        CHECK(uzram_pool_stat(pool, &stat) == 0);
        return stat;
    }

    uint64_t some(Random &random) const
    {
        auto found = model.lower_bound(random.next());
        return (found == model.end() ? model.begin() : found)->first;
    }

    void store(Random &random)
    {
        Bytes bytes(random.upto(random.one_in(4) ? most : 300));
        random.fill(bytes.data(), bytes.size());
        uint64_t handle = 0;
        int result = uzram_pool_store(pool, bytes.data(), bytes.size(), &handle);
        if (bytes.empty()) {
            CHECK(result == -EINVAL && handle == 0);
        } else if (result == 0) {
            CHECK(handle != 0 && model.emplace(handle, bytes).second);
        } else {
            CHECK(result == -ENOSPC && limit > 0 && handle == 0);
        }
    }

    void read(uint64_t handle, uint64_t len) const
    {
        const Bytes &object = model.at(handle);
        Bytes found(len + 1, 0xa5);
        uint64_t bytes = 0, copied = len < object.size() ? len : object.size();
        CHECK(uzram_pool_read(pool, handle, found.data(), len, &bytes) == 0);
        CHECK(bytes == object.size() && std::memcmp(found.data(), object.data(), copied) == 0);
        for (uint64_t i = copied; i <= len; i++)
            CHECK(found[i] == 0xa5);
    }

    void write(Random &random)
    {
        if (model.empty())
            return;
        uint64_t handle = some(random);
        Bytes &object = model.at(handle);
        Bytes bytes(random.upto(object.size() + 1));
        random.fill(bytes.data(), bytes.size());
        int result = uzram_pool_write(pool, handle, bytes.data(), bytes.size());
        CHECK(result == (bytes.size() > object.size() ? -EINVAL : 0));
        if (result == 0)
            std::copy(bytes.begin(), bytes.end(), object.begin());
    }

    void free(Random &random)
    {
        if (model.empty())
            return;
        last = some(random);
        CHECK(uzram_pool_free(pool, last) == 0);
        model.erase(last);
    }

    // Calls with handles that were freed, or that the pool never returned.
    void misuse(Random &random)
    {
        uint8_t byte = 0;
        uint64_t made_up[] = {0, last, random.next(), UINT64_MAX, 1};
        for (uint64_t handle : made_up) {
            if (model.count(handle) > 0)
                continue;
            CHECK(uzram_pool_read(pool, handle, &byte, 1, nullptr) == -ESTALE);
            CHECK(uzram_pool_write(pool, handle, &byte, 1) == -ESTALE);
            CHECK(uzram_pool_free(pool, handle) == -ESTALE);
        }
        Bytes large(most + 1);
        CHECK(uzram_pool_store(pool, large.data(), large.size(), &made_up[0]) == -EINVAL);
        CHECK(uzram_pool_store(pool, &byte, UINT64_MAX, &made_up[0]) == -EINVAL);
        CHECK(uzram_pool_store(pool, nullptr, 1, &made_up[0]) == -EINVAL);
    }

    void figures() const
    {
        auto stat = told();
        uint64_t bytes = 0;
        for (auto &object : model)
            bytes += object.second.size();
        CHECK(stat.objects == model.size() && stat.total_bytes >= stat.pages_bytes);
        CHECK(stat.pages_bytes >= bytes && stat.freeable_bytes <= stat.pages_bytes);
    }

    uzram_pool *pool = nullptr;
    std::map<uint64_t, Bytes> model;
    uint64_t limit = 0, most = 0, last = 0;
    bool is_left = false;
};

class Cache : public Subject {
  public:
    explicit Cache(Random &random)
    {
        auto options = made<struct uzram_cache_options>();
        static const std::vector<uint64_t> aligns = {0, 1, 2, 8, 16, 64, 512, 4096};
        options.object_bytes = bytes = 1 + random.below(random.one_in(2) ? 100 : 5000);
        options.align = random.of(aligns);
        align = options.align == 0 ? 16 : options.align;
        options.flags = random.below(2);
        options.name = random.one_in(2) ? "things" : nullptr;
        if (random.one_in(3))
            options.limit = limit = 1 + random.below(1 << 20);
        CHECK(uzram_cache_new(&options, &cache) == 0);
    }

    ~Cache() override
    {
        check();
        if (!model.empty())
            CHECK(uzram_cache_destroy(cache) == -EBUSY);
        for (void *object : model)
            CHECK(uzram_cache_free(cache, object) == 0);
        CHECK(uzram_cache_destroy(cache) == 0);
    }

    void step(Random &random) override
    {
        switch (random.below(10)) {
        case 0:
            misuse(random);
            break;
        case 1:
            if (random.one_in(8))
                CHECK(uzram_cache_shrink(cache, nullptr) == 0);
            break;
        case 2:
            figures();
            break;
        case 3:
        case 4:
        case 5:
            if (!model.empty())
                free(random);
            break;
        default:
            alloc();
        }
    }

    void check() override
    {
        for (void *object : model)
            check_one(object);
        auto stat = made<struct uzram_cache_stat>();
        CHECK(uzram_cache_stat(cache, &stat) == 0 && stat.objects == model.size());
    }

    void change(Random &random) override
    {
        check();
        for (int i = 0; i < 30; i++) {
            alloc();
            if (!model.empty())
                free(random);
        }
    }

  private:
    static uint8_t sign(const void *object)
    {
        return static_cast<uint8_t>(reinterpret_cast<uintptr_t>(object) * 0x9E3779B1u >> 24);
    }

    void check_one(const void *object) const
    {
        auto *at = static_cast<const uint8_t *>(object);
        for (uint64_t i = 0; i < bytes; i++)
            CHECK(at[i] == sign(object));
    }

    void alloc()
    {
        void *object = nullptr;
        int result = uzram_cache_alloc(cache, &object);
        if (result != 0) {
            CHECK(result == -ENOSPC && limit > 0 && object == nullptr);
            return;
        }
        CHECK(object != nullptr && reinterpret_cast<uintptr_t>(object) % align == 0);
        if (object == last)
            last = nullptr;
        std::memset(object, sign(object), bytes);
        model.push_back(object);
    }

    void free(Random &random)
    {
        size_t nth = random.below(model.size());
        check_one(model[nth]);
        CHECK(uzram_cache_free(cache, model[nth]) == 0);
        last = model[nth];
        model[nth] = model.back();
        model.pop_back();
    }

    void misuse(Random &random)
    {
        // A double free is detected if the object was not allocated again.
        if (last != nullptr)
            CHECK(uzram_cache_free(cache, last) == -EINVAL);
        auto at = [&](uintptr_t number) { return reinterpret_cast<void *>(number); };
        CHECK(uzram_cache_free(cache, &random) == -EINVAL);
        CHECK(uzram_cache_free(cache, at(random.next() | 1)) == -EINVAL);
        CHECK(uzram_cache_free(cache, at(UINTPTR_MAX)) == -EINVAL);
        CHECK(uzram_cache_free(cache, at(1)) == -EINVAL);
        if (!model.empty() && bytes > 1) {
            auto *within = static_cast<uint8_t *>(random.of(model)) + 1 + random.below(bytes - 1);
            CHECK(uzram_cache_free(cache, within) == -EINVAL);
        }
        CHECK(uzram_cache_free(cache, nullptr) == 0);
    }

    void figures() const
    {
        auto stat = made<struct uzram_cache_stat>();
        CHECK(uzram_cache_stat(cache, &stat) == 0 && stat.objects == model.size());
        CHECK(stat.room >= stat.objects && (stat.slabs > 0 || model.empty()));
        CHECK(stat.total_bytes >= stat.objects * bytes);
    }

    uzram_cache *cache = nullptr;
    std::vector<void *> model;
    uint64_t bytes = 0, align = 0, limit = 0;
    void *last = nullptr;
};

} // namespace

Subject *make_pool(Random &random) { return new Pool(random); }
Subject *make_cache(Random &random) { return new Cache(random); }
