// Rows of a model file taken apart into blocks of whole numbers, against ggml's own conversion to floats.
#include "plugin/blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "compile/plan.h"
#include "gemm/weights.h"

namespace npu::plugin {
namespace {

using gemm::numbers_per_scale;

struct Blocks {
    std::vector<std::int8_t> numbers;
    std::vector<float> scales;
    std::vector<float> offsets;

    Blocks(ggml_type type, const std::byte* source, std::size_t k)
        : numbers(k), scales(k / numbers_per_scale), offsets(k / numbers_per_scale) {
        block_format(type)(source, k, {numbers.data(), scales.data(), offsets.data()});
    }
    [[nodiscard]] gemm::BlockRow row() const { return {numbers.data(), scales.data(), offsets.data()}; }
};

// Rows of arbitrary bytes: every number, and scales over all of half's range. Without `anything` the exponents of halves, which
// stand at the bytes that `half_at` names in each block, keep below infinity.
std::vector<std::byte> random_rows(ggml_type type, std::size_t k, std::size_t rows, bool anything) {
    std::mt19937 random(static_cast<unsigned>(type) + 1);
    const std::size_t block_bytes = ggml_type_size(type);
    std::vector<std::byte> bytes(ggml_row_size(type, static_cast<std::int64_t>(k)) * rows);
    for (std::byte& byte : bytes) {
        byte = static_cast<std::byte>(random());
    }
    const bool two_halves =
        type == GGML_TYPE_Q4_1 || type == GGML_TYPE_Q5_1 || type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K;
    const std::size_t first_half = type == GGML_TYPE_Q6_K ? block_bytes - 2 : 0;
    for (std::size_t block = 0; !anything && block < bytes.size(); block += block_bytes) {
        bytes[block + first_half + 1] &= std::byte{0xbb};
        if (two_halves) {
            bytes[block + 3] &= std::byte{0xbb};
        }
    }
    return bytes;
}

std::vector<float> floats_of(ggml_type type, const std::byte* source, std::size_t k) {
    std::vector<float> row(k);
    ggml_get_type_traits(type)->to_float(source, row.data(), static_cast<std::int64_t>(k));
    return row;
}

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

class BlockTypes : public testing::TestWithParam<ggml_type> {};

TEST_P(BlockTypes, EveryValueIsTheFloatOfTheFormat) {
    constexpr std::size_t k = 1024;
    constexpr std::size_t rows = 64;
    const ggml_type type = GetParam();
    const auto bytes = random_rows(type, k, rows, true);
    std::size_t ordinary = 0;
    std::size_t noticed = 0;
    for (std::size_t i = 0; i < rows; ++i) {
        const std::byte* source = bytes.data() + i * ggml_row_size(type, k);
        const auto wanted = floats_of(type, source, k);
        const Blocks blocks(type, source, k);
        for (std::size_t j = 0; j < k; ++j) {
            const float got = blocks.row().value(j);
            const float fused = std::fma(blocks.scales[j / numbers_per_scale], static_cast<float>(blocks.numbers[j]),
                                         blocks.offsets[j / numbers_per_scale]);
            if (std::isnan(wanted[j])) {
                ASSERT_TRUE(std::isnan(got) && std::isnan(fused));
                continue;
            }
            ASSERT_EQ(got, wanted[j]) << "value " << j << " of row " << i;  // zeros of either sign are the same weight
            ASSERT_EQ(fused, wanted[j]) << "rounded once, value " << j << " of row " << i;
            ++ordinary;
            noticed += same(blocks.row().value((j + 1) % k), wanted[j]) ? 0U : 1U;
        }
    }
    EXPECT_GT(ordinary, rows * k / 2);
    EXPECT_GT(noticed, rows * k / 2) << "neighbours must differ, or an exchange would not be seen";
}

class Memory final : public device::Buffer {
  public:
    explicit Memory(std::size_t bytes) : bytes_of_(bytes) {
        data_ = bytes_of_.data();
        bytes_ = bytes;
    }
    Result<void> to_device(std::size_t /*offset*/, std::size_t /*bytes*/) override { return {}; }
    Result<void> from_device(std::size_t /*offset*/, std::size_t /*bytes*/) override { return {}; }
    [[nodiscard]] const std::vector<std::byte>& contents() const { return bytes_of_; }

  private:
    std::vector<std::byte> bytes_of_;
};

TEST_P(BlockTypes, ResidentWeightsAreTheSameByBlocksAndByFloats) {
    const ggml_type type = GetParam();
    constexpr std::uint32_t n = 70;
    constexpr std::uint32_t k = 2 * 576 + 128;  // three K tiles of w4a8, in whole blocks of 256
    static_assert(k % 256 == 0);
    for (const bool anything : {false, true}) {
        const auto bytes = random_rows(type, k, n, anything);
        const std::size_t row_bytes = ggml_row_size(type, k);
        for (const gemm::Pipeline pipeline : {gemm::Pipeline::int8, gemm::Pipeline::w4a8, gemm::Pipeline::int4}) {
            for (const bool rotated : {false, true}) {
                const gemm::WeightsShape shape{n, k, pipeline, rotated};
                const rockchip::ChipProfile& chip = rockchip::rk3588();
                const std::size_t resident = gemm::resident_bytes(shape, chip, 1);
                std::size_t asked_for_floats = 0;
                const gemm::RowReader read_row = [&](std::uint32_t row, float* to) {
                    ++asked_for_floats;
                    const auto floats = floats_of(type, bytes.data() + row * row_bytes, k);
                    std::copy(floats.begin(), floats.end(), to);
                };
                Memory by_floats(resident);
                const auto wanted = gemm::prepare_weights(shape, read_row, {{&by_floats}, 0, resident}, chip);
                ASSERT_TRUE(wanted);
                ASSERT_EQ(asked_for_floats, n);
                asked_for_floats = 0;
                Memory by_blocks(resident);
                const auto got = gemm::prepare_weights(shape, read_row, {{&by_blocks}, 0, resident}, chip,
                                                       [&](std::uint32_t row, gemm::BlockTarget to) {
                                                           block_format(type)(bytes.data() + row * row_bytes, k, to);
                                                       });
                ASSERT_TRUE(got);
                EXPECT_EQ(asked_for_floats, rotated ? n : 0U);
                EXPECT_EQ(by_blocks.contents(), by_floats.contents());
                EXPECT_NE(by_floats.contents(), std::vector<std::byte>(resident)) << "the weights are not all zero";
                ASSERT_EQ(got->scales.size(), wanted->scales.size());
                for (std::size_t i = 0; i < wanted->scales.size(); ++i) {
                    EXPECT_TRUE(same(got->scales[i], wanted->scales[i]) ||
                                (std::isnan(got->scales[i]) && std::isnan(wanted->scales[i])));
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, BlockTypes,
                         testing::Values(GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                                         GGML_TYPE_IQ4_NL, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K),
                         [](const auto& info) { return std::string(ggml_type_name(info.param)); });

TEST(Blocks, TypesWithoutBlocksAreLeftToTheirFloats) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q2_K, GGML_TYPE_IQ2_XXS}) {
        EXPECT_EQ(block_format(type), nullptr);
    }
}

}  // namespace
}  // namespace npu::plugin
