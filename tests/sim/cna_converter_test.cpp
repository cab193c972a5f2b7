// The input converter: constants per channel, order, rounding and saturation, against real arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/cna_support.h"
#include "sim/input_converter.h"

namespace npu::sim::test {
namespace {

// By the definition in the register manual's terms, in real numbers.
std::int32_t converted(const InputConversion& how, unsigned bits, std::uint32_t channel, std::uint32_t code) {
    if ((how.channel_mask >> channel % 32 & 1U) == 0) {
        return static_cast<std::int32_t>(code << (32 - bits)) >> (32 - bits);
    }
    const auto round = [&](long double value) {
        const long double whole = std::floor(value);
        const long double rest = value - whole;
        return whole + (rest > 0.5L || (rest == 0.5L && (how.ties_half_up || std::fmod(whole, 2.0L) != 0)) ? 1 : 0);
    };
    long double x = code;
    if (how.is_signed && code >> (bits - 1) != 0) {
        x -= std::ldexp(1.0L, static_cast<int>(bits));
    }
    const long double offset = how.offset[channel % 4];
    const long double scale = how.scale[channel % 4];
    const int shift = -how.truncate[channel % 4];
    const long double y =
        how.adds_first ? round(std::ldexp((x + offset) * scale, shift)) : round(std::ldexp(x * scale, shift)) + offset;
    const long double most = std::ldexp(1.0L, static_cast<int>(bits) - 1);
    return static_cast<std::int32_t>(std::clamp(y, -most, most - 1));
}

InputConversion random_conversion(std::mt19937& random) {
    InputConversion how;
    how.bypassed = false;
    how.is_signed = random() % 2 == 0;
    how.adds_first = random() % 2 == 0;
    how.ties_half_up = random() % 2 == 0;
    how.channel_mask = static_cast<std::uint32_t>(random()) | static_cast<std::uint32_t>(random());
    for (std::size_t set = 0; set < 4; ++set) {
        how.offset[set] = static_cast<std::int16_t>(random() % 3 == 0 ? random() : random() % 256 - 128);
        how.truncate[set] = static_cast<std::uint8_t>(random() % 16);
        how.scale[set] = static_cast<std::int16_t>((1U << how.truncate[set]) + random() % 7 - 3);
    }
    return how;
}

TEST(InputConverter, ConvertsEachValueAsDefined) {
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        const InputConversion how = random_conversion(random);
        for (const unsigned bits : {8U, 16U}) {
            for (std::uint32_t i = 0; i < 256; ++i) {
                const std::uint32_t code = bits == 8 ? i : static_cast<std::uint32_t>(random()) & 0xffff;
                const auto channel = static_cast<std::uint32_t>(random() % 70);
                const std::int32_t value = static_cast<std::int32_t>(code << (32 - bits)) >> (32 - bits);
                ASSERT_EQ(convert_input(how, bits, channel, value), converted(how, bits, channel, code))
                    << bits << " bits, channel " << channel << ", code " << code;
            }
        }
    }
    InputConversion far = random_conversion(random);
    far.truncate = {63, 63, 63, 63};
    far.channel_mask = ~0U;
    EXPECT_EQ(convert_input(far, 8, 0, 77), converted(far, 8, 0, 77)) << "the longest shift";
}

// An image of unsigned bytes around 128, as one-channel image programs convert it.
TEST(InputConverter, MakesSignedInputsOfAnImageInBothOrders) {
    InputConversion how;
    how.bypassed = false;
    how.is_signed = false;
    how.channel_mask = 0xffff;
    how.offset.fill(-128);
    how.scale.fill(1 << 14);
    how.truncate.fill(14);
    for (const bool adds_first : {false, true}) {
        how.adds_first = adds_first;
        for (std::int32_t pixel = 0; pixel < 256; ++pixel) {
            EXPECT_EQ(convert_input(how, 8, 0, static_cast<std::int8_t>(pixel)), pixel - 128);
        }
    }
}

Program converting_program(const ConvolutionCase& shape, const InputConversion& how) {
    Program program = convolution_program(shape);
    program.set(0x104c, std::uint32_t{how.truncate[3]} << 22 | std::uint32_t{how.truncate[2]} << 16 |
                            std::uint32_t{how.truncate[1]} << 10 | std::uint32_t{how.truncate[0]} << 4 |
                            (how.is_signed ? 8U : 0) | (how.ties_half_up ? 4U : 0) | (how.adds_first ? 2U : 0));
    for (std::uint16_t set = 0; set < 4; ++set) {
        program.set(static_cast<std::uint16_t>(0x1050 + 4 * set),
                    std::uint32_t{static_cast<std::uint16_t>(how.scale[set])} << 16 |
                        static_cast<std::uint16_t>(how.offset[set]));
    }
    program.set(0x1180, how.channel_mask);
    return program;
}

TEST(InputConverter, WorksOnTheFeaturesOfATaskAndNotOnItsPadding) {
    std::mt19937 random(2);
    SparseMemory memory;
    for (const Precision input : {Precision::int8, Precision::int16}) {
        for (int round = 0; round < 10; ++round) {
            ConvolutionCase shape = random_case(input, round % 3 == 2, random);
            const Tensors raw = random_tensors(shape, random, Range::full);
            load_tensors(memory, shape, raw);
            const InputConversion how = random_conversion(random);
            ReadResult read = read_convolution(converting_program(shape, how), input);
            ASSERT_FALSE(read.refused) << list_findings(read.findings);
            read.convolution.wants_window_sums = true;
            Convolver convolver;
            const Sums got = run_convolver(convolver, read.convolution, memory);
            Tensors seen = raw;
            for (std::size_t i = 0; i < seen.features.size(); ++i) {
                const std::int32_t value = converted(how, shape.bits(), i % shape.channels, seen.features[i]);
                seen.features[i] = static_cast<std::uint32_t>(value) & ((1U << shape.bits()) - 1);
            }
            EXPECT_TRUE(got == expected_sums(shape, seen));
            EXPECT_FALSE(got == expected_sums(shape, raw)) << "the conversion changed nothing";
        }
    }
}

TEST(InputConverter, IsRefusedWhereNoSourceTellsWhatItDoes) {
    std::mt19937 random(3);
    for (const Precision input : {Precision::int4, Precision::fp16, Precision::bf16, Precision::tf32}) {
        const ConvolutionCase shape = random_case(input, false, random);
        const ReadResult read = read_convolution(converting_program(shape, random_conversion(random)), input);
        EXPECT_TRUE(read.refused);
        EXPECT_TRUE(has_finding(read.findings, Severity::unmodelled, {"CNA.CVT_CON0", rockchip::info(input).name}));
    }
    const ConvolutionCase shape = random_case(Precision::int8, false, random);
    InputConversion none = random_conversion(random);
    none.channel_mask = 0;
    const ReadResult read = read_convolution(converting_program(shape, none), shape.input);
    EXPECT_FALSE(read.refused);
    EXPECT_TRUE(has_finding(read.findings, Severity::warning, {"CNA.CVT_CON5", "no channel"}));
}

// Constants behind a bypass are not read: programs leave them as they like.
TEST(InputConverter, BehindABypassNeedsNoConstants) {
    std::mt19937 random(4);
    const ConvolutionCase shape = random_case(Precision::int8, false, random);
    const Program program = convolution_program(shape);  // does not write 0x1050 to 0x105c nor 0x1180
    EXPECT_FALSE(read_convolution(program, shape.input).refused);
}

}  // namespace
}  // namespace npu::sim::test
