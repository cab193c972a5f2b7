#include "gemm/pack_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <thread>

namespace npu::gemm {
namespace {

class HostBuffer final : public device::Buffer {
  public:
    explicit HostBuffer(std::size_t bytes) : memory_(bytes) {
        data_ = memory_.data();
        bytes_ = bytes;
    }
    Result<void> to_device(std::size_t /*offset*/, std::size_t /*bytes*/) override { return {}; }
    Result<void> from_device(std::size_t /*offset*/, std::size_t /*bytes*/) override { return {}; }
    [[nodiscard]] const std::vector<std::byte>& memory() const { return memory_; }

  private:
    std::vector<std::byte> memory_;
};

const rockchip::ChipProfile& chip() { return rockchip::rk3588(); }

// Weights in memory of their own, in `parts` slices, that begin some way into it.
struct Placed {
    static constexpr std::size_t offset = 192;
    Placed(const WeightsShape& shape, std::uint32_t parts) {
        DeviceSpan span{{}, offset, resident_bytes(shape, chip(), parts), 0};
        for (std::uint32_t part = 0; part < parts; ++part) {
            buffers.push_back(std::make_unique<HostBuffer>(offset + span.bytes + 64));
            span.buffers.push_back(buffers.back().get());
        }
        auto placed = place_weights(shape, std::move(span), chip());
        EXPECT_TRUE(placed) << placed.error().message;
        weights = std::make_unique<ResidentWeights>(std::move(*placed));
    }
    void convert(std::uint32_t seed) {
        const RowReader rows = [&](std::uint32_t row, float* to) {
            std::mt19937 random(seed * 10007 + row);
            std::normal_distribution<float> normal;
            std::generate_n(to, weights->shape.k, [&] { return normal(random) * 3; });
        };
        const auto converted = convert_weights(*weights, rows);
        EXPECT_TRUE(converted) << converted.error().message;
    }
    [[nodiscard]] bool operator==(const Placed& other) const {
        return weights->scales == other.weights->scales &&
               std::ranges::equal(buffers, other.buffers,
                                  [](const auto& a, const auto& b) { return a->memory() == b->memory(); });
    }
    std::vector<std::unique_ptr<HostBuffer>> buffers;
    std::unique_ptr<ResidentWeights> weights;
};

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(count);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
    return bytes;
}

class PackCacheTest : public testing::Test {
  protected:
    PackCacheTest() : folder_(std::filesystem::temp_directory_path() / ("npu-packs-" + std::to_string(getpid()))) {}
    ~PackCacheTest() override { std::filesystem::remove_all(folder_); }

    PackCache cache() {
        return {folder_.string(), [this](const std::string& text) { reports_.push_back(text); }};
    }
    [[nodiscard]] std::filesystem::path file_of(const PackKey& key) const {
        return folder_ / (key.text() + ".npupack");
    }

    std::filesystem::path folder_;
    std::vector<std::string> reports_;
    const std::vector<std::byte> source_ = random_bytes(5000, 1);
};

TEST_F(PackCacheTest, WeightsComeBackBitForBitInEveryPipeline) {
    for (const Pipeline pipeline : {Pipeline::fp16, Pipeline::int8, Pipeline::w4a8, Pipeline::int4}) {
        for (const std::uint32_t parts : {1U, 3U}) {
            const WeightsShape shape{77, 4200, pipeline};  // more than one K tile, and slices of unequal length
            const PackKey key = pack_key(shape, "q8_0", source_, chip(), parts);
            Placed original(shape, parts);
            original.convert(1);
            cache().store(key, *original.weights);
            Placed loaded(shape, parts);
            const auto found = cache().load(key, *loaded.weights);
            ASSERT_TRUE(found) << found.error().message;
            EXPECT_TRUE(*found);
            EXPECT_TRUE(loaded == original) << pipeline_name(pipeline) << " in " << parts;
            Placed other(shape, parts);
            other.convert(2);
            EXPECT_FALSE(other == original);  // the comparison can fail
        }
    }
    EXPECT_EQ(reports_, std::vector<std::string>());
}

TEST_F(PackCacheTest, WhateverShapesTheContentIsPartOfTheName) {
    const WeightsShape shape{64, 1024, Pipeline::int8};
    const auto key = [&](const WeightsShape& weights, const char* type, std::uint32_t parts) {
        return pack_key(weights, type, source_, chip(), parts).text();
    };
    std::vector<std::byte> other_source = source_;
    other_source.back() ^= std::byte{1};
    std::vector<std::string> keys{
        key(shape, "q8_0", 1),
        key(shape, "q5_0", 1),
        key(shape, "q8_0", 3),
        key({64, 1024, Pipeline::w4a8}, "q8_0", 1),
        key({64, 1024, Pipeline::int8, true}, "q8_0", 1),
        key({32, 2048, Pipeline::int8}, "q8_0", 1),
        pack_key(shape, "q8_0", other_source, chip(), 1).text(),
    };
    EXPECT_EQ(keys.front(), key(shape, "q8_0", 1));
    EXPECT_EQ(keys.front().size(), 32U);
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

TEST_F(PackCacheTest, ADamagedFileIsReportedIgnoredAndWrittenAnew) {
    const WeightsShape shape{33, 700, Pipeline::int8};
    const PackKey key = pack_key(shape, "q8_0", source_, chip(), 1);
    Placed original(shape, 1);
    original.convert(1);
    cache().store(key, *original.weights);
    std::ifstream file(file_of(key), std::ios::binary);
    const std::string good(std::istreambuf_iterator<char>(file), {});
    const auto load = [&](const std::string& content) {
        std::ofstream(file_of(key), std::ios::binary) << content;
        reports_.clear();
        Placed loaded(shape, 1);
        const auto found = cache().load(key, *loaded.weights);
        EXPECT_TRUE(found) << found.error().message;
        if (*found) {
            EXPECT_TRUE(loaded == original);
        } else {
            EXPECT_EQ(reports_.size(), 1U);
        }
        return *found;
    };
    ASSERT_TRUE(load(good));
    std::mt19937 random(3);
    for (int i = 0; i < 200; ++i) {  // the header, and anywhere
        std::string damaged = good;
        damaged[i < 56 ? static_cast<std::size_t>(i) : random() % good.size()] ^= static_cast<char>(1U << random() % 8);
        EXPECT_FALSE(load(damaged)) << i;
        ASSERT_FALSE(reports_.empty());
        EXPECT_NE(reports_[0].find(key.text()), std::string::npos) << reports_[0];
    }
    for (const std::size_t length :
         {std::size_t{0}, std::size_t{7}, std::size_t{55}, std::size_t{56}, good.size() - 1}) {
        EXPECT_FALSE(load(good.substr(0, length))) << length;
    }
    EXPECT_FALSE(load(good + '\0'));
    cache().store(key, *original.weights);
    Placed loaded(shape, 1);
    EXPECT_TRUE(*cache().load(key, *loaded.weights));
    EXPECT_TRUE(loaded == original);
}

TEST_F(PackCacheTest, AFileOfAnotherMatrixUnderThisNameIsNotTaken) {
    const WeightsShape shape{33, 700, Pipeline::int8};
    Placed original(shape, 1);
    original.convert(1);
    const PackKey key = pack_key(shape, "q8_0", source_, chip(), 1);
    const PackKey other = pack_key(shape, "q8_0", random_bytes(10, 2), chip(), 1);
    cache().store(other, *original.weights);
    std::filesystem::rename(file_of(other), file_of(key));
    EXPECT_FALSE(*cache().load(key, *original.weights));
    ASSERT_EQ(reports_.size(), 1U);
    EXPECT_NE(reports_[0].find("other weights"), std::string::npos) << reports_[0];
}

TEST_F(PackCacheTest, AFolderThatCannotBeWrittenIsSaidOnce) {
    std::ofstream(folder_) << "a file where the folder should be";
    const WeightsShape shape{33, 700, Pipeline::int8};
    Placed original(shape, 1);
    original.convert(1);
    const PackCache same = cache();
    for (unsigned seed = 0; seed < 3; ++seed) {
        const PackKey key = pack_key(shape, "q8_0", random_bytes(10, seed), chip(), 1);
        same.store(key, *original.weights);
        EXPECT_FALSE(*same.load(key, *original.weights));
    }
    ASSERT_EQ(reports_.size(), 1U);
    EXPECT_NE(reports_[0].find(folder_.string()), std::string::npos) << reports_[0];
    EXPECT_NE(reports_[0].find("GGML_NPU_CACHE"), std::string::npos) << reports_[0];
}

TEST_F(PackCacheTest, WritersAndReadersAtOnceSeeWholeFiles) {
    const WeightsShape shape{64, 2048, Pipeline::int8};
    const PackKey key = pack_key(shape, "q8_0", source_, chip(), 1);
    Placed original(shape, 1);
    original.convert(1);
    const PackCache same(folder_.string(), [](const std::string& text) { ADD_FAILURE() << text; });
    same.store(key, *original.weights);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            for (int i = 0; i < 30; ++i) {
                Placed loaded(shape, 1);
                if (thread == 0) {
                    same.store(key, *original.weights);
                } else if (const auto found = same.load(key, *loaded.weights); !found || !*found) {
                    ADD_FAILURE() << "not found";
                } else {
                    EXPECT_TRUE(loaded == original);
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
        EXPECT_EQ(entry.path(), file_of(key));  // nothing half written is left
    }
}

}  // namespace
}  // namespace npu::gemm
