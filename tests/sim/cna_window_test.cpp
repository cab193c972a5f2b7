// Windows of every kind, from registers to sums, against the definition of convolution.
#include <gtest/gtest.h>

#include <limits>

#include "sim/cna_support.h"

namespace npu::sim::test {
namespace {

const std::vector<Precision> all_inputs = {Precision::int8, Precision::int16, Precision::int4,
                                           Precision::fp16, Precision::bf16,  Precision::tf32};

std::vector<const MacKernels*> all_kernels() {
    std::vector<const MacKernels*> kernels = {&portable_kernels()};
    if (avx2_kernels() != nullptr) {
        kernels.push_back(avx2_kernels());
    }
    return kernels;
}

Sums run_case(const ConvolutionCase& shape, const Tensors& tensors, SparseMemory& memory,
              const MacKernels& kernels = best_kernels(), const Convolver::Options& options = {}) {
    load_tensors(memory, shape, tensors);
    ReadResult read = read_convolution(convolution_program(shape), shape.input);
    EXPECT_FALSE(read.refused) << list_findings(read.findings);
    read.convolution.wants_window_sums = true;
    Convolver convolver(kernels, options);
    return run_convolver(convolver, read.convolution, memory);
}

std::string text_of(const ConvolutionCase& shape) {
    return format("%s %ux%ux%u kernels %u of %ux%u stride %u,%u dilation %u,%u padding %u,%u output %ux%ux%u lines %d",
                  rockchip::info(shape.input).name, shape.width, shape.height, shape.channels, shape.kernels,
                  shape.kernel_width, shape.kernel_height, shape.stride_x, shape.stride_y, shape.dilation_x,
                  shape.dilation_y, shape.pad_left, shape.pad_top, shape.output_width, shape.output_height,
                  shape.output_channels, static_cast<int>(shape.lines));
}

TEST(Windows, GiveTheConvolutionForEveryFormatAndRandomShapes) {
    std::mt19937 random(1);
    SparseMemory memory;
    for (const Precision input : all_inputs) {
        for (int round = 0; round < 20; ++round) {
            const ConvolutionCase shape = random_case(input, false, random);
            const Tensors tensors = random_tensors(shape, random, round % 2 == 0 ? Range::full : Range::moderate);
            const Sums expected = expected_sums(shape, tensors);
            for (const MacKernels* kernels : all_kernels()) {
                ASSERT_TRUE(run_case(shape, tensors, memory, *kernels) == expected)
                    << kernels->name << " round " << round << ": " << text_of(shape);
            }
        }
    }
}

TEST(Windows, GiveTheDepthwiseConvolutionForEveryFormatAndRandomShapes) {
    std::mt19937 random(2);
    SparseMemory memory;
    for (const Precision input : {Precision::int8, Precision::int16, Precision::fp16, Precision::bf16}) {
        for (int round = 0; round < 30; ++round) {
            const ConvolutionCase shape = random_case(input, true, random);
            const Tensors tensors = random_tensors(shape, random, round % 2 == 0 ? Range::full : Range::moderate);
            ASSERT_TRUE(run_case(shape, tensors, memory) == expected_sums(shape, tensors))
                << "round " << round << ": " << text_of(shape);
        }
    }
}

// Without this the comparisons above might not look at a field at all.
TEST(Windows, GiveSomethingElseWhenAnyOneFieldDiffers) {
    std::mt19937 random(3);
    SparseMemory memory;
    ConvolutionCase shape;
    shape.width = 9, shape.height = 8, shape.channels = 48, shape.kernels = 40, shape.output_channels = 64;
    shape.kernel_width = 3, shape.kernel_height = 2, shape.stride_x = 2, shape.stride_y = 2;
    shape.dilation_x = 2, shape.dilation_y = 2, shape.pad_left = 1, shape.pad_top = 1, shape.pad_value = 0x4242;
    set_output_size(shape, 1, 1);
    const Tensors tensors = random_tensors(shape, random, Range::full);
    const Sums expected = expected_sums(shape, tensors);
    ASSERT_TRUE(run_case(shape, tensors, memory) == expected);
    using Field = std::uint32_t Convolution::*;
    for (const Field field :
         {&Convolution::stride_x, &Convolution::stride_y, &Convolution::dilation_x, &Convolution::dilation_y,
          &Convolution::pad_left, &Convolution::pad_top, &Convolution::pad_value}) {
        ReadResult read = read_convolution(convolution_program(shape), shape.input);
        read.convolution.wants_window_sums = true;
        read.convolution.*field += 1;
        Convolver convolver;
        const Sums got = run_convolver(convolver, read.convolution, memory);
        EXPECT_FALSE(got.integers == expected.integers);
        EXPECT_FALSE(got.windows == expected.windows);
    }
}

TEST(Windows, AreTheSameWhenTheyDoNotFitTheScratchMemoryAtOnce) {
    std::mt19937 random(4);
    SparseMemory memory;
    for (const Precision input : all_inputs) {
        const ConvolutionCase shape = random_case(input, false, random);
        const Tensors tensors = random_tensors(shape, random, Range::moderate);
        const Sums expected = expected_sums(shape, tensors);
        for (const std::size_t bytes : {std::size_t{1}, std::size_t{20000}}) {
            Convolver::Options options;
            options.most_prepared_bytes = bytes;
            ASSERT_TRUE(run_case(shape, tensors, memory, best_kernels(), options) == expected)
                << bytes << ": " << text_of(shape);
        }
    }
}

TEST(Windows, LeaveOutTheSumsThatNobodyAskedFor) {
    std::mt19937 random(5);
    SparseMemory memory;
    for (const bool depthwise : {false, true}) {
        const ConvolutionCase shape = random_case(Precision::int8, depthwise, random);
        load_tensors(memory, shape, random_tensors(shape, random, Range::full));
        const ReadResult read = read_convolution(convolution_program(shape), shape.input);
        Convolver convolver;
        EXPECT_TRUE(run_convolver(convolver, read.convolution, memory).windows.empty());
    }
}

// Windows that look at the plane from far: the largest kernels the fields can say.
TEST(Windows, MayBeAsLargeAsTheirFields) {
    std::mt19937 random(6);
    SparseMemory memory;
    ConvolutionCase shape;
    shape.width = 37, shape.height = 33, shape.channels = 16, shape.kernels = 2;
    shape.kernel_width = 31, shape.kernel_height = 31, shape.stride_x = 7, shape.stride_y = 5;
    shape.pad_left = 15, shape.pad_top = 15, shape.pad_value = 0x8080;
    set_output_size(shape, 15, 15);
    const Tensors tensors = random_tensors(shape, random, Range::full);
    EXPECT_TRUE(run_case(shape, tensors, memory) == expected_sums(shape, tensors));
    shape.kernel_width = shape.kernel_height = 2, shape.dilation_x = shape.dilation_y = 32;
    set_output_size(shape, 0, 0);
    const Tensors dilated = random_tensors(shape, random, Range::full);
    EXPECT_TRUE(run_case(shape, dilated, memory) == expected_sums(shape, dilated));
}

TEST(Sums, OfInt16AreExactBeyond32Bits) {
    std::mt19937 random(7);
    SparseMemory memory;
    ConvolutionCase shape;
    shape.input = Precision::int16, shape.channels = 128, shape.kernels = shape.output_channels = 16;
    Tensors tensors = random_tensors(shape, random, Range::full);
    std::fill(tensors.features.begin(), tensors.features.end(), 0x8000);
    std::fill_n(tensors.weights.begin(), shape.channels, 0x8000);
    const Sums sums = run_case(shape, tensors, memory);
    EXPECT_EQ(sums.integers[0], std::int64_t{128} << 30);
    EXPECT_TRUE(sums == expected_sums(shape, tensors));
}

TEST(Sums, OfInt8SaturateOnlyWhereNoBufferHoldsTheWindow) {
    std::mt19937 random(8);
    SparseMemory memory;
    ConvolutionCase shape;
    shape.width = shape.height = shape.kernel_width = shape.kernel_height = 31;
    shape.channels = 512, shape.kernels = 2;
    Tensors tensors = random_tensors(shape, random, Range::full);
    std::fill(tensors.features.begin(), tensors.features.end(), 0x80);
    std::fill_n(tensors.weights.begin(), tensors.weights.size() / 2, 0x80);
    load_tensors(memory, shape, tensors);
    ReadResult read = read_convolution(convolution_program(shape), shape.input, Mode::lenient);
    EXPECT_TRUE(has_finding(read.findings, Severity::hang, {"data banks"}));
    Convolver convolver;
    const Sums sums = run_convolver(convolver, read.convolution, memory);
    EXPECT_EQ(sums.integers[0], std::numeric_limits<std::int32_t>::max());
    EXPECT_EQ(sums.integers[1], expected_sums(shape, tensors).integers[1]);
}

TEST(Sums, AreShiftedWithTheRoundingThatTheRegisterAsksFor) {
    std::mt19937 random(9);
    SparseMemory memory;
    for (const Precision input : {Precision::int8, Precision::int16}) {
        for (const bool depthwise : {false, true}) {
            const ConvolutionCase shape = random_case(input, depthwise, random);
            const Tensors tensors = random_tensors(shape, random, Range::full);
            load_tensors(memory, shape, tensors);
            const Sums exact = expected_sums(shape, tensors);
            for (const bool half_up : {false, true}) {
                for (const std::uint32_t bits : {1U, 3U, 31U}) {
                    Program program = convolution_program(shape);
                    program.set(0x301c, bits | (half_up ? 1U << 6 : 0));
                    const ReadResult read = read_convolution(program, shape.input);
                    ASSERT_FALSE(read.refused) << list_findings(read.findings);
                    Convolver convolver;
                    const Sums got = run_convolver(convolver, read.convolution, memory);
                    int ties = 0;
                    for (std::size_t i = 0; i < exact.integers.size(); ++i) {
                        const long double value =
                            std::ldexp(static_cast<long double>(exact.integers[i]), -static_cast<int>(bits));
                        long double rounded = std::floor(value);
                        const long double rest = value - rounded;
                        ties += rest == 0.5L ? 1 : 0;
                        rounded += rest > 0.5L || (rest == 0.5L && (half_up || std::fmod(rounded, 2.0L) != 0)) ? 1 : 0;
                        ASSERT_EQ(got.integers[i], static_cast<std::int64_t>(rounded)) << exact.integers[i];
                    }
                    EXPECT_TRUE(ties > 0 || bits > 3);
                }
            }
        }
    }
}

TEST(LaneZero, IsLowOnlyWhenTheOptionIsOnAndNoProductIsZero) {
    std::mt19937 random(10);
    SparseMemory memory;
    ConvolutionCase shape;
    shape.input = Precision::fp16, shape.width = 4, shape.height = 5, shape.channels = 64;
    shape.kernels = shape.output_channels = 48, shape.output_width = 4, shape.output_height = 5;
    Tensors tensors = random_tensors(shape, random, Range::moderate);
    for (auto* codes : {&tensors.features, &tensors.weights}) {  // products between 1 and 16
        for (std::uint32_t& code : *codes) {
            code = 0x3c00 | (code & 0x87ff);
        }
    }
    tensors.features[3 * 64 + 10] = 0;  // pixel 3
    tensors.features[3 * 64 + 40] = 0;
    Convolver::Options options;
    options.lane0_deviation = true;
    const Sums exact = expected_sums(shape, tensors);
    ASSERT_TRUE(run_case(shape, tensors, memory) == exact);
    const Sums got = run_case(shape, tensors, memory, best_kernels(), options);
    int lower = 0;
    for (std::size_t i = 0; i < exact.floats.size(); ++i) {
        const bool may = i % 48 % 16 == 0 && i / 48 != 3;
        if (!may) {
            ASSERT_EQ(got.floats[i], exact.floats[i]) << i;
            continue;
        }
        // Two groups, each low by 2^-16, and the rounding of sums below 2^9.
        EXPECT_NEAR(got.floats[i], exact.floats[i] - 0x1p-15F, 0x1p-15F) << i;
        lower += got.floats[i] < exact.floats[i] ? 1 : 0;
    }
    EXPECT_GT(lower, 40);
}

}  // namespace
}  // namespace npu::sim::test
