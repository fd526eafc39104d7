// Declarations that the parts of the random test share.
#pragma once

#include "uzram.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// Aborts the program if `is` is false.
#define CHECK(is)                                                                                \
    do {                                                                                         \
        if (!(is)) {                                                                             \
            std::fprintf(stderr, "%s:%d: not so: %s; the last error: %s\n", __FILE__, __LINE__,  \
                         #is, uzram_error_message());                                            \
            std::abort();                                                                        \
        }                                                                                        \
    } while (0)

// A generator of random numbers that depend only on the seed, not on the machine.
class Random {
  public:
    explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15u + 1) {}

    uint64_t next()
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state * 0x2545F4914F6CDD1Du;
    }

    // Returns a number below `end`, which is not 0.
    uint64_t below(uint64_t end) { return (next() >> 16) % end; }

    // Returns true with a probability of 1 in `count`.
    bool one_in(uint64_t count) { return below(count) == 0; }

    template <typename T> const T &of(const std::vector<T> &all) { return all[below(all.size())]; }

    // Returns a number from 0 to `most`, often near a multiple of 4096.
    uint64_t upto(uint64_t most)
    {
        static const std::vector<uint64_t> steps = {0, 1, 4095, 4096, 4097, 8192, 65535, 65536};
        uint64_t number = one_in(2) ? of(steps) : below(1 + (one_in(2) ? most : most / 64));
        return number <= most ? number : most - below(1 + (most < 2 ? most : 2));
    }

    // Fills `bytes` with zeros, one repeated word, compressible text, or incompressible data.
    void fill(uint8_t *bytes, size_t len)
    {
        uint64_t kind = below(5), word = next();
        for (size_t i = 0; i < len; i++) {
            if (kind >= 3 && i % 8 == 0)
                word = next();
            uint8_t byte = static_cast<uint8_t>(word >> (i % 8 * 8));
            bytes[i] = kind == 0 ? 0 : kind == 4 ? byte : kind == 3 ? 'a' + byte % 4 : byte;
        }
    }

  private:
    uint64_t state;
};

using Bytes = std::vector<uint8_t>;

// Returns a struct whose `size` is set and whose other fields are 0.
template <typename T> T made() { return UZRAM_INIT(T); }

// An object of the library, with a model that has the same contents.
class Subject {
  public:
    virtual ~Subject() = default;
    // Makes a random call, and compares its result with the model.
    virtual void step(Random &random) = 0;
    // Compares all contents of the object with the model.
    virtual void check() = 0;
    // Changes the object in a child process. The parent must not see the change.
    virtual void change(Random &random) = 0;
};

Subject *make_device(Random &random, const std::string &dir);
Subject *make_pool(Random &random);
Subject *make_cache(Random &random);
Subject *make_lru(Random &random);
Subject *make_region(Random &random);

// Runs threads on one object of each kind, each thread on its own ranges, while another thread
// forks.
void with_threads(uint64_t seed, uint64_t steps);
