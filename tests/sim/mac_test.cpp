// Arithmetic of the array: exact sums of 32 products, and that the fast kernels equal the portable ones.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/exact_sum.h"
#include "sim/mac.h"
#include "sim/test_support.h"

namespace npu::sim::test {
namespace {

float exact(const std::vector<float>& a, const std::vector<float>& b) {
    ExactSum sum;
    for (std::size_t i = 0; i < a.size(); ++i) {
        sum.add_product(a[i], b[i]);
    }
    return sum.rounded();
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

float random_finite(std::mt19937& random, std::uint32_t mask) {
    for (;;) {
        const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & mask);
        if (std::isfinite(value)) {
            return value;
        }
    }
}

TEST(ExactSum, EqualsBigIntegerArithmeticOnFloatsOfAllMagnitudes) {
    std::mt19937 random(1);
    int not_double = 0;
    for (int round = 0; round < 20000; ++round) {
        std::vector<float> a(32);
        std::vector<float> b(32);
        double in_double = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            a[i] = random_finite(random, 0xffffffff);
            b[i] = random_finite(random, round % 2 == 0 ? 0xffffffff : 0xbfffffff);  // odd rounds: small factors
            in_double += static_cast<double>(a[i]) * b[i];
        }
        if (round % 4 >= 2) {  // let the largest terms cancel
            a[5] = a[20];
            b[5] = -b[20];
            a[6] = a[21];
            b[6] = -b[21];
        }
        ASSERT_EQ(bits(exact(a, b)), bits(reference_group_sum(a.data(), b.data(), a.size()))) << round;
        not_double += bits(exact(a, b)) != bits(static_cast<float>(in_double)) ? 1 : 0;
    }
    EXPECT_GT(not_double, 0) << "the data never needed more than double arithmetic";
}

TEST(ExactSum, RoundsTiesToEvenAndOnlyOnce) {
    const float ulp = 0x1p-23F;
    EXPECT_EQ(exact({1, ulp / 2}, {1, 1}), 1.0F);
    EXPECT_EQ(exact({1 + ulp, ulp / 2}, {1, 1}), 1 + 2 * ulp);
    EXPECT_EQ(exact({1, ulp / 2, 0x1p-120F}, {1, 1, 0x1p-100F}), 1 + ulp) << "a speck above the tie decides";
    EXPECT_EQ(exact({1, ulp / 2, -0x1p-120F}, {1, 1, 0x1p-100F}), 1.0F);
    EXPECT_EQ(exact({-1, -ulp / 2, -0x1p-120F}, {1, 1, 0x1p-100F}), -1 - ulp);
}

TEST(ExactSum, HandlesSubnormalResultsOverflowAndZero) {
    EXPECT_EQ(exact({0x1p-75F}, {0x1p-75F}), 0.0F) << "half of the smallest subnormal: a tie to even";
    EXPECT_EQ(exact({0x1.8p-75F}, {0x1p-75F}), 0x1p-149F);
    EXPECT_EQ(exact({0x1p-70F, 0x1p-149F}, {0x1p-70F, 1}), 0x1p-140F + 0x1p-149F);
    EXPECT_EQ(exact({0x1p127F, 0x1p127F}, {2, -1}), 0x1p127F) << "no overflow on the way";
    EXPECT_EQ(exact({0x1p127F}, {2}), std::numeric_limits<float>::infinity());
    EXPECT_EQ(exact({-0x1p127F}, {2}), -std::numeric_limits<float>::infinity());
    EXPECT_EQ(bits(exact({1, -1, 0}, {3, 3, -1})), 0U) << "an exact zero is +0";
}

std::vector<std::byte> as_bytes(Precision precision, const std::vector<std::uint32_t>& codes) {
    const std::size_t size = float_format(precision).bytes;
    std::vector<std::byte> bytes(codes.size() * size);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        std::memcpy(bytes.data() + i * size, &codes[i], size);
    }
    return bytes;
}

// Values whose exponents lie within `range` of each other, around a random one.
std::vector<std::uint32_t> codes_of_range(Precision precision, std::size_t count, std::uint32_t range,
                                          std::mt19937& random) {
    const FloatFormat format = float_format(precision);
    const std::uint32_t base = static_cast<std::uint32_t>(random()) % (format.exponent_mask - range);
    std::vector<std::uint32_t> codes(count);
    for (std::uint32_t& code : codes) {
        const std::uint32_t exponent = base + static_cast<std::uint32_t>(random()) % (range + 1);
        const std::uint32_t mantissa = static_cast<std::uint32_t>(random()) & ((1U << format.exponent_shift) - 1);
        const std::uint32_t sign = (random() & 1U) != 0 ? 1U << (format.bytes * 8 - 1) : 0;
        code = random() % 16 == 0 ? 0 : sign | exponent << format.exponent_shift | mantissa;
    }
    return codes;
}

std::vector<float> as_floats(const double (&values)[32]) { return {std::begin(values), std::end(values)}; }

TEST(GroupSum, IsExactOnBothSidesOfTheBoundWhereDoubleArithmeticTakesOver) {
    std::mt19937 random(2);
    for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::tf32}) {
        const std::uint32_t limit = precision == Precision::fp16 ? 29 : 40;
        int fast = 0;
        int slow = 0;
        for (int round = 0; round < 30000; ++round) {
            const auto code_a = as_bytes(precision, codes_of_range(precision, 32, random() % limit, random));
            const auto code_b = as_bytes(precision, codes_of_range(precision, 32, random() % limit, random));
            double a[32];
            double b[32];
            portable_kernels().decode(precision, code_a.data(), 32, a);
            portable_kernels().decode(precision, code_b.data(), 32, b);
            const std::uint8_t spread_a = portable_kernels().spread(precision, code_a.data(), 32);
            const std::uint8_t spread_b = portable_kernels().spread(precision, code_b.data(), 32);
            ++(spread_a + spread_b <= static_cast<int>(exact_double_spread) ? fast : slow);
            const auto x = as_floats(a);
            const auto y = as_floats(b);
            ASSERT_EQ(bits(group_sum(a, b, spread_a, spread_b)), bits(reference_group_sum(x.data(), y.data(), 32)))
                << rockchip::info(precision).name << " round " << round;
        }
        EXPECT_GT(fast, 1000);
        EXPECT_GT(slow, 1000);
    }
}

// Control: with the bound ignored, double arithmetic does go wrong on such data.
TEST(GroupSum, WouldBeWrongInDoubleBeyondTheBound) {
    double a[32] = {};
    double b[32] = {};
    a[0] = 0x1p15, b[0] = 0x1p15;
    a[1] = 0x1p-24, b[1] = 0x1p-24;
    a[2] = -0x1p15, b[2] = 0x1p15;
    a[4] = 0x1p7, b[4] = 0x1p0;
    EXPECT_EQ(group_sum(a, b, 60, 60), reference_group_sum(as_floats(a).data(), as_floats(b).data(), 32));
    double tie_a[32] = {};
    double tie_b[32] = {};
    tie_a[0] = 0x1p15, tie_b[0] = 0x1p15;
    tie_a[4] = 0x1p3, tie_b[4] = 0x1p3;      // half an ulp of 2^30
    tie_a[8] = 0x1p-24, tie_b[8] = 0x1p-24;  // decides the tie, lost in double
    EXPECT_EQ(group_sum(tie_a, tie_b, 60, 60), 0x1p30F + 0x1p7F);
    EXPECT_EQ(group_sum(tie_a, tie_b, 0, 0), 0x1p30F);
}

struct FloatCase {
    std::vector<std::byte> features;  // [rows][channels]
    std::vector<std::byte> weights;
    std::uint32_t rows;
    std::uint32_t channels;
};

std::vector<float> multiply(const MacKernels& kernels, Precision precision, const FloatCase& data) {
    const std::uint32_t groups = (data.channels + 31) / 32;
    const std::size_t size = float_format(precision).bytes;
    std::vector<double> values(std::size_t{groups} * data.rows * 32);
    std::vector<std::uint8_t> spread(std::size_t{groups} * data.rows);
    for (std::uint32_t m = 0; m < data.rows; ++m) {
        for (std::uint32_t g = 0; g < groups; ++g) {
            const std::byte* source = data.features.data() + (std::size_t{m} * data.channels + g * 32) * size;
            const std::uint32_t count = std::min(32U, data.channels - g * 32);
            kernels.decode(precision, source, count, &values[(std::size_t{g} * data.rows + m) * 32]);
            spread[std::size_t{g} * data.rows + m] = kernels.spread(precision, source, count);
        }
    }
    std::vector<float> sums(std::size_t{data.rows} * 16, 99.0F);
    kernels.multiply_float({{values.data(), spread.data(), data.rows, groups},
                            precision,
                            data.weights.data(),
                            data.channels / rockchip::info(precision).channels_per_block,
                            sums.data()});
    return sums;
}

TEST(FastKernels, EqualThePortableOnesOnFloatsOfEveryKind) {
    if (avx2_kernels() == nullptr) {
        GTEST_SKIP() << "*** this host has no AVX2: the fast kernels are NOT tested ***";
    }
    std::mt19937 random(3);
    for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::tf32}) {
        for (int round = 0; round < 300; ++round) {
            FloatCase data;
            data.rows = 1 + static_cast<std::uint32_t>(random()) % 9;
            data.channels = 32 * (1 + static_cast<std::uint32_t>(random()) % 5);
            data.channels -= precision == Precision::tf32 && round % 3 == 0 ? 16 : 0;
            const std::size_t a_count = std::size_t{data.rows} * data.channels;
            const std::size_t b_count = std::size_t{16} * data.channels;
            std::vector<std::uint32_t> a;
            std::vector<std::uint32_t> b;
            if (round % 3 == 0) {
                a = random_codes(precision, a_count, random, Range::full);
                b = random_codes(precision, b_count, random, Range::full);
            } else if (round % 3 == 1) {
                a = random_codes(precision, a_count, random, Range::moderate);
                b = random_codes(precision, b_count, random, Range::moderate);
            } else {
                a = codes_of_range(precision, a_count, random() % 29, random);
                b = codes_of_range(precision, b_count, random() % 29, random);
            }
            if (round % 10 == 9) {  // infinities and NaN
                const FloatFormat format = float_format(precision);
                a[random() % a_count] = format.exponent_mask << format.exponent_shift;
                b[random() % b_count] =
                    (format.exponent_mask << format.exponent_shift) | (1U << (format.exponent_shift - 1));
            }
            data.features = as_bytes(precision, a);
            data.weights = as_bytes(precision, b);
            const std::vector<float> expected = multiply(portable_kernels(), precision, data);
            const std::vector<float> got = multiply(*avx2_kernels(), precision, data);
            for (std::size_t i = 0; i < expected.size(); ++i) {
                ASSERT_TRUE(bits(expected[i]) == bits(got[i]) || (std::isnan(expected[i]) && std::isnan(got[i])))
                    << rockchip::info(precision).name << " round " << round << " element " << i << ": " << expected[i]
                    << " against " << got[i];
            }
        }
    }
}

TEST(FastKernels, PropagateInfinityAndNan) {
    for (const MacKernels* kernels : {&portable_kernels(), avx2_kernels()}) {
        if (kernels == nullptr) {
            continue;
        }
        std::vector<std::uint32_t> a(32, 0x3c00);
        std::vector<std::uint32_t> b(16 * 32, 0x3c00);
        a[3] = 0x7c00;           // infinity
        b[2 * 32 + 3] = 0;       // times zero: NaN for kernel 2
        b[5 * 32 + 3] = 0xbc00;  // minus infinity for kernel 5
        b[7 * 32 + 9] = 0x7e00;  // NaN for kernel 7
        const auto sums =
            multiply(*kernels, Precision::fp16, {as_bytes(Precision::fp16, a), as_bytes(Precision::fp16, b), 1, 32});
        EXPECT_EQ(sums[0], std::numeric_limits<float>::infinity());
        EXPECT_TRUE(std::isnan(sums[2]));
        EXPECT_EQ(sums[5], -std::numeric_limits<float>::infinity());
        EXPECT_TRUE(std::isnan(sums[7]));
    }
}

TEST(FastKernels, EqualThePortableOnesOnIntegersWithExtremes) {
    if (avx2_kernels() == nullptr) {
        GTEST_SKIP() << "*** this host has no AVX2: the fast kernels are NOT tested ***";
    }
    std::mt19937 random(4);
    for (const std::uint32_t kernels : {32U, 64U}) {
        for (const std::uint32_t rows : {1U, 3U, 4U, 7U, 9U, 16U, 23U}) {
            const std::uint32_t channels = 8192;
            std::vector<std::int16_t> features(std::size_t{rows} * channels);
            std::vector<std::int8_t> weights(std::size_t{kernels} * channels);
            for (auto& value : features) {
                value = static_cast<std::int8_t>(random());
            }
            for (auto& value : weights) {
                value = static_cast<std::int8_t>(random());
            }
            std::fill_n(features.begin(), channels, std::int16_t{-128});  // row 0 times kernel 0: the largest sum
            for (std::uint32_t block = 0; block < channels / 32; ++block) {
                std::fill_n(weights.begin() + block * kernels * 32, 32, std::int8_t{-128});
            }
            std::vector<std::int32_t> expected(std::size_t{rows} * kernels);
            std::vector<std::int32_t> got(expected.size(), 1);
            IntegerGroup group{features.data(), weights.data(), rows, channels / 32, kernels, expected.data()};
            portable_kernels().multiply_integer(group);
            group.sums = got.data();
            avx2_kernels()->multiply_integer(group);
            EXPECT_EQ(expected[0], 8192 * 128 * 128);
            ASSERT_EQ(expected, got);
        }
    }
}

TEST(Int4, IsSignedWithTheEvenIndexInTheLowHalf) {
    const std::byte source[] = {std::byte{0x78}, std::byte{0xf0}};
    std::int8_t values[4];
    decode_int4(source, 4, values);
    EXPECT_EQ(values[0], -8);
    EXPECT_EQ(values[1], 7);
    EXPECT_EQ(values[2], 0);
    EXPECT_EQ(values[3], -1);
}

}  // namespace
}  // namespace npu::sim::test
