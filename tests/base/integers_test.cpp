#include "base/integers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

namespace npu {
namespace {

TEST(CeilDiv, is_the_smallest_quotient_that_covers_the_value) {
    for (std::uint32_t value = 0; value < 300; ++value) {
        for (std::uint32_t unit = 1; unit < 70; ++unit) {
            const std::uint32_t quotient = ceil_div(value, unit);
            EXPECT_GE(quotient * unit, value);
            EXPECT_TRUE(quotient == 0 || (quotient - 1) * unit < value) << value << " / " << unit;
        }
    }
}

TEST(CeilDiv, agrees_with_wide_arithmetic_on_random_64_bit_values) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 100000; ++i) {
        const std::uint64_t unit = (random() >> (random() % 63)) | 1U;
        const std::uint64_t value = random() >> (1 + random() % 63);
        if (value > std::numeric_limits<std::uint64_t>::max() - unit) {
            continue;
        }
        const __uint128_t exact = (static_cast<__uint128_t>(value) + unit - 1) / unit;
        ASSERT_EQ(ceil_div(value, unit), static_cast<std::uint64_t>(exact)) << value << " / " << unit;
    }
}

TEST(CeilDiv, covers_the_whole_range_without_wrapping) {
    const std::uint32_t largest = std::numeric_limits<std::uint32_t>::max();
    EXPECT_EQ(ceil_div<std::uint32_t>(largest, 16), 0x10000000U);
    EXPECT_EQ(ceil_div<std::uint32_t>(largest, largest), 1U);
    EXPECT_EQ(ceil_div<std::uint64_t>(std::numeric_limits<std::uint64_t>::max(), 2), 0x8000000000000000U);
}

TEST(AlignUp, gives_the_next_multiple_and_keeps_multiples) {
    for (std::uint64_t value = 0; value < 300; ++value) {
        for (std::uint64_t unit = 1; unit < 70; ++unit) {
            const std::uint64_t aligned = align_up(value, unit);
            EXPECT_EQ(aligned % unit, 0U);
            EXPECT_GE(aligned, value);
            EXPECT_LT(aligned, value + unit);
        }
    }
    EXPECT_EQ(align_up<std::uint64_t>(4097, 4096), 8192U);
}

TEST(Fits, knows_the_ends_of_every_narrower_type) {
    EXPECT_TRUE(fits<std::uint8_t>(255));
    EXPECT_FALSE(fits<std::uint8_t>(256));
    EXPECT_FALSE(fits<std::uint8_t>(-1));
    EXPECT_TRUE(fits<std::int8_t>(-128));
    EXPECT_FALSE(fits<std::int8_t>(-129));
    EXPECT_FALSE(fits<std::int8_t>(128U));
    EXPECT_TRUE(fits<std::uint32_t>(0xffffffffULL));
    EXPECT_FALSE(fits<std::uint32_t>(0x100000000ULL));
    EXPECT_FALSE(fits<std::int64_t>(std::numeric_limits<std::uint64_t>::max()));
    EXPECT_FALSE(fits<std::uint64_t>(std::int64_t{-1}));
}

TEST(Narrow, keeps_values_that_fit) {
    EXPECT_EQ(narrow<std::uint8_t>(std::int64_t{255}), 255);
    EXPECT_EQ(narrow<std::int16_t>(-32768), -32768);
}

}  // namespace
}  // namespace npu
