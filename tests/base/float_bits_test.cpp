// The reference for every conversion is written here from IEEE 754's definitions in double or exact integer
// arithmetic, and shares nothing with the code under test; where the compiler has _Float16 it is a second witness.
#include "base/float_bits.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace npu {
namespace {

// Value of a half, from its definition. Not for infinities and NaN.
double half_value(std::uint16_t half) {
    const int exponent = (half >> 10) & 0x1f;
    const int mantissa = half & 0x3ff;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

// Nearest half by search: the two halves around |value|, the closer one wins, and the even one of a tie. Distances
// are exact in double: both operands have few bits and close exponents.
std::uint16_t nearest_half(float value) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const double magnitude = std::fabs(static_cast<double>(value));
    if (magnitude >= 65520.0) {
        return sign | 0x7c00;
    }
    std::uint16_t low = 0;
    std::uint16_t high = 0x7c00;  // stands for 65536 in the comparison below
    while (high - low > 1) {
        const auto middle = static_cast<std::uint16_t>((low + high) / 2);
        (half_value(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - half_value(low);
    const double above = half_value(high) - magnitude;
    const bool up = above < below || (above == below && (low & 1) != 0);
    return static_cast<std::uint16_t>(sign | (up ? high : low));
}

bool is_nan_half(std::uint16_t half) { return (half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0; }

void expect_nearest_half(std::uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    const std::uint16_t converted = float_to_half(value);
    if (std::isnan(value)) {
        ASSERT_TRUE(is_nan_half(converted)) << std::hex << bits;
        return;
    }
    ASSERT_EQ(converted, nearest_half(value)) << std::hex << bits;
#if defined(__FLT16_MANT_DIG__)
    ASSERT_EQ(converted, std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) << std::hex << bits;
#endif
}

TEST(Half, all_65536_values_convert_to_the_float_of_the_same_value) {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const float value = half_to_float(half);
        if (is_nan_half(half)) {
            ASSERT_TRUE(std::isnan(value)) << bits;
        } else if ((half & 0x7c00) == 0x7c00) {
            ASSERT_TRUE(std::isinf(value)) << bits;
        } else {
            ASSERT_EQ(static_cast<double>(value), half_value(half)) << bits;
        }
        ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << bits;
    }
}

TEST(Half, all_65536_values_survive_the_round_trip_and_nan_stays_nan) {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const std::uint16_t back = float_to_half(half_to_float(half));
        if (is_nan_half(half)) {
            ASSERT_TRUE(is_nan_half(back)) << bits;
        } else {
            ASSERT_EQ(back, half);
        }
    }
}

TEST(Half, random_bit_patterns_over_the_full_range_round_to_nearest_even) {
    std::mt19937 random(2);
    for (int i = 0; i < 2000000; ++i) {
        expect_nearest_half(static_cast<std::uint32_t>(random()));
    }
}

TEST(Half, random_values_in_the_range_of_halves_and_their_subnormals_round_to_nearest_even) {
    std::mt19937 random(3);
    for (int i = 0; i < 2000000; ++i) {  // float exponents 2^-27 to 2^17
        const std::uint32_t exponent = 100 + static_cast<std::uint32_t>(random()) % 45;
        expect_nearest_half((static_cast<std::uint32_t>(random()) & 0x807fffffU) | exponent << 23);
    }
}

TEST(Half, every_tie_between_two_halves_and_both_its_neighbours_round_correctly) {
    for (std::uint32_t half = 0; half < 0x7c00; ++half) {
        const double low = half_value(static_cast<std::uint16_t>(half));
        const double high = half == 0x7bff ? 65536.0 : half_value(static_cast<std::uint16_t>(half + 1));
        const auto tie = static_cast<float>((low + high) / 2);
        for (const float value : {tie, std::nextafter(tie, 0.0F), std::nextafter(tie, 1e9F)}) {
            expect_nearest_half(std::bit_cast<std::uint32_t>(value));
            expect_nearest_half(std::bit_cast<std::uint32_t>(-value));
        }
        const std::uint16_t even = float_to_half(tie);
        ASSERT_EQ(even & 1, 0) << "a tie goes to the even half, " << half;
    }
}

TEST(Half, infinities_and_overflow_give_infinity) {
    EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
    EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xfc00);
    EXPECT_EQ(float_to_half(65519.996F), 0x7bff);
    EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
    EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7c00);
    EXPECT_EQ(float_to_half(-0.0F), 0x8000);
}

// Nearest bfloat in exact integer arithmetic on magnitudes: bit patterns of one sign are ordered as the values are,
// and a bfloat's neighbours are 65536 patterns apart.
std::uint16_t nearest_bfloat(std::uint32_t bits) {
    const std::uint32_t sign = bits & 0x80000000U;
    const std::uint64_t magnitude = bits & 0x7fffffffU;
    const std::uint64_t low = magnitude / 65536;
    const std::uint64_t rest = magnitude % 65536;
    const bool up = rest > 32768 || (rest == 32768 && low % 2 == 1);
    return static_cast<std::uint16_t>((sign >> 16) | (low + (up ? 1 : 0)));
}

TEST(Bfloat, all_65536_values_are_the_upper_half_of_a_float_and_survive_the_round_trip) {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const auto bfloat = static_cast<std::uint16_t>(bits);
        const float value = bfloat_to_float(bfloat);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(value), bits << 16);
        const std::uint16_t back = float_to_bfloat(value);
        if (std::isnan(value)) {
            ASSERT_TRUE(std::isnan(bfloat_to_float(back))) << bits;
        } else {
            ASSERT_EQ(back, bfloat);
        }
    }
}

TEST(Bfloat, random_bit_patterns_over_the_full_range_round_to_nearest_even) {
    std::mt19937 random(4);
    for (int i = 0; i < 2000000; ++i) {
        auto bits = static_cast<std::uint32_t>(random());
        if (i % 4 == 0) {
            bits = (bits & 0xffff0000U) | 0x8000U;  // a tie
        }
        const float value = std::bit_cast<float>(bits);
        if (std::isnan(value)) {
            ASSERT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(value)))) << std::hex << bits;
        } else {
            ASSERT_EQ(float_to_bfloat(value), nearest_bfloat(bits)) << std::hex << bits;
        }
    }
}

TEST(Bfloat, a_nan_whose_payload_is_in_the_low_half_stays_nan) {
    EXPECT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(std::bit_cast<float>(0x7f800001U)))));
    EXPECT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(std::bit_cast<float>(0xffffffffU)))));
}

TEST(Bfloat, the_largest_float_rounds_to_infinity) {
    EXPECT_EQ(float_to_bfloat(std::numeric_limits<float>::max()), 0x7f80);
    EXPECT_EQ(float_to_bfloat(-std::numeric_limits<float>::max()), 0xff80);
}

TEST(Tf32, truncation_keeps_ten_mantissa_bits_and_never_grows_the_magnitude) {
    std::mt19937 random(5);
    for (int i = 0; i < 1000000; ++i) {
        const auto bits = static_cast<std::uint32_t>(random());
        const float value = std::bit_cast<float>(bits);
        if (!std::isfinite(value)) {
            continue;
        }
        const float cut = truncate_to_tf32(value);
        // The largest multiple of 2^(exponent - 10) that is no greater in magnitude, in exact double arithmetic.
        const int exponent = value == 0 ? -126 : std::max(std::ilogb(value), -126);
        const double unit = std::ldexp(1.0, exponent - 10);
        ASSERT_EQ(static_cast<double>(cut), std::trunc(static_cast<double>(value) / unit) * unit) << std::hex << bits;
        ASSERT_EQ(std::signbit(cut), std::signbit(value));
    }
}

TEST(Tf32, truncation_does_not_round) {
    const float almost_two = std::bit_cast<float>(0x3fffffffU);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(truncate_to_tf32(almost_two)), 0x3fffe000U);
}

}  // namespace
}  // namespace npu
