// Compares a region with a model in plain memory.
#include "check.hpp"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

namespace {

class Region : public Subject {
  public:
    explicit Region(Random &random)
    {
        auto options = made<struct uzram_region_options>();
        static const std::vector<const char *> names = {nullptr, "lz4", "lz4hc", "zstd"};
        static const std::vector<uint32_t> blocks = {0, 4096, 8192, 16384, 32768, 65536};
        options.bytes = 1 + random.below(3 << 20);
        options.algorithm = random.of(names);
        options.block = random.of(blocks);
        options.flags = random.below(4);
        if (random.one_in(2))
            options.limit = 16 << 20;
        CHECK(uzram_region_new(&options, &region) == 0);
        CHECK(uzram_region_bytes(region) == options.bytes);
        memory = static_cast<uint8_t *>(uzram_region_address(region));
        unit = options.block == 0 ? 4096 : options.block;
        CHECK(reinterpret_cast<uintptr_t>(memory) % unit == 0);
        model.resize(options.bytes);
    }

    ~Region() override
    {
        check();
        for (auto &lock : locks)
            uzram_region_unlock(lock.locked);
        uzram_region_destroy(region);
    }

    void step(Random &random) override
    {
        Range range = this->range(random);
        uint8_t *at = memory + range.at, *model_at = model.data() + range.at;
        switch (random.below(14)) {
        case 0:
            CHECK(uzram_region_advise(region, range.at, range.len, UZRAM_ADVICE_COLD) == 0);
            break;
        case 1:
            CHECK(uzram_region_advise(region, range.at, range.len, UZRAM_ADVICE_HOT) == 0);
            break;
        case 2:
            CHECK(uzram_region_prefetch(region, range.at, range.len) == 0);
            break;
        case 3:
            reclaim(random);
            break;
        case 4:
            lock(range);
            break;
        case 5:
            if (!locks.empty())
                unlock(random.below(locks.size()));
            break;
        case 6:
            discard(range);
            break;
        case 7:
            beyond(random);
            break;
        case 8:
            figures();
            break;
        case 9:
        case 10:
            CHECK(std::equal(at, at + range.len, model_at));
            break;
        case 11:
            for (uint64_t i = 0; i < range.len; i += 1 + random.below(3000))
                at[i] = model_at[i] = static_cast<uint8_t>(random.next());
            break;
        default:
            random.fill(model_at, range.len);
            std::copy(model_at, model_at + range.len, at);
        }
    }

    void check() override { CHECK(std::equal(model.begin(), model.end(), memory)); }

    void change(Random &random) override
    {
        check();
        for (auto &lock : locks)
            uzram_region_unlock(lock.locked);
        locks.clear();
        for (int i = 0; i < 30; i++)
            step(random);
        check();
    }

  private:
    struct Range {
        uint64_t at, len;
    };

    struct Lock {
        Range range;
        uzram_region_locked *locked;
    };

    Range range(Random &random) const
    {
        uint64_t at = random.upto(model.size());
        return {at, random.upto(std::min<uint64_t>(model.size() - at, 300000))};
    }

    void reclaim(Random &random)
    {
        uint64_t wanted = random.upto(model.size()), gone = 0;
        CHECK(uzram_region_reclaim(region, wanted, &gone) == 0);
        CHECK(gone % unit == 0 && gone < wanted + 65 * unit);
    }

    // A locked range can be passed to system calls.
    void lock(Range range)
    {
        if (locks.size() >= 8)
            unlock(0);
        Lock lock = {range, nullptr};
        CHECK(uzram_region_lock(region, range.at, range.len, &lock.locked) == 0);
        CHECK(lock.locked != nullptr);
        locks.push_back(lock);
        int file = open("/dev/zero", O_RDONLY);
        CHECK(file >= 0);
        ssize_t len = read(file, memory + range.at, range.len);
        CHECK(len == static_cast<ssize_t>(range.len) && close(file) == 0);
        std::fill_n(model.begin() + range.at, range.len, 0);
    }

    void unlock(uint64_t nth)
    {
        uzram_region_unlock(locks[nth].locked);
        locks.erase(locks.begin() + static_cast<long>(nth));
    }

    void discard(Range range)
    {
        uint64_t first = (range.at + unit - 1) / unit * unit;
        uint64_t end = (range.at + range.len) / unit * unit;
        bool is_locked = false;
        for (auto &lock : locks) {
            uint64_t begins = lock.range.at / unit * unit;
            uint64_t ends = (lock.range.at + lock.range.len + unit - 1) / unit * unit;
            is_locked |= first < end && lock.range.len > 0 && begins < end && first < ends;
        }
        int result = uzram_region_discard(region, range.at, range.len);
        CHECK(result == (is_locked ? -EBUSY : 0));
        for (uint64_t i = range.at; i < range.at + range.len; i++) {
            CHECK(memory[i] == 0 || (is_locked && memory[i] == model[i]));
            model[i] = memory[i];
        }
    }

    void beyond(Random &random)
    {
        uint64_t end = model.size(), at = end - random.below(std::min<uint64_t>(end, 8192));
        uint64_t len = end - at + 1, last = UINT64_MAX - random.below(8);
        uzram_region_locked *locked = nullptr;
        for (uint64_t beyond : {len, last, UINT64_MAX, UINT64_MAX - at, UINT64_MAX - at + 1}) {
            CHECK(uzram_region_lock(region, at, beyond, &locked) == -EINVAL);
            CHECK(uzram_region_prefetch(region, at, beyond) == -EINVAL);
            CHECK(uzram_region_discard(region, at, beyond) == -EINVAL);
            CHECK(uzram_region_advise(region, at, beyond, UZRAM_ADVICE_COLD) == -EINVAL);
        }
        CHECK(uzram_region_lock(region, last, 1, &locked) == -EINVAL);
        CHECK(uzram_region_prefetch(region, last, last) == -EINVAL);
        CHECK(uzram_region_discard(region, end, 0) == 0);
        CHECK(uzram_region_discard(region, end + 1, 0) == -EINVAL);
        CHECK(uzram_region_advise(region, at, 0, 2) == -EINVAL && locked == nullptr);
    }

    void figures() const
    {
        auto stat = made<struct uzram_region_stat>();
        CHECK(uzram_region_stat(region, &stat) == 0);
        CHECK(stat.held <= stat.held_max && stat.resident <= stat.held);
        CHECK(stat.limit == 0 || (stat.limit == 16 << 20 && stat.held <= stat.limit));
        CHECK(stat.resident + stat.stored <= (model.size() + (2 << 20)) * 2);
    }

    uzram_region *region = nullptr;
    uint8_t *memory = nullptr;
    uint64_t unit = 0;
    Bytes model;
    std::vector<Lock> locks;
};

} // namespace

Subject *make_region(Random &random) { return new Region(random); }
