// Programs as others write them: their register values, taken from published recipes, must be accepted as they are and
// give what their authors say. Also that programs damaged at random stay harmless.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "sim/addressing.h"
#include "sim/cna_support.h"

namespace npu::sim::test {
namespace {

Sums run_program(const Program& program, const ConvolutionCase& shape, const Tensors& tensors,
                 std::vector<Finding>* findings = nullptr) {
    SparseMemory memory;
    load_tensors(memory, shape, tensors);
    ReadResult read = read_convolution(program, shape.input);
    EXPECT_FALSE(read.refused) << list_findings(read.findings);
    if (findings != nullptr) {
        *findings = read.findings;
    }
    read.convolution.wants_window_sums = true;
    Convolver convolver;
    return run_convolver(convolver, read.convolution, memory);
}

// An open driver's int8 convolution: input channels rounded up to 16, kernels to 2, output channels to 32 (64 when
// depthwise), lines in groups of four, input zero point minus 128 as padding.
Program driver_convolution(const ConvolutionCase& shape, std::uint32_t real_channels) {
    Program p = convolution_program(shape);
    p.set(0x1024, (real_channels - 1) << 16 | shape.channels);
    for (std::uint16_t offset = 0x1050; offset <= 0x105c; offset += 4) {
        p.set(offset, 0x10000);
    }
    p.set(0x1044, (shape.width * 2 * ((real_channels + 15) / 16) + 7) / 8);
    p.set(0x1078, 0x000f000f);
    p.set(0x1104, 0);
    for (std::uint16_t offset = 0x1140; offset <= 0x117c; offset += 4) {
        p.set(offset, 0);
    }
    p.set(0x1180, 0);
    return p;
}

TEST(OthersPrograms, OfAnOpenDriverRunWithTheirRoundingOfChannels) {
    std::mt19937 random(1);
    struct Layer {
        std::uint32_t width, height, inputs, outputs, kernel, stride, pad;
    };
    for (const Layer& layer :
         {Layer{20, 20, 3, 8, 3, 2, 0}, Layer{12, 9, 24, 18, 3, 1, 1}, Layer{7, 7, 40, 70, 1, 1, 0},
          Layer{14, 14, 64, 34, 1, 2, 0}, Layer{5, 5, 96, 10, 5, 1, 2}}) {
        ConvolutionCase shape;
        shape.width = layer.width, shape.height = layer.height;
        shape.channels = (layer.inputs + 15) / 16 * 16;
        shape.kernels = (layer.outputs + 1) / 2 * 2;
        shape.output_channels = (layer.outputs + 31) / 32 * 32;
        shape.kernel_width = shape.kernel_height = layer.kernel;
        shape.stride_x = shape.stride_y = layer.stride;
        shape.pad_left = shape.pad_top = layer.pad;
        shape.pad_value = 0xffffff8bU;
        set_output_size(shape, layer.pad, layer.pad);
        const Tensors tensors = random_tensors(shape, random, Range::full);
        EXPECT_TRUE(run_program(driver_convolution(shape, layer.inputs), shape, tensors) ==
                    expected_sums(shape, tensors))
            << layer.inputs << " to " << layer.outputs;
    }
}

TEST(OthersPrograms, OfAnOpenDriverRunDepthwise) {
    std::mt19937 random(2);
    for (const std::uint32_t channels : {16U, 24U, 64U, 96U, 130U}) {
        ConvolutionCase shape;
        shape.depthwise = true;
        shape.width = 10, shape.height = 6;
        shape.channels = (channels + 15) / 16 * 16;
        shape.output_channels = (channels + 63) / 64 * 64;
        shape.kernel_width = shape.kernel_height = 3;
        shape.stride_x = shape.stride_y = 2;
        shape.pad_left = shape.pad_top = 1;
        shape.pad_value = 0x0b0b;
        set_output_size(shape, 1, 1);
        const Tensors tensors = random_tensors(shape, random, Range::full);
        EXPECT_TRUE(run_program(driver_convolution(shape, channels), shape, tensors) == expected_sums(shape, tensors))
            << channels;
    }
}

// A part of the lines of a plane: the base moves, the strides stay those of the whole.
TEST(OthersPrograms, MaySplitAPlaneIntoTasksOfSomeLines) {
    std::mt19937 random(3);
    for (const Lines lines : {Lines::grouped, Lines::single}) {
        ConvolutionCase whole;
        whole.width = 6, whole.height = 13, whole.channels = 48;
        whole.kernel_width = whole.kernel_height = 3;
        whole.lines = lines;
        set_output_size(whole, 0, 0);
        const Tensors tensors = random_tensors(whole, random, Range::full);
        const Sums expected = expected_sums(whole, tensors);
        SparseMemory memory;
        load_tensors(memory, whole, tensors);
        for (const auto& [first, count] : {std::pair{0U, 4U}, std::pair{4U, 5U}, std::pair{9U, 2U}}) {
            ConvolutionCase part = whole;
            part.features += first * 6 * 16;
            part.height = count + 2;
            part.output_height = count;
            Program program = convolution_program(part);
            program.set(0x1080, convolution_program(whole).get(0x1080));
            const ReadResult read = read_convolution(program, part.input);
            ASSERT_FALSE(read.refused) << list_findings(read.findings);
            Convolver convolver;
            const Sums got = run_convolver(convolver, read.convolution, memory);
            const auto begin = expected.integers.begin() + first * 4 * 32;
            EXPECT_TRUE(std::equal(got.integers.begin(), got.integers.end(), begin));
        }
    }
}

// 4-bit weights with 8-bit activations: an int16 convolution adds up int4 products, 16 times the high and once the low
// halves, over all waves. Register values as published; features are 8 of 16 channels, the other plane is whatever lies
// there.
TEST(OthersPrograms, ThatReduceInt4ProductsWithAnInt16ConvolutionRun) {
    std::mt19937 random(4);
    for (const std::uint32_t waves : {2U, 4U, 7U, 31U}) {
        for (const std::uint32_t core_channels : {16U, 8U}) {
            const std::uint32_t rows = 24;
            SparseMemory memory;
            const std::uint32_t features = 0x10000000;
            const std::uint32_t weights = 0x20000000;
            memory.map(features, 0x40000);
            memory.map(weights, 0x8000);
            std::vector<std::int16_t> partial(std::size_t{waves} * 2 * rows * 8);
            for (std::int16_t& value : partial) {
                value = static_cast<std::int16_t>(random());
            }
            partial[5] = -32768;
            for (std::uint64_t i = 0; i < 0x20000; ++i) {
                write_element(memory.at(features), i * 16, 16, static_cast<std::uint32_t>(random()) & 0xffff);
            }
            std::memcpy(memory.at(features), partial.data(), partial.size() * 2);
            for (std::uint32_t wave = 0; wave < waves; ++wave) {
                for (std::uint32_t half = 0; half < 2; ++half) {
                    for (std::uint32_t c = 0; c < 8; ++c) {
                        const std::uint64_t at = ((wave * 2 + half) * 8 + c) * 16 + c;
                        write_element(memory.at(weights), at * 16, 16, half == 0 ? 16 : 1);
                    }
                }
            }
            Program p;
            p.set(0x100c, 0x90);
            p.set(0x1010, (waves + 1) << 4);
            p.set(0x1014, 10);
            p.set(0x1020, 2 * rows << 16 | waves);
            p.set(0x1024, 7 << 16 | 16);
            p.set(0x1028, rows);
            p.set(0x102c, rows);
            p.set(0x1030, 512 * waves);
            p.set(0x1034, 64 * waves);
            p.set(0x1038, 2U << 24 | waves << 16 | 8);
            p.set(0x1040, 0x84);
            p.set(0x1044, rows);
            p.set(0x104c, 0xb);
            p.set(0x1068, 0);
            p.set(0x1070, features);
            p.set(0x107c, 8 * rows);
            p.set(0x1080, 2 * rows * (waves > 4 ? waves - 4 : 0));
            p.set(0x1084, 2 * rows << 16 | waves);
            p.set(0x1088, 16);
            p.set(0x1100, 0);
            p.set(0x1110, weights);
            p.set(0x1180, 7);
            p.set(0x3010, 0x101);
            p.set(0x3014, rows - 1);
            p.set(0x3018, core_channels - 1);
            p.set(0x301c, 0);
            p.set(0x3030, 0);
            const ReadResult read = read_convolution(p, Precision::int16);
            ASSERT_FALSE(read.refused) << list_findings(read.findings);
            ASSERT_EQ(read.convolution.output_channels, 16U);
            Convolver convolver;
            const Sums got = run_convolver(convolver, read.convolution, memory);
            for (std::uint32_t row = 0; row < rows; ++row) {
                for (std::uint32_t c = 0; c < 8; ++c) {
                    std::int64_t sum = 0;
                    for (std::uint32_t wave = 0; wave < waves; ++wave) {
                        const std::size_t high = ((wave * 2 * rows) + 2 * row) * 8 + c;
                        sum += 16 * partial[high] + partial[high + 8];
                    }
                    ASSERT_EQ(got.integers[row * 16 + c], sum) << waves << " waves, row " << row << " channel " << c;
                }
            }
        }
    }
}

// A published short list for int8 products: it leaves alone what is 0 after a reset.
TEST(OthersPrograms, ThatLiveOnResetValuesRunAndAreWarned) {
    std::mt19937 random(5);
    ConvolutionCase shape;
    shape.height = shape.output_height = 9, shape.channels = 96, shape.kernels = shape.output_channels = 64;
    shape.lines = Lines::pixels;
    const Tensors tensors = random_tensors(shape, random, Range::full);
    Program program = convolution_program(shape);
    for (const std::uint16_t offset : {0x1060, 0x1064, 0x1068, 0x1074, 0x1184}) {
        program.erase(offset);
    }
    std::vector<Finding> findings;
    EXPECT_TRUE(run_program(program, shape, tensors, &findings) == expected_sums(shape, tensors));
    for (const char* name : {"CNA.FC_CON0", "CNA.FC_CON1", "CNA.FC_CON2", "CNA.PAD_CON0"}) {
        EXPECT_TRUE(has_finding(findings, Severity::warning, {name, "never written", "0"})) << name;
    }
}

TEST(OthersPrograms, WithUnequalPaddingBytesAreToldThatItIsAReading) {
    std::mt19937 random(6);
    ConvolutionCase shape = random_case(Precision::int8, false, random);
    shape.kernel_width = 3, shape.dilation_x = shape.stride_x = 1, shape.pad_left = 1;
    set_output_size(shape, 1, 1);
    shape.pad_value = 0x8080;
    EXPECT_FALSE(has_finding(read_convolution(convolution_program(shape), shape.input).findings, Severity::warning,
                             {"CNA.PAD_CON1"}));
    shape.pad_value = 0x8b;
    EXPECT_TRUE(has_finding(read_convolution(convolution_program(shape), shape.input).findings, Severity::warning,
                            {"CNA.PAD_CON1", "low byte"}));
    // The other reading, as an option.
    const Tensors tensors = random_tensors(shape, random, Range::full);
    SparseMemory memory;
    load_tensors(memory, shape, tensors);
    const Convolution convolution = read_convolution(convolution_program(shape), shape.input).convolution;
    Convolver::Options options;
    options.direct_padding = DirectPadding::byte_pairs;
    Convolver pairs(best_kernels(), options);
    Convolver low_byte;
    EXPECT_EQ(run_convolver(low_byte, convolution, memory).integers, expected_sums(shape, tensors).integers);
    EXPECT_NE(run_convolver(pairs, convolution, memory).integers, expected_sums(shape, tensors).integers);
}

TEST(OthersPrograms, ThatDilateCanBeReadBothWays) {
    std::mt19937 random(7);
    ConvolutionCase shape = random_case(Precision::fp16, false, random);
    RegisterState state(1);
    const auto read_with = [&](bool distance, std::uint32_t field) {
        Program program = convolution_program(shape);
        program.set(0x1014, field << 16 | 9);
        for (const std::uint64_t word : program.words()) {
            const auto offset = static_cast<std::uint16_t>(word);
            if (offset >= 0x1000) {
                state.block(block_of(offset)).write(offset, static_cast<std::uint32_t>(word >> 16));
            }
        }
        RegisterReader reader(state);
        Judge judge(0, 0);
        RegisterCheck check(reader, judge);
        Convolution convolution;
        convolution.input = shape.input;
        read_cna(check, rockchip::rk3588(), convolution, {.dilation_is_distance = distance});
        return convolution.dilation_x;
    };
    EXPECT_EQ(read_with(false, 0), 1U);
    EXPECT_EQ(read_with(false, 1), 2U);
    EXPECT_EQ(read_with(true, 0), 1U);
    EXPECT_EQ(read_with(true, 1), 1U);
    EXPECT_EQ(read_with(true, 2), 2U);
}

// One bit of one register, or all of it.
void damage(Program& program, std::mt19937& random) {
    const std::vector<std::uint64_t> words = program.words();
    const auto offset = static_cast<std::uint16_t>(words[random() % program.size()]);
    const auto noise = static_cast<std::uint32_t>(random());
    program.set(offset, random() % 2 == 0 ? program.get(offset) ^ 1U << noise % 32 : noise);
}

// What lenient mode lets through must be safe to run: sizes bounded, nothing divided by zero, memory only where the
// extents say.
TEST(DamagedPrograms, LeaveConvolutionsThatAreSafeToRun) {
    std::mt19937 random(8);
    int survived = 0;
    int ran = 0;
    for (int round = 0; round < 4000; ++round) {
        const Precision input = std::vector{Precision::int8, Precision::int16, Precision::int4, Precision::fp16,
                                            Precision::tf32}[round % 5];
        const bool depthwise = input != Precision::int4 && input != Precision::tf32 && round % 3 == 0;
        Program program = convolution_program(random_case(input, depthwise, random));
        for (int change = 0; change < 1 + round % 4; ++change) {
            damage(program, random);
        }
        for (std::uint16_t offset = 0x1140; offset <= 0x117c; offset += 4) {
            program.set(offset, 20);
        }
        for (const std::uint16_t offset : {0x1050, 0x1054, 0x1058, 0x105c, 0x1104, 0x1180}) {
            program.set(offset, 0x55555555);
        }
        const ReadResult read = read_convolution(program, input, Mode::lenient);
        if (read.refused) {
            continue;
        }
        ++survived;
        const Convolution& convolution = read.convolution;
        ASSERT_GT(convolution.rows(), 0U);
        ASSERT_LE(convolution.rows(), 1U << 18);
        ASSERT_LE(convolution.feature_bytes(), std::uint64_t{64} << 20);
        ASSERT_LT(convolution.kernel_bytes(), 1U << 19);
        ASSERT_EQ(convolution.output_channels % convolution.kernels_per_group(), 0U);
        const Extent features = feature_extent(convolution);
        const Extent weights = weight_extent(convolution);
        if (features.end - features.begin > 1 << 20 || weights.end - weights.begin > 1 << 20 ||
            convolution.macs() > 20'000'000 || convolution.feature_bytes() > 1 << 20 || convolution.groups() > 16) {
            continue;
        }
        // Exactly as much memory as the extents say: a checker of memory errors sees a byte too far.
        std::vector<std::byte> feature_memory(static_cast<std::size_t>(features.end - features.begin));
        std::vector<std::byte> weight_memory(static_cast<std::size_t>(weights.end - weights.begin));
        Convolver convolver;
        Collector collector(convolution);
        convolver.run(convolution, {feature_memory.data(), weight_memory.data()}, collector);
        ++ran;
    }
    EXPECT_GT(survived, 1000);
    EXPECT_GT(ran, 500);
}

}  // namespace
}  // namespace npu::sim::test
