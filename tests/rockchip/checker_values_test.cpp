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
    {"an_output_precision_no_program_has", int8_wide, 0x4010, 0x40000000, unknown, "code 2 after int8"},
    // Agreement of sizes.
    {"another_dma_plane", fp16_wide, 0x1084, 0x00080002, corrupts, "DMA_HEIGHT is 2"},
    {"another_output_width_in_the_cna", fp16_wide, 0x1028, 7, corrupts, "DATAOUT_WIDTH is 7"},
    {"another_number_of_pixels", fp16_wide, 0x102c, 9, corrupts, "DATAOUT_ATOMICS is 9; width x height is 8"},
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
    {"depthwise_mode", fp16_wide, 0x100c, 0x123, unknown, "depthwise"},
    {"unaligned_dma", fp16_wide, 0x100c, 0x40000120, unknown, "unaligned"},
    {"strides", fp16_wide, 0x1014, 0x12, unknown, "strides of one"},
    {"a_surface_mode", fp16_wide, 0x102c, 0x00400008, unknown, "SURF_MODE"},
    {"a_3x3_kernel", fp16_wide, 0x1038, 0x03030020, unknown, "1x1 kernels"},
    {"a_live_input_converter", fp16_wide, 0x104c, 0xa, unknown, "input converter"},
    {"per_channel_conversion", fp16_wide, 0x1180, 1, unknown, "per-channel input conversion"},
    {"fully_connected_skipping", fp16_wide, 0x1060, 1, unknown, "skipping"},
    {"a_fully_connected_data_offset", fp16_wide, 0x1064, 1, unknown, "data offset"},
    {"a_fully_connected_weight_offset", fp16_wide, 0x1074, 1, unknown, "weight offset"},
    {"a_4k_bypass", fp16_wide, 0x1078, 0x800f000f, unknown, "OV4K_BYPASS"},
    {"a_value_for_padded_channels", fp16_wide, 0x4014, 1, unknown, "padded channels"},
    {"minimum_and_maximum", fp16_wide, 0x4034, 0x00400000, unknown, "MINMAX_CTL"},
    {"a_transposed_precision", fp16_wide, 0x4058, 0x0800001f, unknown, "transposed output"},
    {"padding", fp16_wide, 0x1068, 0x11, unknown, "padding"},
    {"compressed_weights", fp16_wide, 0x1100, 1, unknown, "compressed weights"},
    {"a_compression_map", fp16_wide, 0x1104, 0x55555555, unknown, "compressed weights"},
    {"compressed_lanes", fp16_wide, 0x1144, 5, unknown, "compressed weights"},
    {"depthwise_in_the_core", fp16_wide, 0x3010, 0x203, unknown, "depthwise mode"},
    {"a_shifted_accumulator", fp16_wide, 0x301c, 4, unknown, "shifts its accumulator"},
    {"a_value_in_an_unknown_core_register", fp16_wide, 0x3030, 1, unknown, "every program writes 0"},
    {"flying_mode", fp16_wide, 0x400c, 0x1e5, unknown, "data from the array"},
    {"output_to_pooling", fp16_wide, 0x400c, 0x1e2, unknown, "writes to memory"},
    {"negative_shifts", fp16_wide, 0x4010, 0xa8000012, unknown, "shifts of negative values"},
    {"a_live_bs_stage", fp16_wide, 0x4040, 0x20150, unknown, "BS stage"},
    {"a_live_bn_stage", fp16_wide, 0x4060, 0x12, unknown, "BN stage"},
    {"a_live_ew_stage", fp16_wide, 0x4070, 0x108202c0, unknown, "element-wise (EW)"},
    {"a_lookup_table", fp16_wide, 0x4100, 0x20000, unknown, "lookup tables"},
    {"transposed_output", fp16_wide, 0x4050, 0x0800036e, unknown, "transposed output"},
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
    {"float_scaling_of_the_output", int8_requantised, 0x4088, 0x80000000, unknown, "float scaling"},
    // DPU_RDMA in a plain matmul.
    {"an_unfed_operand_reader", fp16_rdma, 0x5044, 0x7800, hangs, "MRDMA is left enabled"},
    {"an_unfed_element_reader", fp16_rdma, 0x5034, 0x40000008, hangs, "ERDMA is left enabled"},
    {"combined_operands", fp16_rdma, 0x5044, 0x7d10, unknown, "combined operands"},
    {"per_channel_operands", fp16_rdma, 0x501c, 2, unknown, "operands for BS"},
    {"per_channel_operands_of_the_second_stage", fp16_rdma, 0x5028, 2, unknown, "operands for BN"},
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
    const auto found = std::find_if(after.begin(), after.end(), [&](const Violation& violation) {
        return violation.offset == corruption.offset && violation.message.find(corruption.message) != std::string::npos;
    });
    ASSERT_NE(found, after.end()) << messages(after);
    EXPECT_EQ(found->severity, corruption.severity) << found->message;
    EXPECT_STREQ(found->consequence, corruption.consequence) << found->message;
    EXPECT_EQ(first_refusal(after) == nullptr, corruption.severity == Severity::warn) << messages(after);
    EXPECT_NE(found->message.find(corruption.consequence), std::string::npos) << found->message;
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
}

TEST(CheckerPasses, requantisation_of_int8_results) {
    EXPECT_TRUE(sample(int8_requantised).set(0x4084, 0x4000).set(0x4088, 14).set(0x4080, 0xfffffff0).check().empty());
}

TEST(CheckerPasses, the_low_six_bits_of_the_real_channel_count) {
    EXPECT_TRUE(sample({.k = 320}).set(0x1024, 63U << 16 | 320).check().empty());
}

// Shapes at which something is published to go wrong: they may be submitted, with a warning.
void expect_only_warning(const SampleShape& shape, std::uint16_t offset, const char* message, bool expected) {
    const std::vector<Violation> violations = sample(shape).check();
    EXPECT_EQ(first_refusal(violations), nullptr) << messages(violations);
    const bool found = std::any_of(violations.begin(), violations.end(), [&](const Violation& violation) {
        return violation.offset == offset && violation.message.find(message) != std::string::npos;
    });
    EXPECT_EQ(found, expected) << message << "\n" << messages(violations);
    EXPECT_TRUE(expected || violations.empty()) << messages(violations);
}

TEST(CheckerWarns, about_k_inside_the_range_where_two_sources_saw_failures) {
    const char* message = "two sources saw failures";
    expect_only_warning({.m = 8, .k = 3840}, 0x1024, message, true);
    expect_only_warning({.m = 4, .k = 3840}, 0x1024, message, false);
    expect_only_warning({.m = 8, .k = 3072}, 0x1024, message, false);
    expect_only_warning({.m = 8, .k = 4096}, 0x1024, message, false);
}

TEST(CheckerWarns, about_int8_features_that_nearly_fill_their_last_bank_in_one_pixel_lines) {
    const char* message = "such shapes need one more bank";
    SampleShape shape{.input = Precision::int8, .output = Precision::int32, .m = 144, .k = 672};
    shape.layout = SampleLayout::tall;
    expect_only_warning(shape, 0x1040, message, true);  // published failing shape
    shape.m = 192;
    shape.k = 160;
    expect_only_warning(shape, 0x1040, message, true);  // another
    shape.layout = SampleLayout::wide;
    expect_only_warning(shape, 0x1040, message, false);
    shape.layout = SampleLayout::tall;
    shape.m = 128;
    shape.k = 256;  // exactly full: published to be fine
    expect_only_warning(shape, 0x1040, message, false);
    shape.input = Precision::fp16;  // immune
    shape.output = Precision::fp32;
    shape.m = 96;
    shape.k = 160;
    expect_only_warning(shape, 0x1040, message, false);
}

TEST(CheckerWarns, about_lines_whose_entries_exceed_the_banks_though_their_bytes_fit) {
    SampleShape shape{.input = Precision::int8, .output = Precision::int32, .m = 600, .k = 32};
    shape.layout = SampleLayout::tall;
    expect_only_warning(shape, 0x1044, "though the bytes alone fit", true);
    shape.k = 64;
    shape.m = 300;
    expect_only_warning(shape, 0x1044, "though the bytes alone fit", false);
}

TEST(CheckerWarns, about_limits_of_single_formats) {
    expect_only_warning({.input = Precision::tf32, .output = Precision::fp32, .m = 1, .k = 4112}, 0x1024,
                        "verified up to 4096", true);
    expect_only_warning({.input = Precision::int4, .output = Precision::int16, .n = 64, .k = 512}, 0x1024, "saturate",
                        true);
    expect_only_warning({.input = Precision::int4, .output = Precision::int16, .n = 64, .k = 480}, 0x1024, "saturate",
                        false);
    expect_only_warning({.m = 1, .n = 8192}, 0x403c, "field's maximum 8191", true);
}

TEST(CheckerRefusesShapes, beyond_what_is_verified) {
    EXPECT_NE(messages(sample({.m = 1, .k = 8224}).check()).find("K 8224 exceeds 8192"), std::string::npos);
    EXPECT_NE(messages(sample({.m = 1, .n = 8208}).check()).find("N 8208 exceeds 8192"), std::string::npos);
    const SampleShape wide_kernels{.input = Precision::tf32, .output = Precision::fp32, .m = 1, .k = 8208};
    EXPECT_NE(messages(sample(wide_kernels).check()).find("32832 bytes per kernel; at most 32768"), std::string::npos);
}

TEST(CheckerRefusesShapes, a_plane_larger_than_the_chip_profile_allows) {
    SampleProgram program = sample({.m = 200});
    program.check();
    ChipProfile narrow = rk3588();
    narrow.max_extent = 199;
    const std::vector<Violation> violations = check_program(program.input, narrow);
    ASSERT_NE(first_refusal(violations), nullptr);
    EXPECT_NE(messages(violations).find("plane 200x1; the chip's fields end at 199"), std::string::npos);
}

// Registers: every one that a program writes is missed when it is left out.
TEST(CheckerRegisters, one_that_acts_is_refused_when_the_chain_never_wrote_it_and_a_bypassed_one_warned_about) {
    std::size_t refused = 0;
    std::size_t warned = 0;
    std::vector<std::uint16_t> silent;
    for (const Command& command : sample_body(fp16_rdma)) {
        SampleProgram program = sample(fp16_rdma);
        const std::vector<Violation> violations = program.erase(command.offset).check();
        const auto found = std::find_if(violations.begin(), violations.end(), [&](const Violation& violation) {
            return violation.offset == command.offset &&
                   violation.message.find("not written in this") != std::string::npos;
        });
        if (found == violations.end()) {
            silent.push_back(command.offset);
        } else {
            (found->severity == Severity::refuse ? refused : warned) += 1;
        }
    }
    EXPECT_GT(refused, 60U);
    EXPECT_GT(warned, 15U);
    // Left unread by bypassed or disabled stages; one representative of each family is watched instead.
    for (const std::uint16_t offset : silent) {
        const bool lane = offset > 0x1140 && offset <= 0x117c;
        const bool operand = offset > 0x4090 && offset <= 0x40ac;
        const bool lookup = offset > 0x4100 && offset <= 0x412c;
        const bool reader = offset >= 0x5018;
        EXPECT_TRUE(lane || operand || lookup || reader) << std::hex << offset;
    }
}

TEST(CheckerRegisters, a_register_written_twice_with_two_values_is_warned_about) {
    SampleProgram program = sample(fp16_wide);
    program.task().body.front().value = 0xa2;  // the first of two writes of CBUF_CON0
    const std::vector<Violation> violations = program.assemble().check();
    ASSERT_EQ(violations.size(), 1U) << messages(violations);
    EXPECT_EQ(violations[0].severity, Severity::warn);
    EXPECT_NE(violations[0].message.find("written twice in one body, before with 0x000000a2"), std::string::npos);
}

}  // namespace
}  // namespace npu::rockchip::test
