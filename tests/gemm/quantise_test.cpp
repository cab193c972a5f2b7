#include "gemm/quantise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/float_bits.h"

namespace npu::gemm {
namespace {

std::vector<float> random_row(std::mt19937& random, std::size_t count, double magnitude) {
    std::uniform_real_distribution<double> uniform(-magnitude, magnitude);
    std::vector<float> row(count);
    for (float& value : row) {
        value = static_cast<float>(uniform(random));
    }
    return row;
}

TEST(Int8, EveryValueIsWithinHalfAStepAtAnyMagnitude) {
    std::mt19937 random(1);
    for (const double magnitude : {1e-38, 1e-20, 1e-3, 1.0, 37.5, 65504.0, 1e20, 3e38}) {
        const auto row = random_row(random, 999, magnitude);
        std::vector<std::int8_t> quantised(row.size());
        const float scale = quantise_int8(row.data(), row.size(), quantised.data());
        double worst = 0;
        for (std::size_t i = 0; i < row.size(); ++i) {
            worst = std::max(worst, std::abs(static_cast<double>(row[i]) - static_cast<double>(scale) * quantised[i]));
        }
        EXPECT_LE(worst, 0.5001 * scale) << "magnitude " << magnitude;
        EXPECT_GT(worst, 0.4 * scale) << "a row of a thousand random values comes close to half a step";
    }
}

TEST(Int8, TheLargestMagnitudeBecomes127AndNothingExceedsIt) {
    const std::vector<float> row{-3.0F, 1.5F, 3.0F, 0.0F, -0.01F};
    std::vector<std::int8_t> quantised(row.size());
    const float scale = quantise_int8(row.data(), row.size(), quantised.data());
    EXPECT_FLOAT_EQ(scale, 3.0F / 127);
    EXPECT_EQ(quantised, (std::vector<std::int8_t>{-127, 64, 127, 0, 0}));  // 63.5 ties to even
}

TEST(Int8, ARowOfZerosHasScaleZero) {
    const std::vector<float> row(7, 0.0F);
    std::vector<std::int8_t> quantised(row.size(), 1);
    EXPECT_EQ(quantise_int8(row.data(), row.size(), quantised.data()), 0.0F);
    EXPECT_EQ(quantised, std::vector<std::int8_t>(7, 0));
}

TEST(Int8, InfinityAndNanShowInTheScale) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::infinity()}) {
        const std::vector<float> row{1.0F, bad, 2.0F};
        std::vector<std::int8_t> quantised(row.size());
        EXPECT_TRUE(std::isnan(quantise_int8(row.data(), row.size(), quantised.data())));
    }
}

TEST(Fp16, OrdinaryRowsAreRoundedAndNotScaled) {
    std::mt19937 random(2);
    for (const double magnitude : {0.01, 1.0, 60000.0}) {
        const auto row = random_row(random, 500, magnitude);
        std::vector<std::uint16_t> halves(row.size());
        EXPECT_EQ(convert_fp16(row.data(), row.size(), halves.data()), 1.0F);
        for (std::size_t i = 0; i < row.size(); ++i) {
            EXPECT_EQ(halves[i], float_to_half(row[i]));
        }
    }
}

TEST(Fp16, RowsOutOfRangeAreScaledByAPowerOfTwoAndKeepTheirPrecision) {
    std::mt19937 random(3);
    for (const double magnitude : {1e-37, 1e-6, 1e6, 3e38}) {
        const auto row = random_row(random, 500, magnitude);
        std::vector<std::uint16_t> halves(row.size());
        const float factor = convert_fp16(row.data(), row.size(), halves.data());
        int exponent = 0;
        EXPECT_EQ(std::frexp(factor, &exponent), 0.5F) << "a power of two";
        for (std::size_t i = 0; i < row.size(); ++i) {
            const double restored = static_cast<double>(half_to_float(halves[i])) * factor;
            EXPECT_NEAR(restored, row[i], magnitude * 0x1p-11);
        }
    }
}

TEST(Fp16, HalvesThatWereHalvesComeBackExactly) {
    std::vector<float> row;
    for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
        row.push_back(half_to_float(static_cast<std::uint16_t>(bits)));
    }
    std::vector<std::uint16_t> halves(row.size());
    ASSERT_EQ(convert_fp16(row.data(), row.size(), halves.data()), 1.0F);
    for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
        ASSERT_EQ(halves[bits], bits);
    }
}

TEST(LargestMagnitude, NanWins) {
    const std::vector<float> row{1.0F, -7.0F, 3.0F};
    EXPECT_EQ(largest_magnitude(row.data(), row.size()), 7.0F);
    const std::vector<float> with_nan{1e30F, -std::numeric_limits<float>::quiet_NaN(), 3.0F};
    EXPECT_TRUE(std::isnan(largest_magnitude(with_nan.data(), with_nan.size())));
}

}  // namespace
}  // namespace npu::gemm
