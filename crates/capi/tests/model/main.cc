// Compares uzram.h with models in plain memory: model DIR SEED ROUNDS [STEPS] [--single]
#include "check.hpp"

#include <memory>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void forked(std::vector<std::unique_ptr<Subject>> &all, Random &random)
{
    int status = 1;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (auto &subject : all)
            subject->change(random);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (auto &subject : all)
        subject->check();
}

} // namespace

int main(int argc, char **argv)
{
    bool is_single = argc == 6 && std::strcmp(argv[5], "--single") == 0;
    CHECK(argc == 4 || argc == 5 || is_single);
    std::string dir = argv[1];
    uint64_t first = std::strtoull(argv[2], nullptr, 0);
    uint64_t rounds = std::strtoull(argv[3], nullptr, 0);
    uint64_t steps = argc > 4 ? std::strtoull(argv[4], nullptr, 0) : 1000;
    for (uint64_t seed = first; seed < first + rounds; seed++) {
        std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
        std::fflush(stdout);
        Random random(seed);
        std::vector<std::unique_ptr<Subject>> all;
        for (int i = 0; i < 2; i++) {
            all.emplace_back(make_device(random, dir));
            all.emplace_back(make_pool(random));
            all.emplace_back(make_cache(random));
            all.emplace_back(make_lru(random));
            // Valgrind would deliver the faults of regions one by one.
            if (!is_single)
                all.emplace_back(make_region(random));
        }
        for (uint64_t i = 0; i < steps; i++) {
            all[random.below(all.size())]->step(random);
            if (!is_single && random.one_in(500))
                forked(all, random);
        }
        all.clear();
        if (!is_single)
            with_threads(seed, steps / 10);
    }
    std::puts("all is as the models say");
    return 0;
}
