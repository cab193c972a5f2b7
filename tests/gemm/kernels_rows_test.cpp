// Rows to whole numbers: every instruction set's kernels against the portable ones, and those against references written here.
#include "gemm/kernels_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/float_bits.h"
#include "base/result.h"
#include "gemm/every_instruction_set.h"
#include "gemm/four_bits.h"
#include "gemm/quantise.h"

namespace npu::gemm {
namespace {

std::uint32_t below(std::mt19937& random, std::uint32_t bound) { return random() % bound; }

testing::AssertionResult same_scale(float got, float wanted) {
    if (std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(wanted) ||
        (std::isnan(got) && std::isnan(wanted))) {
        return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << "the scale is " << got << ", not " << wanted;
}

// Ordinary, over all exponents, any bits, zero, and values near ties.
std::vector<float> random_floats(std::mt19937& random, std::size_t count) {
    const std::uint32_t kind = below(random, 5);
    std::normal_distribution<float> normal;
    std::vector<float> row(count);
    for (float& value : row) {
        const double tie = static_cast<double>(below(random, 254)) - 126.5;
        switch (kind) {
            case 0: value = normal(random); break;
            case 1: value = std::ldexp(normal(random), static_cast<int>(below(random, 280)) - 150); break;
            case 2: value = std::bit_cast<float>(static_cast<std::uint32_t>(random())); break;
            case 3: value = 0.0F; break;
            default: value = static_cast<float>(tie / 127 * 1.7); break;
        }
    }
    if (kind == 4) {
        row[below(random, static_cast<std::uint32_t>(count))] = 1.7F;
    }
    return row;
}

struct Blocks {
    std::vector<std::int8_t> numbers;
    std::vector<float> scales;
    std::vector<float> offsets;

    // Numbers of any value; halves as scales, now and then one that is not finite, or all zero.
    Blocks(std::mt19937& random, std::size_t count) {
        const std::uint32_t kind = below(random, 5);
        for (std::size_t i = 0; i < count; ++i) {
            numbers.push_back(static_cast<std::int8_t>(random()));
        }
        for (std::size_t i = 0; i < count / numbers_per_scale; ++i) {
            const std::uint32_t finite = kind == 0 && below(random, 16) == 0 ? 0xffffU : 0xbbffU;
            scales.push_back(kind == 1 ? 0.0F : half_to_float(static_cast<std::uint16_t>(random() & finite)));
            offsets.push_back(kind < 3 ? 0.0F : half_to_float(static_cast<std::uint16_t>(random() & finite)));
        }
    }
    [[nodiscard]] BlockRow row() const { return {numbers.data(), scales.data(), offsets.data()}; }
};

TEST(KernelsRows, QuantisingFloatsGivesTheNumbersOfTheSpecification) {
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        const std::size_t count = 1 + below(random, round < 100 ? 70 : 2000);
        const auto row = random_floats(random, count);
        for (const int bound : {7, 119, 127}) {
            SCOPED_TRACE(format("round %d: %zu values to %d", round, count, bound));
            std::vector<std::int8_t> wanted(count + 1, 99);
            const float scale = portable::quantise_values(bound, row.data(), count, wanted.data());
            ASSERT_EQ(wanted.back(), 99);
            with_every_instruction_set([&] {
                std::vector<std::int8_t> got(count + 1, 99);
                ASSERT_TRUE(same_scale(quantise_values(bound, row.data(), count, got.data()), scale));
                ASSERT_EQ(got, wanted);
            });
        }
    }
}

TEST(KernelsRows, QuantisingBlocksGivesTheNumbersOfTheSpecification) {
    std::mt19937 random(2);
    for (int round = 0; round < 300; ++round) {
        const std::size_t count = (1 + below(random, 130)) * numbers_per_scale;
        const Blocks blocks(random, count);
        for (const int bound : {7, 127}) {
            SCOPED_TRACE(format("round %d: %zu values to %d", round, count, bound));
            std::vector<std::int8_t> wanted(count + 1, 99);
            const float scale = portable::quantise_values(bound, blocks.row(), count, wanted.data());
            with_every_instruction_set([&] {
                std::vector<std::int8_t> got(count + 1, 99);
                ASSERT_TRUE(same_scale(quantise_values(bound, blocks.row(), count, got.data()), scale));
                ASSERT_EQ(got, wanted);
            });
        }
    }
}

TEST(KernelsRows, NumbersAreTheNearestToTheValuesOverTheLargestMagnitude) {
    std::mt19937 random(3);
    int away = 0;
    for (int round = 0; round < 100; ++round) {
        const std::size_t count = 64 * numbers_per_scale;
        const Blocks blocks(random, count);
        double largest = 0;
        bool finite = true;
        for (std::size_t i = 0; i < count; ++i) {
            finite = finite && std::isfinite(blocks.row().value(i));
            largest = std::max(largest, std::abs(static_cast<double>(blocks.row().value(i))));
        }
        if (!finite || largest == 0) {
            continue;
        }
        std::vector<std::int8_t> numbers(count);
        const float scale = quantise_values(127, blocks.row(), count, numbers.data());
        EXPECT_NEAR(scale, largest / 127, largest * 1e-6);
        for (std::size_t i = 0; i < count; ++i) {
            const double exact = blocks.row().value(i) * 127.0 / largest;
            ASSERT_NEAR(numbers[i], exact, 0.5 + 1e-4) << i;
            away += std::abs(numbers[(i + 1) % count] - exact) > 0.5 + 1e-4 ? 1 : 0;
        }
    }
    EXPECT_GT(away, 1000) << "neighbours must be told apart";
}

TEST(KernelsRows, ARowWithAScaleThatIsNoNumberGetsTheScaleNan) {
    std::mt19937 random(4);
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
        Blocks blocks(random, 160);
        std::fill(blocks.scales.begin(), blocks.scales.end(), 1.0F);
        std::vector<std::int8_t> numbers(160, 1);
        std::fill(blocks.offsets.begin(), blocks.offsets.end(), 0.0F);
        with_every_instruction_set([&] {
            EXPECT_FALSE(std::isnan(quantise_values(127, blocks.row(), 160, numbers.data())));
            auto damaged = blocks;
            damaged.scales[9] = bad;
            EXPECT_TRUE(std::isnan(quantise_values(127, damaged.row(), 160, numbers.data())));
            EXPECT_EQ(numbers, std::vector<std::int8_t>(160, 0));
        });
    }
}

TEST(KernelsRows, NibblesComeBackAsTheyWerePacked) {
    std::mt19937 random(5);
    for (std::size_t count = 1; count < 200; ++count) {
        std::vector<std::int8_t> values(count);
        for (std::int8_t& value : values) {
            value = static_cast<std::int8_t>(random());
        }
        with_every_instruction_set([&] {
            std::vector<std::byte> packed((count + 1) / 2 + 1, std::byte{0xa5});
            pack_nibbles(values.data(), count, packed.data());
            EXPECT_EQ(packed.back(), std::byte{0xa5});
            for (std::size_t i = 0; i < count; ++i) {
                ASSERT_EQ(nibble(packed.data(), i), static_cast<std::int8_t>(values[i] << 4) >> 4) << i;
            }
            if (count % 2 != 0) {
                EXPECT_EQ(nibble(packed.data(), count), 0);
            }
        });
    }
}

TEST(KernelsRows, AreFoldedToTheNumbersOfANibbleOnTheSideThatLosesLess) {
    std::mt19937 random(6);
    for (std::size_t count = 0; count < 150; ++count) {
        std::vector<std::int8_t> values(count);
        for (std::int8_t& value : values) {
            value = static_cast<std::int8_t>(static_cast<int>(random() % 17) - 8);
        }
        const auto highest = std::count(values.begin(), values.end(), std::int8_t{8});
        const auto lowest = std::count(values.begin(), values.end(), std::int8_t{-8});
        with_every_instruction_set([&] {
            std::vector<std::int8_t> folded = values;
            const bool turned = fold_to_nibbles(folded.data(), count);
            EXPECT_EQ(turned, highest > lowest);
            for (std::size_t i = 0; i < count; ++i) {
                const int expected = turned ? -values[i] : values[i];
                ASSERT_EQ(folded[i], expected == 8 ? 7 : expected) << i;
            }
        });
    }
}

}  // namespace
}  // namespace npu::gemm
