// Spatial, strided, padded and depthwise convolutions, their bias, partial kernel groups and compressed weights.
#include "rockchip/corruption.h"
#include "rockchip/sample_blocks.h"

namespace npu::rockchip::test {
namespace {

constexpr auto hangs = consequence::hangs;
constexpr auto corrupts = consequence::corrupts;
constexpr auto unknown = consequence::not_understood;

const ConvolutionShape plain{};
const ConvolutionShape half{
    .input = Precision::fp16, .output = Precision::fp16, .channels = 32, .kernels = 48, .bias = false};
const ConvolutionShape strided{.width = 15, .height = 12, .stride_x = 2, .stride_y = 3};
const ConvolutionShape depthwise{.channels = 64, .depthwise = true};
const ConvolutionShape half_depthwise{
    .input = Precision::fp16, .output = Precision::fp16, .channels = 96, .depthwise = true, .bias = false};
const ConvolutionShape partial{.kernels = 24};  // the last kernel group holds 24 of 32

SampleProgram program_of(const SampleTask& task) { return sample(task); }

TEST(CheckerConvolution, passes_every_kernel_stride_and_padding) {
    for (const ConvolutionShape& base : {plain, half, depthwise, half_depthwise, partial}) {
        for (const std::uint32_t kernel : {1U, 2U, 3U, 5U, 7U}) {
            for (const std::uint32_t stride : {1U, 2U, 3U, 4U}) {
                for (const std::uint32_t before : {0U, (kernel - 1) / 2, kernel - 1}) {
                    for (const std::uint32_t after : {0U, kernel - 1}) {
                        ConvolutionShape shape = base;
                        shape.kernel_width = shape.kernel_height = kernel;
                        shape.stride_x = shape.stride_y = stride;
                        shape.pad_left = shape.pad_top = before;
                        shape.pad_right = shape.pad_bottom = after;
                        const std::vector<Violation> violations = sample(sample_convolution(shape)).check();
                        EXPECT_TRUE(violations.empty()) << "kernel " << kernel << " stride " << stride << " padding "
                                                        << before << " " << after << "\n"
                                                        << messages(violations);
                    }
                }
            }
        }
    }
}

TEST(CheckerConvolution, the_output_size_is_bounded_by_what_padding_can_add) {
    // Width 15, kernel 3, stride 2, one pixel on the left: 7 windows without padding on the right, 8 with one pixel,
    // 8 with two; the right padding is in no register.
    const ConvolutionShape shape{.width = 15, .stride_x = 2, .pad_right = 1};
    SampleProgram program = sample(sample_convolution(shape));
    const auto with_width = [&](std::uint32_t width) {
        const std::uint32_t height = shape.output_height();
        program.set(0x1028, width).set(0x102c, width * height).set(0x3014, (height - 1) << 16 | (width - 1));
        program.set(0x4030, width - 1).set(0x405c, (height - 1) << 16 | (width - 1)).set(0x500c, width - 1);
        return program.check();
    };
    EXPECT_TRUE(with_width(7).empty());
    EXPECT_TRUE(with_width(8).empty()) << messages(program.check());
    EXPECT_TRUE(says(with_width(6), "give a width of 7 to 8"));
    EXPECT_TRUE(says(with_width(9), "give a width of 7 to 8"));
}

TEST(CheckerConvolution, padding_on_the_right_needs_its_value_too) {
    ConvolutionShape shape = plain;
    shape.pad_left = shape.pad_top = 0;
    shape.pad_right = shape.pad_bottom = 2;
    SampleProgram program = sample(sample_convolution(shape));
    EXPECT_TRUE(program.check().empty());
    EXPECT_TRUE(says(program.erase(0x1184).check(), "padded with a value that was not written"));
}

TEST(CheckerConvolution, dilation_is_read_both_ways_and_warned_about) {
    ConvolutionShape shape = plain;
    shape.pad_left = shape.pad_right = 0;
    shape.kernel_height = 1;
    shape.pad_top = shape.pad_bottom = 0;
    for (const std::uint32_t covered : {3U, 5U}) {  // field 1: distance one, or a gap of one pixel
        ConvolutionShape output = shape;
        output.kernel_width = covered;
        SampleTask task = sample_convolution(shape);
        const SampleTask sizes = sample_convolution(output);
        for (std::size_t i = 0; i < task.body.size(); ++i) {
            const std::uint16_t offset = task.body[i].offset;
            const bool size = offset == 0x1028 || offset == 0x102c || offset == 0x3014 || offset == 0x4030 ||
                              offset == 0x405c || offset == 0x500c || offset == 0x4024 || offset == 0x40c0;
            task.body[i].value = size ? sizes.body[i].value : task.body[i].value;
        }
        SampleProgram program = sample(task);
        program.set(0x1014, 1U << 16 | 9);
        const std::vector<Violation> violations = program.check();
        EXPECT_EQ(first_refusal(violations), nullptr) << messages(violations);
        EXPECT_TRUE(says(violations, "ATROUS_X_DILATION 1: a kernel of 3 covers 5 pixels")) << messages(violations);
    }
}

TEST(CheckerConvolution, bias_is_read_inside_the_jobs_buffers) {
    SampleProgram program = sample(sample_convolution(plain));
    program.buffers[1].bytes = 0x00700000;  // weights and bias lie in one buffer of the sample
    program.buffers.push_back({plain.bias_address, 4 * 64, false});
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.buffers.back().bytes -= 4;
    EXPECT_TRUE(says(program.check(), "per-channel operands take 0xf00000 to 0xf00100"));
    // Records of bias, zero point and multiplier take twice as much.
    program.set(0x501c, 7 << 1).set(0x4040, 0x20140).set(0x4048, 1);
    EXPECT_TRUE(says(program.check(), "per-channel operands take 0xf00000 to 0xf00200"));
}

TEST(CheckerConvolution, compressed_weights_take_the_bytes_of_their_lanes) {
    const SampleShape shape{.input = Precision::int8, .output = Precision::int32, .n = 64, .k = 128};
    SampleProgram program = SampleProgram({shape});
    program.set(0x1100, 1).set(0x1104, 0x55555555);
    std::uint32_t bytes = 0;
    for (std::uint32_t lane = 0; lane < 16; ++lane) {
        const std::uint32_t blocks = 20 + lane;
        program.set(static_cast<std::uint16_t>(0x1140 + 4 * lane), blocks - 1);
        bytes += (16 * blocks + 63) / 64 * 64;
    }
    program.buffers[1] = {0x00800000, bytes, false};
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.buffers[1].bytes -= 1;
    EXPECT_TRUE(says(program.check(), "weights take 0x800000 to"));
    program.set(0x1110, 0x00800010);
    EXPECT_TRUE(says(program.check(), "compressed weights begin at a multiple of 64"));
    program.set(0x1154, 3);
    EXPECT_TRUE(says(program.check(), "a lane of 4 blocks; it has at least 8"));
    program.erase(0x1144);
    EXPECT_TRUE(says(program.check(), "CNA.DCOMP_AMOUNT1 = 0x00000000: not written in this chain"));
}

TEST(CheckerConvolution, int16_reduction_with_half_a_block_of_channels_passes) {
    // A published program adds int16 partial sums by a convolution: 8 real of 16 channels, 8 kernels of 2 x 5, stride 2.
    ConvolutionShape shape{.input = Precision::int16,
                           .output = Precision::int32,
                           .width = 32,
                           .height = 5,
                           .channels = 16,
                           .kernels = 8,
                           .kernel_width = 2,
                           .kernel_height = 5,
                           .stride_x = 2,
                           .pad_left = 0,
                           .pad_right = 0,
                           .pad_top = 0,
                           .pad_bottom = 0,
                           .bias = false};
    SampleProgram program = sample(sample_convolution(shape));
    program.set(0x1024, 7 << 16 | 16);
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    EXPECT_TRUE(says(program.set(0x1024, 20 << 16 | 16).check(), "DATAIN_CHANNEL_REAL is 20"));
}

const TaskCorruption corruptions[] = {
    {"a_depthwise_precision_that_nobody_ran", sample_convolution(depthwise), 0x100c, 0x93, unknown,
     "depthwise convolution of int16"},
    {"a_depthwise_convolution_with_many_kernels", sample_convolution(depthwise), 0x1038, 0x03030040, corrupts,
     "number of kernels in a depthwise convolution is 1"},
    {"a_depthwise_convolution_that_the_dpu_does_not_know_of", sample_convolution(depthwise), 0x400c, 0x1e4, unknown,
     "one open driver writes 3", Severity::warn},
    {"the_surfaces_of_a_direct_convolution_in_a_depthwise_one", sample_convolution(depthwise), 0x4050, 0x126, corrupts,
     "int8 to int8 has 4 surfaces"},
    {"a_partial_group_counted_as_whole", sample_convolution(partial), 0x403c, 31 << 16 | 31, hangs,
     "N 24 is no multiple of the kernel group 32", Severity::refuse, 0x1038},
    {"a_partial_group_that_the_core_does_not_pad", sample_convolution(partial), 0x3018, 23, hangs,
     "N 24 is no multiple of the kernel group 32", Severity::refuse, 0x1038},
    {"another_stride", sample_convolution(strided), 0x1014, 0x11, corrupts, "stride 2 give a height of",
     Severity::refuse, 0x3014},
    {"another_kernel_width", sample_convolution(plain), 0x1038, 0x02030040, corrupts,
     "kernel plane x K x element size is 384", Severity::refuse, 0x1034},
    {"padding_as_wide_as_the_kernel", sample_convolution(plain), 0x1068, 0x31, unknown,
     "PAD_LEFT is 3; the kernel covers 3 pixels"},
    {"a_bias_that_is_not_aligned", sample_convolution(plain), 0x5020, 0x00f00004, corrupts, "no multiple of 16"},
    {"a_bias_that_is_not_read", sample_convolution(plain), 0x501c, 0, hangs, "BS waits for per-channel operands 0x1"},
    {"a_bias_read_with_shifts", sample_convolution(plain), 0x501c, 0x12, unknown, "bit 3 reads a shift per channel"},
    {"a_zero_point_per_channel_that_is_not_read", sample_convolution(plain), 0x4050, 0x125, hangs,
     "BS waits for per-channel operands 0x3", Severity::refuse, 0x501c},
    {"scales_per_channel_in_bn", sample_convolution(plain), 0x4060, 0x20150, hangs,
     "one program that tried never ended"},
    {"an_unfed_reader_of_an_operand", sample_convolution(plain), 0x5044, 0x7800, hangs, "MRDMA is left enabled"},
    {"a_value_for_padded_channels_that_there_are_none_of", sample_convolution(plain), 0x4014, 3, unknown,
     "of which this task has none"},
    {"kernels_larger_than_their_banks",
     sample_convolution({.input = Precision::fp16,
                         .output = Precision::fp16,
                         .width = 4,
                         .height = 4,
                         .channels = 256,
                         .kernel_width = 5,
                         .kernel_height = 5,
                         .pad_left = 2,
                         .pad_right = 2,
                         .pad_top = 2,
                         .pad_bottom = 2,
                         .bias = false}),
     0x1040, 0x2a, hangs, "one group of kernels takes 204800 bytes, 2 weight banks hold 65536"},
};

class CheckerConvolutionRefuses : public testing::TestWithParam<TaskCorruption> {};

TEST_P(CheckerConvolutionRefuses, one_corrupted_register) { expect_objection(GetParam(), program_of); }

INSTANTIATE_TEST_SUITE_P(Values, CheckerConvolutionRefuses, testing::ValuesIn(corruptions),
                         [](const testing::TestParamInfo<TaskCorruption>& info) {
                             return std::string(info.param.name);
                         });

TEST(CheckerConvolution, a_partial_group_takes_a_value_for_its_padding) {
    EXPECT_TRUE(sample(sample_convolution(partial)).set(0x4014, 3).check().empty());
}

TEST(CheckerConvolution, transposed_output_is_understood_as_far_as_it_was_published) {
    SampleShape shape{.output = Precision::fp16, .m = 32, .n = 64};
    SampleProgram program = SampleProgram({shape});
    program.set(0x4050, 0x080007fe).set(0x4058, 0x08000000 | (64 / 16 - 1) << 16 | (64 / 2 - 1));
    program.set(0x405c, (32 / 4 - 1) << 16).set(0x4024, 16).set(0x40c0, 128);
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.buffers[2] = {0x01800000, 32 * 64 * 2, true};
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.buffers[2].bytes -= 16;
    EXPECT_TRUE(says(program.check(), "results take 0x1800000 to 0x1801000"));
    EXPECT_TRUE(says(program.set(0x4058, 0x08000000 | 3 << 16 | 30).check(), "N / 2 - 1 is 31"));
    // int16 sums: low 16 bits only, at most 32 channels, and 16 channels never end.
    SampleProgram sums = SampleProgram({{.input = Precision::int16, .output = Precision::int32, .n = 32}});
    sums.set(0x4010, 0x24000001).set(0x4050, 0x080007fe);
    EXPECT_EQ(first_refusal(sums.check()), nullptr) << messages(sums.check());
    EXPECT_TRUE(says(sums.check(), "keeps the low 16 bits"));
    SampleProgram few = SampleProgram({{.input = Precision::int16, .output = Precision::int32, .n = 16}});
    EXPECT_TRUE(says(few.set(0x4010, 0x24000001).set(0x4050, 0x080007fe).check(), "of 16 channels never ends"));
}

}  // namespace
}  // namespace npu::rockchip::test
