// Compares a device with a model in plain memory.
#include "check.hpp"

#include <algorithm>
#include <memory>
#include <unistd.h>

namespace {

constexpr uint64_t SLOT = 4096;

class Device : public Subject {
  public:
    Device(Random &random, const std::string &given) : dir(given)
    {
        auto options = made<struct uzram_device_options>();
        static const std::vector<const char *> names = {nullptr, "lz4", "lz4hc", "zstd"};
        static const std::vector<uint32_t> blocks = {0, 4096, 8192, 16384, 32768, 65536};
        options.disksize = 1 + random.below(1 << 21);
        options.algorithm = random.of(names);
        options.block = random.of(blocks);
        options.flags = static_cast<uint32_t>(random.below(8));
        is_left = (options.flags & UZRAM_DEVICE_LEAVE_AT_FORK) != 0;
        has_times = (options.flags & UZRAM_DEVICE_TRACK_ACCESS) != 0;
        options.streams = static_cast<uint32_t>(random.below(4));
        if (random.one_in(2))
            options.recompression[0] = "zstd";
        if (random.one_in(3))
            options.mem_limit = limit = 4096 * (1 + random.below(200));
        if (random.one_in(3)) {
            static unsigned count;
            backing = dir + "/backing" + std::to_string(getpid()) + "-" + std::to_string(count++);
            options.backing_path = backing.c_str();
            options.backing_bytes = 65536 + random.below(1 << 21);
        }
        CHECK(uzram_device_new(&options, &device) == 0);
        model.resize((options.disksize + SLOT - 1) / SLOT * SLOT);
        uint64_t block = options.block == 0 ? SLOT : options.block;
        auto stat = told();
        CHECK(stat.disksize >= model.size() && stat.disksize % SLOT == 0);
        CHECK(stat.disksize < model.size() + block);
        model.resize(stat.disksize);
    }

    ~Device() override
    {
        check();
        uzram_device_destroy(device);
        if (!backing.empty())
            CHECK(unlink(backing.c_str()) == 0);
    }

    void step(Random &random) override
    {
        switch (random.below(20)) {
        case 0:
        case 1:
            discard(random);
            break;
        case 2:
            beyond(random);
            break;
        case 3:
            jobs(random);
            break;
        case 4:
            CHECK(uzram_device_compact(device, nullptr) == 0);
            break;
        case 5:
            save(random);
            break;
        case 6:
            figures();
            break;
        case 7:
            if (limit > 0)
                limit = SLOT * (1 + random.below(300));
            CHECK(uzram_device_set_mem_limit(device, limit) == 0);
            break;
        default:
            random.one_in(2) ? write(random) : read(random);
        }
    }

    void check() override
    {
        Bytes found(model.size());
        CHECK(uzram_device_read(device, 0, found.data(), found.size()) == 0);
        CHECK(found == model);
    }

    void change(Random &random) override
    {
        uint8_t byte = 0;
        int result = uzram_device_read(device, 0, &byte, 1);
        if (is_left) {
            CHECK(result == -ENODEV);
            return;
        }
        // Data in the backing file stay with the parent.
        CHECK((result == 0 && byte == model[0]) || (!backing.empty() && result == -ENODEV));
        for (int i = 0; i < 20; i++)
            write(random, !backing.empty());
    }

  private:
    struct Range {
        uint64_t at, len;
    };

    Range range(Random &random) const
    {
        uint64_t at = random.upto(model.size());
        return {at, random.upto(std::min<uint64_t>(model.size() - at, 200000))};
    }

    struct uzram_device_stat told() const
    {
        auto stat = made<struct uzram_device_stat>();
        CHECK(uzram_device_stat(device, &stat) == 0 && stat.size == sizeof stat);
        return stat;
    }

    void read(Random &random)
    {
        Range range = this->range(random);
        Bytes found(range.len + 2, 0xa5);
        CHECK(uzram_device_read(device, range.at, found.data() + 1, range.len) == 0);
        CHECK(found.front() == 0xa5 && found.back() == 0xa5);
        CHECK(std::equal(found.begin() + 1, found.end() - 1, model.begin() + range.at));
    }

    // Applies the effect of a failed call to the model. Slots before some slot have the new
    // contents, the other slots the old contents.
    void settle(Range range, const Bytes &bytes, bool may_mix)
    {
        Bytes found(range.len);
        CHECK(uzram_device_read(device, range.at, found.data(), range.len) == 0);
        bool is_old = false;
        for (uint64_t at = 0; at < range.len;) {
            uint64_t end = std::min(range.len, (range.at + at) / SLOT * SLOT + SLOT - range.at);
            auto same = [&](const uint8_t *with) {
                return std::equal(with, with + (end - at), found.begin() + at);
            };
            bool is_new = same(bytes.data() + at), was = same(model.data() + range.at + at);
            CHECK(is_new || was);
            CHECK(may_mix || was || !is_old);
            is_old |= !is_new;
            at = end;
        }
        std::copy(found.begin(), found.end(), model.begin() + range.at);
    }

    void write(Random &random, bool may_lack = false)
    {
        Range range = this->range(random);
        Bytes bytes(range.len);
        random.fill(bytes.data(), bytes.size());
        int result = uzram_device_write(device, range.at, bytes.data(), range.len);
        if (may_lack && result == -ENODEV)
            return;
        CHECK(result == 0 || (result == -ENOSPC && limit > 0));
        if (result == 0)
            std::copy(bytes.begin(), bytes.end(), model.begin() + range.at);
        else if (!may_lack)
            settle(range, bytes, false);
    }

    void discard(Random &random)
    {
        Range range = this->range(random);
        int result = uzram_device_discard(device, range.at, range.len);
        CHECK(result == 0 || (result == -ENOSPC && limit > 0));
        Bytes zeros(range.len);
        if (result == 0)
            std::copy(zeros.begin(), zeros.end(), model.begin() + range.at);
        else
            settle(range, zeros, true);
    }

    // Calls with ranges that extend past the end of the device, by one byte or far more.
    void beyond(Random &random)
    {
        uint8_t bytes[8] = {};
        uint64_t end = model.size();
        static const std::vector<uint64_t> far = {1, 2, 4096, UINT64_C(1) << 44, UINT64_MAX >> 1};
        uint64_t at = end - random.below(8), len = end - at + random.of(far);
        uint64_t last = UINT64_MAX - random.below(8);
        CHECK(uzram_device_discard(device, at, len) == -EINVAL);
        CHECK(uzram_device_discard(device, last, len) == -EINVAL);
        CHECK(uzram_device_discard(device, at, last) == -EINVAL);
        CHECK(uzram_device_read(device, last, bytes, sizeof bytes) == -EINVAL);
        CHECK(uzram_device_write(device, end - 7, bytes, sizeof bytes) == -EINVAL);
        CHECK(uzram_device_write(device, 0, bytes, last) == -EINVAL);
        CHECK(uzram_device_read(device, 0, nullptr, 1) == -EINVAL);
        CHECK(uzram_device_read(device, end, nullptr, 0) == 0);
        CHECK(uzram_device_read(device, end + 1, nullptr, 0) == -EINVAL);
        CHECK(std::strlen(uzram_error_message()) > 20);
    }

    void jobs(Random &random)
    {
        uint64_t seconds = random.of(std::vector<uint64_t>{0, 0, 1, UINT64_MAX});
        CHECK(uzram_device_mark_idle(device, seconds) == (has_times || !seconds ? 0 : -EINVAL));
        auto how = made<struct uzram_recompress_options>();
        how.which = static_cast<uint32_t>(random.below(6));
        how.priority = static_cast<uint32_t>(random.below(5));
        how.threshold = random.upto(4096);
        how.max_pages = random.upto(100);
        auto smaller = made<struct uzram_recompressed>();
        int result = uzram_device_recompress(device, &how, &smaller);
        CHECK(result == 0 || result == -EINVAL);
        if (result == 0)
            CHECK(smaller.smaller <= smaller.tried && smaller.damaged == 0);
        auto written = made<struct uzram_written_back>();
        auto which = static_cast<uint32_t>(random.below(6));
        result = uzram_device_write_back(device, which, &written);
        if (which > UZRAM_WHICH_INCOMPRESSIBLE)
            CHECK(result == -EINVAL);
        else if (backing.empty())
            CHECK(result == -ENODEV);
        else
            CHECK(result == 0 || result == -ENOSPC);
    }

    void save(Random &random)
    {
        if (!random.one_in(4))
            return;
        std::string path = dir + "/saved" + std::to_string(getpid());
        uint64_t lost = 1;
        CHECK(uzram_device_save(device, path.c_str(), &lost) == 0 && lost == 0);
        auto options = made<struct uzram_device_options>();
        uzram_device *other = nullptr;
        bool is_small = random.one_in(4) && model.size() > SLOT;
        options.disksize = model.size() - (is_small ? SLOT : 0);
        options.block = random.one_in(2) ? 16384 : 4096;
        CHECK(uzram_device_new(&options, &other) == 0);
        int result = uzram_device_restore(other, path.c_str(), 0, &lost);
        auto stat = made<struct uzram_device_stat>();
        CHECK(uzram_device_stat(other, &stat) == 0);
        if (stat.disksize < model.size()) {
            CHECK(result == -ENOSPC);
        } else {
            Bytes found(model.size());
            CHECK(result == 0 && lost == 0);
            CHECK(uzram_device_read(other, 0, found.data(), found.size()) == 0 && found == model);
        }
        uzram_device_destroy(other);
        hostile(random, path);
        CHECK(unlink(path.c_str()) == 0);
    }

    // Restores a truncated file, or a file with a changed byte. The restore must fail, or lose no
    // data.
    void hostile(Random &random, const std::string &path)
    {
        std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "r+"), std::fclose);
        CHECK(file && std::fseek(file.get(), 0, SEEK_END) == 0);
        uint64_t len = static_cast<uint64_t>(std::ftell(file.get())), at = random.below(len);
        if (random.one_in(2)) {
            CHECK(ftruncate(fileno(file.get()), static_cast<off_t>(at)) == 0);
        } else {
            CHECK(std::fseek(file.get(), static_cast<long>(at), SEEK_SET) == 0);
            int was = std::fgetc(file.get());
            CHECK(std::fseek(file.get(), static_cast<long>(at), SEEK_SET) == 0);
            CHECK(std::fputc(was ^ (1 << random.below(8)), file.get()) != EOF);
        }
        file.reset();
        auto options = made<struct uzram_device_options>();
        uzram_device *other = nullptr;
        uint64_t lost = 0;
        Bytes found(model.size());
        options.disksize = model.size();
        CHECK(uzram_device_new(&options, &other) == 0);
        int result = uzram_device_restore(other, path.c_str(), 0, nullptr);
        CHECK(result == 0 || result == -EBADMSG);
        if (result == -EBADMSG) {
            CHECK(uzram_device_read(other, 0, found.data(), found.size()) == 0);
            CHECK(std::count(found.begin(), found.end(), 0) == static_cast<long>(found.size()));
            result = uzram_device_restore(other, path.c_str(), UZRAM_RESTORE_SALVAGE, &lost);
            CHECK(result == 0 || result == -EBADMSG);
        }
        if (result == 0) {
            CHECK(uzram_device_read(other, 0, found.data(), found.size()) == 0);
            uint64_t differ = 0;
            for (size_t i = 0; i < found.size(); i++) {
                CHECK(found[i] == model[i] || (found[i] == 0 && lost > 0));
                differ += found[i] != model[i];
            }
            CHECK(differ <= lost);
        }
        uzram_device_destroy(other);
    }

    void figures() const
    {
        auto stat = told();
        CHECK(stat.orig_data_size <= model.size() && stat.mem_used <= stat.mem_total);
        CHECK(stat.mem_used <= stat.mem_used_max && stat.failed_reads == 0);
        CHECK(stat.mem_limit >= limit && stat.mem_limit < limit + 65536);
        CHECK(backing.empty() ? stat.backing_bytes == 0 : stat.backing_bytes % SLOT == 0);
    }

    std::string dir, backing;
    uzram_device *device = nullptr;
    Bytes model;
    uint64_t limit = 0;
    bool is_left = false, has_times = false;
};

} // namespace

Subject *make_device(Random &random, const std::string &dir) { return new Device(random, dir); }
