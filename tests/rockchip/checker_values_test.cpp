// One corruption per rule about register values: the sound program passes without a word; with one register changed
// (or left out) the checker names that register, the value and what would happen.
#include <gtest/gtest.h>

#include <functional>

#include "rockchip/sample_program.h"

namespace npu::rockchip::test {
namespace {

const SampleShape fp16_wide{};
const SampleShape fp16_rdma{.rdma = true};
const SampleShape fp16_tall{.layout = SampleLayout::tall};
const SampleShape fp16_rows{.layout = SampleLayout::row_major};
const SampleShape half_out{.output = Precision::fp16};
const SampleShape int8_wide{.input = Precision::int8, .output = Precision::int32};
const SampleShape int8_requantised{.input = Precision::int8, .output = Precision::int8};
const SampleShape int16_wide{.input = Precision::int16, .output = Precision::int32};
const SampleShape int4_wide{.input = Precision::int4, .output = Precision::int16, .n = 64};
const SampleShape tf32_wide{.input = Precision::tf32, .output = Precision::fp32};

constexpr auto hangs = consequence::hangs;
constexpr auto corrupts = consequence::corrupts;
constexpr auto unknown = consequence::not_understood;

struct Corruption {
    const char* name;
    SampleShape shape;
    std::uint16_t offset;
    std::uint32_t value;
    const char* consequence;
    const char* message;  // part of it
    Severity severity = Severity::refuse;
    std::uint16_t reported = 0;  // register that the checker names, when it is another one
};

std::ostream& operator<<(std::ostream& stream, const Corruption& corruption) { return stream << corruption.name; }

const Corruption corruptions[] = {
    // On-chip buffer.
    {"more_banks_than_the_chip_has", fp16_wide, 0x1040, 0xc1, hangs,
     "DATA_BANK 1 + WEIGHT_BANK 12 = 13, the chip has 12"},
    {"no_weight_bank", fp16_wide, 0x1040, 0x01, hangs, "each needs at least one bank"},
    {"no_data_bank", fp16_wide, 0x1040, 0xb0, hangs, "each needs at least one bank"},
    {"features_larger_than_their_banks", {.m = 300}, 0x1040, 0xb1, hangs, "take 38400 bytes, 1 data banks hold 32768"},
    {"an_fc_data_bank", fp16_wide, 0x1040, 0x1b1, corrupts, "FC_DATA_BANK is 1"},
    {"a_single_weight_bank", fp16_wide, 0x1040, 0x1b, hangs, "WEIGHT_BANK 1; hangs are published", Severity::warn},
    {"a_single_weight_bank_where_it_hung",
     {.m = 144, .n = 32, .k = 1024},
     0x1040,
     0x1b,
     hangs,
     "hung until power-cycle"},
    {"too_few_entries_per_line", fp16_wide, 0x1044, 15, corrupts, "needs 16 to 16 entries"},
    {"too_many_entries_per_line", fp16_wide, 0x1044, 17, corrupts, "needs 16 to 16 entries"},
    {"weight_reuse_on_the_first_task", fp16_wide, 0x1040, 0x20b1, corrupts, "WEIGHT_REUSE on a task with no"},
    {"data_reuse_on_the_first_task", fp16_wide, 0x1040, 0x10b1, corrupts, "DATA_REUSE on a task with no"},
    // Precision.
    {"a_meaningless_input_precision", fp16_wide, 0x100c, 0x2d0, corrupts, "code 5 means nothing"},
    {"another_processing_than_input_precision", fp16_wide, 0x100c, 0x1a0, corrupts, "PROC_PRECISION is 3"},
    {"another_core_precision", fp16_wide, 0x3010, 0x001, corrupts, "MISC_CFG.PROC_PRECISION is 0"},
    {"another_dpu_input_precision", fp16_wide, 0x4010, 0xa4000002, corrupts, "DATA_FORMAT.IN_PRECISION is 1"},
    {"another_dpu_processing_precision", fp16_wide, 0x4010, 0xa8000001, corrupts, "DATA_FORMAT.PROC_PRECISION is 1"},
    {"tf32_codes_in_the_dpu", tf32_wide, 0x4010, 0xbc000007, corrupts, "DATA_FORMAT.IN_PRECISION is 7"},
    {"a_meaningless_output_precision", fp16_wide, 0x4010, 0xe8000002, unknown, "output precision code 7"},
    {"an_output_precision_no_program_has", int8_wide, 0x4010, 0xc0000000, unknown, "code 6 after int8"},
    // Agreement of sizes.
    {"another_dma_plane", fp16_wide, 0x1084, 0x00080002, corrupts, "DMA_HEIGHT is 2"},
    {"another_output_width_in_the_cna", fp16_wide, 0x1028, 7, corrupts, "DATAOUT_WIDTH is 7"},
    {"another_number_of_pixels", fp16_wide, 0x102c, 9, corrupts, "DATAOUT_ATOMICS is 9; output width x height is 8"},
    {"another_plane_in_the_core", fp16_wide, 0x3014, 6, corrupts, "DATAOUT_WIDTH is 6"},
    {"another_width_in_the_dpu", fp16_wide, 0x4030, 6, corrupts, "WIDTH is 6"},
    {"another_height_in_the_dpu", fp16_wide, 0x4034, 1, corrupts, "HEIGHT is 1"},
    {"another_plane_to_write", fp16_wide, 0x405c, 0x00010007, corrupts, "HEIGHT_WDMA is 1"},
    {"a_plane_without_pixels", fp16_wide, 0x1020, 0x00080000, hangs, "DATAIN_HEIGHT is 0"},
    {"no_grains", fp16_wide, 0x1010, 0, unknown, "FEATURE_GRAINS is 0"},
    {"another_dma_channel_count", fp16_wide, 0x1088, 32, corrupts, "DMA_CHANNEL is 32; K is 64"},
    {"another_real_channel_count", fp16_wide, 0x1024, 0x00200040, corrupts, "DATAIN_CHANNEL_REAL is 32"},
    {"no_channels", fp16_wide, 0x1024, 0, hangs, "K is 0"},
    {"channels_that_are_no_multiple_of_a_block", fp16_wide, 0x1024, 0x002f0030, corrupts, "no multiple of 32 for fp16"},
    {"more_channels_than_verified", fp16_wide, 0x1024, 0x1fff2020, corrupts, "K 8224 exceeds 8192"},
    {"another_kernel_count_in_the_core", fp16_wide, 0x3018, 15, corrupts, "DATAOUT_CHANNEL is 15"},
    {"another_channel_count_in_the_dpu", fp16_wide, 0x403c, 0x001f000f, corrupts, "DATA_CUBE_CHANNEL.CHANNEL is 15"},
    {"another_original_channel_count", fp16_wide, 0x403c, 0x000f001f, corrupts, "ORIG_CHANNEL is 15"},
    {"another_channel_count_to_write", fp16_wide, 0x4058, 15, corrupts, "CHANNEL_WDMA is 15"},
    {"no_kernels", fp16_wide, 0x1038, 0x01010000, hangs, "N is 0"},
    {"kernels_that_are_no_multiple_of_a_group", fp16_wide, 0x1038, 0x01010014, corrupts,
     "N 20 is no multiple of the kernel group 16"},
    {"a_partial_group_of_requantised_kernels", int8_requantised, 0x1038, 0x01010010, hangs,
     "N 16 is no multiple of the kernel group 32"},
    {"more_kernels_than_the_dpu_counts", fp16_wide, 0x1038, 0x01012010, corrupts, "N 8208 exceeds 8192"},
    {"another_kernel_size", fp16_wide, 0x1034, 64, corrupts, "WEIGHT_BYTES_PER_KERNEL is 64"},
    {"another_weight_size", fp16_wide, 0x1030, 2048, corrupts, "WEIGHT_BYTES is 2048; N x bytes per kernel is 4096"},
    // Fields.
    {"a_height_beyond_its_field", fp16_tall, 0x1020, 0x00010800, corrupts, "bits 0x00000800 lie outside every field"},
    {"grains_beyond_their_field", fp16_wide, 0x1010, 0x4000, corrupts, "bits 0x00004000 lie outside every field"},
    {"a_cube_width_beyond_its_field", fp16_wide, 0x4030, 0x2007, corrupts, "outside every field"},
    {"multi_core_bits", fp16_wide, 0x1010, 0x20000020, unknown, "multi-core vendor programs"},
    // Modes that no matmul uses.
    {"depthwise_mode_in_the_cna_alone", fp16_wide, 0x100c, 0x123, corrupts, "DW_EN is 0", Severity::refuse, 0x3010},
    {"an_unknown_convolution_mode", fp16_wide, 0x100c, 0x121, unknown, "CONV_MODE 1; known: 0 direct, 3 depthwise"},
    {"transposed_convolution", fp16_wide, 0x100c, 0x10120, unknown, "transposed convolution"},
    {"image_input", fp16_wide, 0x100c, 0x8120, unknown, "image input"},
    {"unaligned_dma", fp16_wide, 0x100c, 0x40000120, unknown, "unaligned"},
    {"strides_that_the_output_does_not_follow", fp16_wide, 0x1014, 0x12, corrupts, "stride 2 give a width of 4",
     Severity::refuse, 0x1028},
    {"a_stride_of_zero", fp16_wide, 0x1014, 0x8, unknown, "CONV_X_STRIDE is 0"},
    {"strides_of_a_transposed_convolution", fp16_wide, 0x1014, 0x109, unknown, "transposed convolution"},
    {"a_mode_of_the_network", fp16_wide, 0x1014, 0x10000009, unknown, "NN_MODE is 1"},
    {"a_kernel_group", fp16_wide, 0x1010, 0x10020, unknown, "KERNEL_GROUP is 1"},
    {"a_surface_mode", fp16_wide, 0x102c, 0x00400008, unknown, "SURF_MODE"},
    {"a_3x3_kernel_with_the_bytes_of_one_pixel", fp16_wide, 0x1038, 0x03030020, corrupts,
     "kernel plane x K x element size is 1152", Severity::refuse, 0x1034},
    {"a_kernel_without_width", fp16_wide, 0x1038, 0x00010020, hangs, "WEIGHT_WIDTH is 0"},
    {"a_live_input_converter", fp16_wide, 0x104c, 0xa, unknown, "input converter"},
    {"an_input_converter_bypassed_in_another_way", fp16_wide, 0x104c, 0x1, unknown, "bypassed by 0x1"},
    {"fully_connected_skipping", fp16_wide, 0x1060, 1, unknown, "skipping"},
    {"a_fully_connected_data_offset", fp16_wide, 0x1064, 1, unknown, "data offset"},
    {"a_fully_connected_weight_offset", fp16_wide, 0x1074, 1, unknown, "weight offset"},
    {"a_4k_bypass", fp16_wide, 0x1078, 0x800f000f, unknown, "OV4K_BYPASS"},
    {"a_value_for_padded_channels", fp16_wide, 0x4014, 1, unknown, "padded channels"},
    {"minimum_and_maximum", fp16_wide, 0x4034, 0x00400000, unknown, "MINMAX_CTL"},
    {"a_transposed_precision", fp16_wide, 0x4058, 0x0800001f, unknown, "transposed output"},
    {"padding_beyond_the_kernel", fp16_wide, 0x1068, 0x11, unknown, "whole windows would lie in the padding"},
    {"compressed_weights", fp16_wide, 0x1100, 1, unknown, "compressed weights with control 1"},
    {"a_bypass_of_the_decompressor", fp16_wide, 0x1100, 8, unknown, "WT_DEC_BYPASS is 1"},
    {"a_compression_map", fp16_wide, 0x1104, 0x55555555, unknown, "compressed weights"},
    {"compressed_lanes", fp16_wide, 0x1144, 5, unknown, "compressed weights"},
    {"depthwise_in_the_core", fp16_wide, 0x3010, 0x203, corrupts,
     "DW_EN is 1 in a convolution whose CONV_MODE says direct"},
    {"clock_gating_in_the_core", fp16_wide, 0x3010, 0x4201, unknown, "clock gating"},
    {"a_shifted_accumulator", fp16_wide, 0x301c, 4, unknown, "shifts its accumulator"},
    {"a_value_in_an_unknown_core_register", fp16_wide, 0x3030, 1, unknown, "every program writes 0"},
    {"flying_mode", fp16_wide, 0x400c, 0x1e5, hangs, "data from the array"},
    {"depthwise_in_the_dpu", fp16_wide, 0x400c, 0x1fc, unknown, "CONV_MODE 3 of the DPU"},
    {"an_unexplained_reduction", fp16_wide, 0x400c, 0x020021e4, unknown, "vendor reduction"},
    {"output_to_pooling", fp16_wide, 0x400c, 0x1e2, unknown, "writes to memory"},
    {"a_surface_order_that_nobody_uses", fp16_wide, 0x4010, 0xa800000a, unknown, "MC_SURF_OUT is 1"},
    {"a_bs_stage_without_its_operands", fp16_wide, 0x4040, 0x20150, hangs, "BS waits for operands from DPU_RDMA"},
    {"a_bn_stage_without_its_operands", fp16_wide, 0x4060, 0x20150, hangs, "BN waits for operands from DPU_RDMA"},
    {"an_unknown_algorithm_of_the_bs_stage", fp16_wide, 0x4040, 0x90050, unknown, "BS algorithm 9"},
    {"an_ew_stage_without_its_operand", fp16_wide, 0x4070, 0x108202c0, hangs, "waits for an operand from DPU_RDMA"},
    {"a_lookup_without_tables", fp16_wide, 0x4070, 0x300, corrupts, "loads 0 of 513 entries of lookup table LE",
     Severity::warn},
    {"transposed_output_of_floats", fp16_wide, 0x4050, 0x0800036e, unknown, "code 5 after fp16", Severity::refuse,
     0x4010},
    {"a_value_in_an_unknown_dpu_register", fp16_wide, 0x40c4, 1, unknown, "every program writes 0"},
    // Output stage.
    {"too_few_surfaces_per_group", fp16_wide, 0x4050, 0x126, corrupts, "SIZE_E_0 is 1; fp16 to fp32 has 4 surfaces"},
    {"int16_with_the_surfaces_of_int8", int16_wide, 0x4050, 0x7fe, hangs, "SIZE_E_0 is 7"},
    {"a_live_zero_point_stage", fp16_wide, 0x4050, 0x36d, unknown, "zero-point stage is live"},
    {"two_line_gaps", fp16_rows, 0x4038, 7, corrupts, "NOTCH_ADDR_1 is 0; NOTCH_ADDR_0 is 7"},
    {"half_output_that_is_not_narrowed", half_out, 0x4084, 1, hangs, "fp16 output without FP32TOFP16_EN"},
    {"float_output_that_is_narrowed", fp16_wide, 0x4084, 0x10001, unknown, "FP32TOFP16_EN with fp32 output"},
    {"a_scaled_float_output", fp16_wide, 0x4084, 2, unknown, "output scale 2"},
    {"an_unscaled_integer_output", int8_wide, 0x4084, 0, unknown, "output scale 0"},
    {"a_requantisation_by_zero", int8_requantised, 0x4084, 0, corrupts, "output scale 0 makes every result the offset"},
    {"a_shifted_wide_output", int8_wide, 0x4088, 3, unknown, "output shift"},
    {"an_offset_of_a_wide_output", int8_wide, 0x4080, 3, unknown, "output offset"},
    {"float_scaling_of_an_integer_output", int8_requantised, 0x4088, 0x80000000, corrupts,
     "with int8 output it was measured to do nothing", Severity::warn},
    // DPU_RDMA in a plain matmul.
    {"an_unfed_operand_reader", fp16_rdma, 0x5044, 0x7800, hangs, "MRDMA is left enabled"},
    {"an_unfed_element_reader", fp16_rdma, 0x5034, 0x40000008, hangs, "ERDMA is left enabled"},
    {"combined_operands", fp16_rdma, 0x5044, 0x7d10, unknown, "combined operands"},
    {"a_flying_operand_beside_the_array", fp16_rdma, 0x5044, 0x7811, unknown, "flies beside the array"},
    {"per_channel_operands_that_nobody_takes", fp16_rdma, 0x501c, 2, unknown, "operands for BS, which takes none"},
    {"per_channel_operands_of_the_second_stage", fp16_rdma, 0x5028, 2, unknown, "operands for BN, which takes none"},
    {"a_bs_stage_whose_operands_are_not_read", fp16_rdma, 0x4040, 0x20150, hangs, "waits for per-channel operands 0x1",
     Severity::refuse, 0x501c},
    {"unpooling_of_the_operand", fp16_rdma, 0x5048, 0x1000, unknown, "unpooling"},
    {"padding_of_the_operand", fp16_rdma, 0x5064, 1, unknown, "padding of the operand reader"},
    {"another_height_in_the_operand_reader", fp16_rdma, 0x5010, 3, corrupts, "DATA_CUBE_HEIGHT.HEIGHT is 3"},
    {"another_plane_in_the_operand_reader", fp16_rdma, 0x500c, 0, corrupts, "DATA_CUBE_WIDTH.WIDTH is 0"},
    {"another_channel_count_in_the_operand_reader", fp16_rdma, 0x5014, 15, corrupts, "DATA_CUBE_CHANNEL.CHANNEL is 15"},
    // Register groups.
    {"an_output_pointer_that_does_not_toggle", fp16_wide, 0x4004, 0xf, unknown, "every program writes 0xe"},
    // Addresses and strides (extents stand in checker_memory_test.cpp).
    {"an_unaligned_feature_address", fp16_wide, 0x1070, 0x00100008, corrupts, "no multiple of 16"},
    {"an_unaligned_weight_address", fp16_wide, 0x1110, 0x00800004, corrupts, "no multiple of 16"},
    {"an_unaligned_output_address", fp16_wide, 0x4020, 0x01800008, corrupts, "no multiple of 16"},
    {"a_surface_stride_below_its_lines", fp16_wide, 0x4024, 0x70, corrupts,
     "surface stride of 112 bytes, but what it steps over takes 128"},
    {"a_group_stride_below_its_surfaces", fp16_wide, 0x40c0, 0x1f0, corrupts,
     "group stride of 496 bytes, but what it steps over takes 512"},
    {"a_line_pitch_below_its_channels", fp16_rows, 0x4038, 0x00060006, corrupts,
     "line pitch of 112 bytes, but what it steps over takes 128"},
    {"a_surface_stride_that_is_no_multiple_of_an_atom", fp16_wide, 0x4024, 0x88, corrupts, "outside every field"},
    {"a_clamped_negative_feature_stride",
     {.m = 2, .layout = SampleLayout::tall},
     0x1080,
     0,
     corrupts,
     "a dense plane needs -2",
     Severity::warn},
};

class CheckerRefuses : public testing::TestWithParam<Corruption> {};

TEST_P(CheckerRefuses, one_corrupted_register_by_name_value_and_consequence) {
    const Corruption& corruption = GetParam();
    SampleProgram program = sample(corruption.shape);
    const std::vector<Violation> before = program.check();
    ASSERT_TRUE(before.empty()) << "the sound program must pass:\n" << messages(before);
    const std::vector<Violation> after = program.set(corruption.offset, corruption.value).check();
    const std::uint16_t reported = corruption.reported != 0 ? corruption.reported : corruption.offset;
    const auto found = std::find_if(after.begin(), after.end(), [&](const Violation& violation) {
        return violation.offset == reported && violation.message.find(corruption.message) != std::string::npos;
    });
    ASSERT_NE(found, after.end()) << messages(after);
    EXPECT_EQ(found->severity, corruption.severity) << found->message;
    EXPECT_STREQ(found->consequence, corruption.consequence) << found->message;
    EXPECT_EQ(first_refusal(after) == nullptr, corruption.severity == Severity::warn) << messages(after);
    EXPECT_NE(found->message.find(corruption.consequence), std::string::npos) << found->message;
    EXPECT_STRNE(found->source, "");
    EXPECT_NE(found->message.find(std::string("source: ") + found->source), std::string::npos) << found->message;
    EXPECT_EQ(found->message.rfind("task 0: ", 0), 0U) << found->message;
}

INSTANTIATE_TEST_SUITE_P(Values, CheckerRefuses, testing::ValuesIn(corruptions),
                         [](const testing::TestParamInfo<Corruption>& info) { return std::string(info.param.name); });

TEST(CheckerPasses, every_pair_of_formats_in_every_layout_with_and_without_dpu_rdma) {
    const SampleShape formats[] = {half_out,
                                   fp16_wide,
                                   {.input = Precision::bf16, .output = Precision::fp32},
                                   tf32_wide,
                                   int8_wide,
                                   int8_requantised,
                                   int16_wide,
                                   int4_wide,
                                   {.input = Precision::int8, .output = Precision::fp32},
                                   {.input = Precision::int8, .output = Precision::int16}};
    for (SampleShape shape : formats) {
        for (const SampleLayout layout : {SampleLayout::row_major, SampleLayout::wide, SampleLayout::tall}) {
            for (const std::uint32_t rows : {1U, 2U, 3U, 4U, 7U, 128U, 170U}) {
                for (const bool rdma : {false, true}) {
                    shape.layout = layout;
                    shape.m = rows;
                    shape.n = 192;
                    shape.k = 320;
                    shape.rdma = rdma;
                    const std::vector<Violation> violations = sample(shape).check();
                    EXPECT_TRUE(violations.empty()) << info(shape.input).name << " M " << rows << "\n"
                                                    << messages(violations);
                }
            }
        }
    }
}

TEST(CheckerPasses, a_float_scale_of_zero_which_float_output_ignores) {
    EXPECT_TRUE(sample(fp16_wide).set(0x4084, 0).check().empty());
}

TEST(CheckerPasses, a_live_zero_point_stage_with_operand_zero) {
    EXPECT_TRUE(sample(int8_wide).set(0x4050, 0x7fc).check().empty());
    EXPECT_NE(first_refusal(sample(int8_wide).set(0x4050, 0x7fc).set(0x4054, 3).check()), nullptr);
    SampleProgram requantised = sample(int8_requantised);
    requantised.set(0x4050, 0x124).set(0x4054, 3);
    EXPECT_NE(messages(requantised.check()).find("QD_EN is 0"), std::string::npos);
    EXPECT_TRUE(requantised.set(0x3010, 1).check().empty()) << messages(requantised.check());
}

TEST(CheckerPasses, what_bypassed_stages_are_given_and_relu) {
    EXPECT_TRUE(sample(fp16_wide).set(0x1180, 7).check().empty());  // conversion per channel, converter bypassed
    EXPECT_TRUE(sample(fp16_wide).set(0x4010, 0xa8000012).check().empty());  // shift behind a bypassed multiplier
    EXPECT_TRUE(sample(fp16_wide).set(0x4060, 0x12).check().empty());        // ReLU alone
    EXPECT_TRUE(sample(fp16_wide).set(0x4040, 0x12).check().empty());
    EXPECT_TRUE(sample(fp16_wide).set(0x4040, 0x42).set(0x4048, 0x3c000000).check().empty());  // scale from a register
    EXPECT_TRUE(sample(fp16_wide).set(0x4040, 0x20050).set(0x4044, 0x3f800000).check().empty());
    EXPECT_TRUE(sample(int8_wide).set(0x301c, 0x43).check().empty());  // right shift of integer sums
}

TEST(CheckerPasses, float_scaling_of_float_results) {
    EXPECT_TRUE(sample(half_out).set(0x4088, 0x8000a000).set(0x4084, 0x13c00).set(0x4080, 5).check().empty());
    SampleProgram dequantised = sample({.input = Precision::int8, .output = Precision::fp32});
    EXPECT_TRUE(dequantised.set(0x4088, 0x80000000).set(0x4084, 0x3c00).check().empty());
}

TEST(CheckerPasses, requantisation_of_int8_results) {
    EXPECT_TRUE(sample(int8_requantised).set(0x4084, 0x4000).set(0x4088, 14).set(0x4080, 0xfffffff0).check().empty());
}

TEST(CheckerPasses, the_low_six_bits_of_the_real_channel_count) {
    EXPECT_TRUE(sample({.k = 320}).set(0x1024, 63U << 16 | 320).check().empty());
}

}  // namespace
}  // namespace npu::rockchip::test
