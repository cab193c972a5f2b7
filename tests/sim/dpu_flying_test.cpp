// The EW stage of the DPU alone: two operands in memory, operands from registers and per channel, the operand converter.
// References are int64 and float64; words come from the published recipes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/float_bits.h"
#include "sim/dpu_support.h"

namespace npu::sim::test {
namespace {

struct FlyingCase {
    DpuBench bench;
    FlyingShape shape;
    std::vector<std::uint32_t> main;
    std::vector<std::uint32_t> operand;
    Program program;

    FlyingCase(FlyingShape with, std::uint32_t word, unsigned operand_bytes) : shape(with) {
        program = flying_program(shape);
        add_operand(program, shape, word, operand_bytes);
        bench.memory.map(shape.destination, std::uint64_t{shape.pixels()} * shape.channels * 8);
    }
    Outcome run(const std::vector<std::uint32_t>& first, const std::vector<std::uint32_t>& second,
                unsigned operand_bytes) {
        main = first;
        operand = second;
        load_cube(bench.memory, shape.source, shape.pixels(), shape.channels, bytes_of(shape.input), main);
        load_cube(bench.memory, shape.operand, shape.pixels(), shape.channels, operand_bytes, operand);
        return bench.run_flying(program);
    }
    std::vector<std::uint32_t> result() const {
        return read_cube(bench.memory, shape.destination, shape.pixels(), shape.channels, bytes_of(shape.output));
    }
};

TEST(DpuFlying, ComputesIntegersExactlyAndSaturates) {
    std::mt19937 random(1);
    for (const Precision format : {Precision::int8, Precision::int16, Precision::int32}) {
        const unsigned bytes = bytes_of(format);
        for (const Operation operation : {maximum, minimum, add, subtract, multiply}) {
            FlyingCase flying({.input = format, .output = format, .width = 3, .height = 5, .channels = 40},
                              integer_word(format, operation), bytes);
            const auto main = random_integers(format, 600, random);
            auto operand = random_integers(format, 600, random);
            for (std::size_t i = 0; i < 600; i += 7) {
                operand[i] = main[i];  // both extremes meet themselves
            }
            const Outcome outcome = flying.run(main, operand, bytes);
            ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
            EXPECT_TRUE(outcome.findings.empty()) << list_findings(outcome.findings);
            const auto got = flying.result();
            std::size_t saturated = 0;
            std::size_t high_half = 0;
            for (std::size_t i = 0; i < got.size(); ++i) {
                const std::int64_t x = sign_extend(main[i], 8 * bytes);
                const std::int64_t y = sign_extend(operand[i], 8 * bytes);
                const std::int64_t exact = reference_integer(operation, x, y);
                ASSERT_EQ(sign_extend(got[i], 8 * bytes), clamp_to(exact, 8 * bytes))
                    << operation << ": " << x << ", " << y;
                saturated += clamp_to(exact, 8 * bytes) != exact ? 1U : 0;
                high_half += x * y != reference_integer(multiply, x, y) ? 1U : 0;
            }
            EXPECT_EQ(saturated > 0, operation >= add) << operation << " must saturate somewhere";
            EXPECT_EQ(high_half > 0, format == Precision::int32);
        }
    }
}

TEST(DpuFlying, ComputesHalvesAndRoundsToFp32AndThenToTheOutput) {
    std::mt19937 random(2);
    for (const Operation operation : {maximum, minimum, add, subtract, multiply, divide}) {
        for (const Precision output : {Precision::fp16, Precision::bf16, Precision::fp32}) {
            FlyingCase flying({.input = Precision::fp16, .output = output, .width = 11, .height = 1, .channels = 24},
                              half_word(operation), 2);
            const auto main = random_codes(Precision::fp16, 264, random, Range::full);
            const auto operand = random_codes(Precision::fp16, 264, random, Range::full);
            const Outcome outcome = flying.run(main, operand, 2);
            ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
            const auto got = flying.result();
            std::size_t different = 0;
            for (std::size_t i = 0; i < got.size(); ++i) {
                const float x = half_to_float(static_cast<std::uint16_t>(main[i]));
                const float y = half_to_float(static_cast<std::uint16_t>(operand[i]));
                const float wide = reference_float(operation, x, y);
                if (std::isnan(wide)) {
                    continue;
                }
                const std::uint32_t wanted = output == Precision::fp16   ? float_to_half(wide)
                                             : output == Precision::bf16 ? float_to_bfloat(wide)
                                                                         : std::bit_cast<std::uint32_t>(wide);
                // A maximum of zeros of both signs may be either.
                if (operation <= minimum && x == y) {
                    continue;
                }
                ASSERT_EQ(got[i], wanted) << operation << ": " << x << ", " << y;
                different += got[i] != main[i] ? 1U : 0;
            }
            EXPECT_GT(different, 100U) << "the operand must matter";
        }
    }
}

TEST(DpuFlying, AddsAndMultipliesFp32WhereAMultiplierIsAHalfInTheLowHalf) {
    std::mt19937 random(3);
    const FlyingShape shape{
        .input = Precision::fp32, .output = Precision::fp32, .width = 6, .height = 1, .channels = 12};
    const auto main = random_floats(72, random);
    const auto addends = random_floats(72, random);
    std::vector<std::uint32_t> main_codes;
    std::vector<std::uint32_t> addend_codes;
    std::vector<std::uint32_t> halves = random_codes(Precision::fp16, 72, random, Range::moderate);
    for (std::size_t i = 0; i < 72; ++i) {
        main_codes.push_back(std::bit_cast<std::uint32_t>(main[i]));
        addend_codes.push_back(std::bit_cast<std::uint32_t>(addends[i]));
    }
    FlyingCase sum(shape, 0x10c203c0, 4);
    ASSERT_TRUE(sum.run(main_codes, addend_codes, 4).ran);
    FlyingCase product(shape, 0x10c003c4, 4);
    auto dirty = halves;
    std::ranges::transform(dirty, dirty.begin(), [](std::uint32_t code) { return code | 0xabcd0000U; });
    ASSERT_TRUE(product.run(main_codes, dirty, 4).ran);
    for (std::size_t i = 0; i < 72; ++i) {
        EXPECT_EQ(std::bit_cast<float>(sum.result()[i]), reference_float(add, main[i], addends[i]));
        const float factor = half_to_float(static_cast<std::uint16_t>(halves[i]));
        EXPECT_EQ(std::bit_cast<float>(product.result()[i]), reference_float(multiply, main[i], factor));
    }
}

TEST(DpuFlying, BroadcastsAMultiplierPerChannel) {
    std::mt19937 random(4);
    for (const Precision format : {Precision::int8, Precision::fp16}) {
        const unsigned bytes = bytes_of(format);
        FlyingCase flying({.input = format, .output = format, .width = 9, .height = 1, .channels = 48},
                          format == Precision::fp16 ? 0x108003c4 : integer_word(format, multiply), bytes);
        flying.program.set(0x5034, bytes << 2);
        const auto main = format == Precision::fp16 ? random_codes(format, 432, random, Range::moderate)
                                                    : random_integers(format, 432, random);
        const auto factors = format == Precision::fp16 ? random_codes(format, 48, random, Range::moderate)
                                                       : random_integers(format, 48, random);
        load_cube(flying.bench.memory, flying.shape.source, 9, 48, bytes, main);
        flying.bench.memory.map(flying.shape.operand, 48 * bytes);
        for (std::uint32_t c = 0; c < 48; ++c) {
            write_element(flying.bench.memory.at(flying.shape.operand), std::uint64_t{c} * 8 * bytes, 8 * bytes,
                          factors[c]);
        }
        const Outcome outcome = flying.bench.run_flying(flying.program);
        ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
        EXPECT_EQ(outcome.task.bytes_read, 432U * bytes + 48U * bytes);
        const auto got = flying.result();
        for (std::size_t i = 0; i < got.size(); ++i) {
            if (format == Precision::fp16) {
                const float x = half_to_float(static_cast<std::uint16_t>(main[i]));
                const float y = half_to_float(static_cast<std::uint16_t>(factors[i % 48]));
                ASSERT_EQ(got[i], float_to_half(reference_float(multiply, x, y)));
            } else {
                ASSERT_EQ(sign_extend(got[i], 8),
                          clamp_to(sign_extend(main[i], 8) * sign_extend(factors[i % 48], 8), 8));
            }
        }
        flying.program.set(0x4070, format == Precision::fp16 ? 0x108202c0 : integer_word(format, add));
        const Outcome sum = flying.bench.run_flying(flying.program);
        EXPECT_FALSE(sum.ran);
        EXPECT_TRUE(has_finding(sum.findings, Severity::corrupt, {"DPU_RDMA.ERDMA_CFG", "broadcast"}));
    }
}

TEST(DpuFlying, TakesOneOperandFromTheRegisters) {
    std::mt19937 random(5);
    const FlyingShape shape{.input = Precision::int32, .output = Precision::int32, .width = 5, .channels = 16};
    for (const Operation operation : {maximum, minimum, add, subtract, multiply}) {
        FlyingCase flying(shape, integer_word(Precision::int32, operation) & ~0x40U, 4);
        flying.program.set(0x5034, 1);
        const auto operand = static_cast<std::uint32_t>(random());
        for (std::uint16_t offset = 0x4090; offset <= 0x40ac; offset += 4) {
            flying.program.set(offset, operand);
        }
        const auto main = random_integers(Precision::int32, 80, random);
        const Outcome outcome = flying.run(main, main, 4);
        ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
        for (std::size_t i = 0; i < main.size(); ++i) {
            const std::int64_t exact = reference_integer(operation, sign_extend(main[i], 32), sign_extend(operand, 32));
            ASSERT_EQ(sign_extend(flying.result()[i], 32), clamp_to(exact, 32));
        }
        flying.program.set(0x4098, operand + 1);
        const Outcome mixed = flying.bench.run_flying(flying.program);
        EXPECT_TRUE(has_finding(mixed.findings, Severity::unmodelled, {"EW_OP_VALUE_0", "differ"}));
    }
}

TEST(DpuFlying, MultipliesNegativesOnlyAsPreluAndClampsAsRelu) {
    std::mt19937 random(6);
    const FlyingShape shape{.input = Precision::fp16, .output = Precision::fp16, .width = 10, .channels = 16};
    const auto main = random_codes(Precision::fp16, 160, random, Range::moderate);
    const auto slopes = random_codes(Precision::fp16, 160, random, Range::moderate);
    FlyingCase prelu(shape, 0x108003e4, 2);
    ASSERT_TRUE(prelu.run(main, slopes, 2).ran);
    FlyingCase relu(shape, 0x108200c0, 2);  // add, then ReLU
    ASSERT_TRUE(relu.run(main, slopes, 2).ran);
    FlyingCase bounded(shape, 0x108204c0, 2);  // add, then ReLU with a bound
    bounded.program.set(0x407c, std::bit_cast<std::uint32_t>(0.75F));
    ASSERT_TRUE(bounded.run(main, slopes, 2).ran);
    for (std::size_t i = 0; i < main.size(); ++i) {
        const float x = half_to_float(static_cast<std::uint16_t>(main[i]));
        const float y = half_to_float(static_cast<std::uint16_t>(slopes[i]));
        EXPECT_EQ(prelu.result()[i], float_to_half(x < 0 ? x * y : x));
        EXPECT_EQ(relu.result()[i], float_to_half(std::max(x + y, 0.0F)));
        EXPECT_EQ(bounded.result()[i], float_to_half(std::min(std::max(x + y, 0.0F), 0.75F)));
    }
}

// The int8 recipes with zero points: a and b are converted to a common scale and the result is scaled back.
TEST(DpuFlying, AddsAndMultipliesInt8WithZeroPoints) {
    std::mt19937 random(7);
    const FlyingShape shape{.input = Precision::int8, .output = Precision::int8, .width = 13, .channels = 32};
    const std::int32_t zero_a = -7;
    const std::int32_t zero_b = 19;
    const std::int32_t zero_out = -3;
    const auto a = random_integers(Precision::int8, 416, random);
    const auto b = random_integers(Precision::int8, 416, random);
    const auto prepare = [&](FlyingCase& flying) {
        flying.program.set(0x4044, static_cast<std::uint32_t>(-zero_a));
        flying.program.set(0x4074, static_cast<std::uint32_t>(-zero_b));
        flying.program.set(0x4080, static_cast<std::uint32_t>(zero_out));
    };
    FlyingCase sum(shape, 0x904202c0, 1);
    prepare(sum);
    sum.program.set(0x4040, 0x20040);
    sum.program.set(0x4048, 0x40000000);
    sum.program.set(0x4078, 23170);
    sum.program.set(0x4084, 0x5a82);
    sum.program.set(0x4088, 14 + 15);
    const Outcome added = sum.run(a, b, 1);
    ASSERT_TRUE(added.ran) << list_findings(added.findings);
    FlyingCase product(shape, 0x904002c4, 1);
    prepare(product);
    product.program.set(0x4040, 0x20050);
    product.program.set(0x4084, 0x4ccd);
    product.program.set(0x4088, 22);
    const Outcome multiplied = product.run(a, b, 1);
    ASSERT_TRUE(multiplied.ran) << list_findings(multiplied.findings);
    std::size_t without_zero_points = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const std::int64_t x = sign_extend(a[i], 8) - zero_a;
        const std::int64_t y = sign_extend(b[i], 8) - zero_b;
        const auto out = [&](std::int64_t value, std::int64_t scale, unsigned shift) {
            return clamp_to(reference_shift(static_cast<__int128>(value) * scale, shift) + zero_out, 8);
        };
        const std::int64_t wanted = out(x * 16384 + y * 23170, 0x5a82, 29);
        ASSERT_EQ(sign_extend(sum.result()[i], 8), wanted);
        ASSERT_EQ(sign_extend(product.result()[i], 8), out(x * y, 0x4ccd, 22));
        without_zero_points += out((x + zero_a) * 16384 + (y + zero_b) * 23170, 0x5a82, 29) != wanted ? 1U : 0;
    }
    EXPECT_GT(without_zero_points, 300U);
}

}  // namespace
}  // namespace npu::sim::test
