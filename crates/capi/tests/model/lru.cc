// Compares an LRU cache with a map and a list of its keys in the order of use.
#include "check.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace {

class Lru : public Subject {
  public:
    explicit Lru(Random &random)
    {
        auto options = made<struct uzram_lru_options>();
        options.limit = (1 << 20) + random.below(2 << 20);
        options.flags = static_cast<uint32_t>(random.below(2));
        options.algorithm = random.one_in(2) ? "lz4" : nullptr;
        options.on_evict = evicted;
        options.context = this;
        CHECK(uzram_lru_new(&options, &lru) == 0);
    }

    ~Lru() override
    {
        check();
        uzram_lru_destroy(lru);
    }

    void step(Random &random) override
    {
        Bytes key = some(random);
        switch (random.below(16)) {
        case 0:
            CHECK(uzram_lru_remove(lru, key.data(), key.size()) == (forget(key) ? 0 : -ENOENT));
            break;
        case 1:
            if (random.one_in(50)) {
                CHECK(uzram_lru_clear(lru) == 0);
                model.clear();
                order.clear();
            }
            break;
        case 2:
        case 3:
        case 4:
            read(random, key, uzram_lru_get, random.upto(70000));
            use(key);
            break;
        case 5:
            read(random, key, uzram_lru_peek, random.upto(70000));
            break;
        default:
            put(random, key);
        }
    }

    void check() override
    {
        auto stat = made<struct uzram_lru_stat>();
        CHECK(uzram_lru_stat(lru, &stat) == 0);
        CHECK(stat.entries == model.size() && stat.held <= stat.limit);
        for (auto &known : model) {
            Bytes found(known.second.size() + 1);
            uint64_t len = 0;
            CHECK(uzram_lru_peek(lru, known.first.data(), known.first.size(), found.data(),
                                 found.size(), &len) == 0);
            found.resize(len);
            CHECK(found == known.second);
        }
    }

    void change(Random &random) override
    {
        check();
        for (int i = 0; i < 20; i++)
            step(random);
        check();
    }

  private:
    static Bytes some(Random &random)
    {
        Bytes key(random.below(5));
        for (auto &byte : key)
            byte = static_cast<uint8_t>(random.below(4));
        return key;
    }

    // The least recently used value must be evicted first.
    static void evicted(void *context, const void *key, uint64_t key_bytes, const void *value,
                        uint64_t value_bytes)
    {
        Lru *self = static_cast<Lru *>(context);
        auto k = static_cast<const uint8_t *>(key), v = static_cast<const uint8_t *>(value);
        Bytes evicted(k, k + key_bytes);
        CHECK(self->order.front() == evicted);
        CHECK(self->model.at(evicted) == Bytes(v, v + value_bytes));
        self->forget(evicted);
    }

    bool forget(const Bytes &key)
    {
        order.erase(std::remove(order.begin(), order.end(), key), order.end());
        return model.erase(key) > 0;
    }

    void use(const Bytes &key)
    {
        auto found = model.find(key);
        if (found != model.end()) {
            Bytes value = found->second;
            forget(key);
            keep(key, value);
        }
    }

    void keep(const Bytes &key, const Bytes &value)
    {
        model[key] = value;
        order.push_back(key);
    }

    void put(Random &random, const Bytes &key)
    {
        Bytes value(random.upto(random.one_in(40) ? 900000 : 70000));
        random.fill(value.data(), value.size());
        // The call makes an old value the most recently used even if it does not replace the value.
        use(key);
        int result = uzram_lru_put(lru, key.data(), key.size(), value.data(), value.size());
        CHECK(result == 0 || (result == -ENOSPC && value.size() > 100000));
        if (result == 0) {
            forget(key);
            keep(key, value);
        }
    }

    template <typename Call>
    void read(Random &random, const Bytes &key, Call call, uint64_t len) const
    {
        auto known = model.find(key);
        Bytes found(len + 1, 0xa5);
        uint64_t bytes = 0, *place = random.one_in(4) ? nullptr : &bytes;
        int result = call(lru, key.data(), key.size(), found.data(), len, place);
        CHECK(result == (known == model.end() ? -ENOENT : 0));
        uint64_t size = result == 0 ? known->second.size() : 0, copied = std::min(len, size);
        CHECK(place == nullptr || bytes == size);
        CHECK(copied == 0 || std::memcmp(found.data(), known->second.data(), copied) == 0);
        for (uint64_t i = copied; i <= len; i++)
            CHECK(found[i] == 0xa5);
    }

    uzram_lru *lru = nullptr;
    std::map<Bytes, Bytes> model;
    std::deque<Bytes> order;
};

} // namespace

Subject *make_lru(Random &random)
{
    return new Lru(random);
}
