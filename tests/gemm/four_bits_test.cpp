#include "gemm/four_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gemm/every_instruction_set.h"
#include "gemm/hadamard.h"

namespace npu::gemm {
namespace {

std::vector<float> random_row(std::size_t count, std::mt19937& random) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> row(count);
    for (float& value : row) {
        value = normal(random);
    }
    return row;
}

TEST(FourBits, AreTheNearestMultiplesOfTheScale) {
    std::mt19937 random(1);
    for (const std::size_t count : {1U, 2U, 31U, 64U, 577U}) {
        std::vector<float> row = random_row(count, random);
        std::vector<std::byte> packed((count + 1) / 2 + 1, std::byte{0xee});
        const float scale = quantise_int4(row.data(), count, packed.data());
        int lowest = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const int number = nibble(packed.data(), i);
            // Half a step; up to a whole one at the end that has one number less.
            const float most = number == 7 ? 1.0F : 0.5001F;
            EXPECT_LE(std::abs(row[i] - scale * static_cast<float>(number)), std::abs(scale) * most);
            lowest = std::min(lowest, number);
        }
        EXPECT_EQ(lowest, -8) << "the whole range is used";
        EXPECT_EQ(packed.back(), std::byte{0xee}) << "nothing is written beyond";
        if (count % 2 != 0) {
            EXPECT_EQ(nibble(packed.data(), count), 0);
        }
    }
}

TEST(FourBits, OfTwoRowsMakeOneOfNearlyEight) {
    std::mt19937 random(2);
    const std::size_t count = 1001;
    std::vector<float> row = random_row(count, random);
    row[3] = 9;
    row[4] = -9;
    std::vector<std::byte> high((count + 1) / 2);
    std::vector<std::byte> low((count + 1) / 2);
    const float scale = quantise_split(row.data(), count, high.data(), low.data());
    for (std::size_t i = 0; i < count; ++i) {
        const int h = nibble(high.data(), i);
        const int l = nibble(low.data(), i);
        EXPECT_GE(h, -7);
        EXPECT_LE(h, 7);
        EXPECT_LE(std::abs(row[i] - scale * static_cast<float>(16 * h + l)), scale * 0.5001F);
    }
    EXPECT_EQ(16 * nibble(high.data(), 3) + nibble(low.data(), 3), 119);
    EXPECT_EQ(16 * nibble(high.data(), 4) + nibble(low.data(), 4), -119);
}

TEST(FourBits, TurnARowAroundWhenItsLargestValueIsPositive) {
    const float up[4] = {8, -8, 8, 1};
    const float down[4] = {-8, 7, 1, -1};
    std::byte packed[2];
    EXPECT_EQ(quantise_int4(up, 4, packed), -1.0F);
    EXPECT_EQ(nibble(packed, 0), -8);
    EXPECT_EQ(nibble(packed, 1), 7) << "the fewer ones are cut off";
    EXPECT_EQ(nibble(packed, 3), -1);
    EXPECT_EQ(quantise_int4(down, 4, packed), 1.0F);
    EXPECT_EQ(nibble(packed, 0), -8);
    EXPECT_EQ(nibble(packed, 1), 7);
}

TEST(FourBits, OfRowsThatCannotBeQuantisedSaySo) {
    std::byte packed[2];
    const float zeros[3] = {0, 0, 0};
    EXPECT_EQ(quantise_int4(zeros, 3, packed), 0.0F);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        const float row[3] = {1, bad, 2};
        EXPECT_TRUE(std::isnan(quantise_int4(row, 3, packed)));
        EXPECT_EQ(nibble(packed, 0), 0);
    }
    const float tiny[3] = {1e-44F, -1e-45F, 0};
    const float scale = quantise_int4(tiny, 3, packed);
    EXPECT_TRUE(std::isfinite(scale));
}

TEST(Hadamard, RotationKeepsProductsAndUndoesItself) {
    std::mt19937 random(3);
    for (const std::uint32_t k : {64U, 96U, 1536U, 8960U}) {
        const std::uint32_t block = hadamard_block(k);
        std::vector<float> a = random_row(k, random);
        std::vector<float> b = random_row(k, random);
        const std::vector<float> before = a;
        const auto product = [&] {
            double sum = 0;
            for (std::uint32_t i = 0; i < k; ++i) {
                sum += static_cast<double>(a[i]) * b[i];
            }
            return sum;
        };
        const double exact = product();
        rotate(a.data(), k, block);
        EXPECT_NE(a, before);
        EXPECT_GT(std::abs(product() - exact), 0.1) << "one alone changes it";
        rotate(b.data(), k, block);
        EXPECT_NEAR(product(), exact, 1e-3);
        rotate(a.data(), k, block);
        for (std::uint32_t i = 0; i < k; ++i) {
            EXPECT_NEAR(a[i], before[i], 1e-5);
        }
    }
    EXPECT_EQ(hadamard_block(8960), 256U);
    EXPECT_EQ(hadamard_block(1536), 512U);
    EXPECT_EQ(hadamard_block(7), 1U);
}

TEST(Hadamard, EveryInstructionSetGivesTheBitsOfThePortableVersion) {
    std::mt19937 random(4);
    for (std::uint32_t block = 2; block <= 8192; block *= 2) {
        std::vector<float> row = random_row(3 * block, random);
        row[block] = 3e38F;  // its block overflows
        std::vector<float> expected = row;
        portable::rotate(expected.data(), row.size(), block);
        with_every_instruction_set([&] {
            std::vector<float> rotated = row;
            rotate(rotated.data(), row.size(), block);
            EXPECT_EQ(std::memcmp(rotated.data(), expected.data(), row.size() * sizeof(float)), 0) << block;
            std::swap(rotated[0], rotated[1]);
            EXPECT_NE(std::memcmp(rotated.data(), expected.data(), row.size() * sizeof(float)), 0) << "the control";
        });
    }
}

TEST(Hadamard, SpreadsAnOutlierOverItsBlockAndNoFurther) {
    std::vector<float> row(96, 0.0F);
    row[40] = 8;
    rotate(row.data(), 96, 32);
    for (std::size_t i = 0; i < row.size(); ++i) {
        EXPECT_NEAR(std::abs(row[i]), i >= 32 && i < 64 ? 8 / std::sqrt(32.0) : 0.0, 1e-6) << i;
    }
}

}  // namespace
}  // namespace npu::gemm
