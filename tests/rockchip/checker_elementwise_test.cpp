// Element-wise tasks (enable 0x18), element-wise operands beside the array, lookup tables.
#include <cstdint>

#include "rockchip/corruption.h"
#include "rockchip/sample_blocks.h"

namespace npu::rockchip::test {
namespace {

constexpr auto hangs = consequence::hangs;
constexpr auto corrupts = consequence::corrupts;
constexpr auto unknown = consequence::not_understood;

const ElementWiseShape add32{};
const ElementWiseShape maximum32{.operation = 0x10e003c0};
const ElementWiseShape to_float{.output = Precision::fp32};
const ElementWiseShape multiply16{.input = Precision::fp16, .output = Precision::fp16, .operation = 0x108003c4};
const ElementWiseShape add16{.input = Precision::fp16, .output = Precision::fp16, .operation = 0x108202c0};
const ElementWiseShape multiply8{.input = Precision::int8, .output = Precision::int8, .operation = 0x904002c4};
const ElementWiseShape copy8{.input = Precision::int8, .output = Precision::int8, .operation = 0x383, .operand = false};

SampleProgram program_of(const SampleTask& task) { return sample(task); }

// A matmul whose results are added to an fp16 operand of their shape, as published: M rows in one-pixel lines.
SampleTask accumulating(std::uint32_t rows, std::uint32_t operand = 0x00200000, std::uint32_t output = 0x01800000) {
    const SampleShape shape{.output = Precision::fp16,
                            .m = rows,
                            .n = 64,
                            .layout = SampleLayout::tall,
                            .rdma = true,
                            .output_address = output};
    SampleTask task{sample_body(shape), enable_convolution_rdma, {}};
    const std::uint32_t stride = 16 * std::max(rows, 12U);
    for (Command& command : task.body) {
        switch (command.offset) {
            case 0x4070: command.value = 0x108202c0; break;
            case 0x5018: command.value = operand; break;
            case 0x5034: command.value = 0x40000008; break;
            case 0x5038: command.value = operand + 16 * rows; break;
            case 0x5044: command.value = 0x17d40; break;
            case 0x5040:
            case 0x504c:
            case 0x506c: command.value = stride; break;
            default: break;
        }
    }
    return task;
}

TEST(CheckerElementWise, passes_the_published_operations) {
    for (const ElementWiseShape& base : {add32, maximum32, to_float, multiply16, add16, multiply8, copy8}) {
        for (const std::uint32_t width : {1U, 12U, 200U}) {
            for (const std::uint32_t height : {1U, 5U}) {
                ElementWiseShape shape = base;
                shape.width = width;
                shape.height = height;
                const std::vector<Violation> violations = sample(sample_element_wise(shape)).check();
                EXPECT_TRUE(violations.empty()) << messages(violations);
            }
        }
    }
}

TEST(CheckerElementWise, passes_a_product_with_one_float_per_channel) {
    ElementWiseShape shape{.input = Precision::fp32, .output = Precision::fp32, .width = 1, .operation = 0x10c003c4};
    SampleProgram program = sample(sample_element_wise(shape));
    program.set(0x4040, 0x42).set(0x4048, 0x3c000000).set(0x5040, 16).set(0x504c, 16 * 31);  // every 32nd surface
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

// Independent of the checker: every byte that an operand covers, by the published distances.
TEST(CheckerElementWise, operands_end_exactly_where_their_last_surface_ends) {
    for (const std::uint32_t gap : {0U, 64U, 4096U}) {
        ElementWiseShape shape = add32;
        shape.channels = 72;  // 18 surfaces of four channels
        SampleProgram program = sample(sample_element_wise(shape));
        program.set(0x504c, gap).set(0x5040, 16 * 24 + 2 * gap);
        std::uint64_t main_end = 0;
        std::uint64_t operand_end = 0;
        for (std::uint64_t surface = 0; surface < 18; ++surface) {
            for (std::uint64_t pixel = 0; pixel < 24; ++pixel) {
                main_end = std::max<std::uint64_t>(main_end, surface * (16 * 24 + gap) + 16 * pixel + 16);
                operand_end = std::max<std::uint64_t>(operand_end, surface * (16 * 24 + 2 * gap) + 16 * pixel + 16);
            }
        }
        program.buffers = {{shape.main_address, main_end, false},
                           {shape.operand_address, operand_end, false},
                           {shape.output_address, 18 * 24 * 16, true},
                           {sample_iova, 0x10000, false}};
        EXPECT_TRUE(program.check().empty()) << messages(program.check());
        const std::uint16_t registers[] = {0x5018, 0x5038, 0x4020};
        for (std::size_t i = 0; i < 3; ++i) {
            program.buffers[i].bytes -= 16;
            const std::vector<Violation> violations = program.check();
            ASSERT_EQ(violations.size(), 1U) << messages(violations);
            EXPECT_EQ(violations[0].offset, registers[i]);
            EXPECT_STREQ(violations[0].consequence, consequence::dma_error);
            program.buffers[i].bytes += 16;
        }
    }
}

TEST(CheckerElementWise, adds_in_place_in_flying_mode_but_not_shifted_by_an_atom) {
    ElementWiseShape shape = add32;
    shape.main_address = shape.output_address;
    SampleProgram program = sample(sample_element_wise(shape));
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.set(0x5018, shape.output_address + 16);
    EXPECT_TRUE(says(program.check(), "over its own main operands"));
}

TEST(CheckerElementWise, a_chain_may_accumulate_onto_what_it_read) {
    ElementWiseShape shape = add32;
    shape.main_address = shape.output_address;
    ElementWiseShape next = shape;
    next.operand_address += 0x10000;
    SampleProgram program(std::vector<SampleTask>{sample_element_wise(shape), sample_element_wise(next)});
    const std::vector<Violation> violations = program.check();
    EXPECT_EQ(first_refusal(violations), nullptr) << messages(violations);
    EXPECT_TRUE(says(violations, "replaces one that an earlier task of the chain wrote and a later one read"));
    next.main_address = 0x00100000;  // the second no longer reads what the first wrote
    program = SampleProgram(std::vector<SampleTask>{sample_element_wise(shape), sample_element_wise(next)});
    EXPECT_TRUE(says(program.check(), "already, and nothing has read it since"));
}

const TaskCorruption flying_corruptions[] = {
    {"the_array_as_input", sample_element_wise(add32), 0x400c, 0x1e4, hangs, "which this task does not fire"},
    {"output_to_the_ppu", sample_element_wise(add32), 0x400c, 0x1e3, unknown, "OUTPUT_MODE is 1"},
    {"a_main_operand_that_is_disabled", sample_element_wise(add32), 0x5044, 0x27891, hangs, "MRDMA is disabled"},
    {"a_reader_that_does_not_fly", sample_element_wise(add32), 0x5044, 0x27880, unknown, "every program sets both"},
    {"combination_1", sample_element_wise(add32), 0x5044, 0x27981, hangs, "with bit 0 set the task never completes"},
    {"combination_5", sample_element_wise(add32), 0x5044, 0x27d81, hangs, "with bit 0 set the task never completes"},
    {"combination_2", sample_element_wise(add32), 0x5044, 0x27a81, unknown, "known: 0 and 4"},
    {"another_processing_precision_of_the_reader", sample_element_wise(add32), 0x5044, 0x278a1, corrupts,
     "FEATURE_MODE_CFG.PROC_PRECISION is 5"},
    {"another_precision_of_the_main_operand", sample_element_wise(add32), 0x5044, 0x17881, corrupts,
     "the DPU's input precision is 4"},
    {"another_original_channel_count", sample_element_wise(add32), 0x403c, 31 << 16 | 63, corrupts,
     "only the first of each group of channels is right"},
    {"a_format_that_flies_nowhere", sample_element_wise(add32), 0x4010, 0x10000004, unknown,
     "code 0 after int32 operands"},
    {"a_meaningless_input_format", sample_element_wise(add32), 0x4010, 0x9c000007, corrupts,
     "means nothing in the DPU"},
    {"another_processing_precision", sample_element_wise(add32), 0x4010, 0x90000005, corrupts, "PROC_PRECISION is 5"},
    {"two_sizes_of_groups", sample_element_wise(add32), 0x4050, 0x102, corrupts, "SIZE_E_2 is 1"},
    {"another_operand_size", sample_element_wise(add32), 0x5034, 0x40000008, corrupts, "EDATA_SIZE is 3",
     Severity::refuse, 0x4070},
    {"operand_mode_2", sample_element_wise(add32), 0x5034, 0x8000000c, hangs, "2 and 3 never complete"},
    {"operand_mode_3", sample_element_wise(add32), 0x5034, 0xc000000c, hangs, "2 and 3 never complete"},
    {"an_operand_per_channel_to_add", sample_element_wise(add32), 0x5034, 0x0000000c, corrupts,
     "can be multiplied, not added"},
    {"an_operand_that_is_not_read", sample_element_wise(add32), 0x5034, 0x4000000d, hangs, "and ERDMA is disabled"},
    {"an_operand_that_nobody_takes", sample_element_wise(copy8), 0x5034, 0x40000004, hangs,
     "a task whose EW stage takes no operand"},
    {"an_operand_that_is_not_aligned", sample_element_wise(add32), 0x5038, 0x00200008, corrupts, "no multiple of 16"},
    {"a_live_converter_of_32_bit_integers", sample_element_wise(add32), 0x4070, 0x10c202c0, corrupts,
     "becomes garbage"},
    {"a_maximum_without_comparison", sample_element_wise(maximum32), 0x4070, 0x10c003c0, corrupts, "need EW_EQUAL_EN"},
    {"a_product_of_32_bit_integers", sample_element_wise(add32), 0x4070, 0x10c003c4, corrupts, "as signed 16 bits",
     Severity::warn},
    {"a_product_of_floats_with_a_live_converter", sample_element_wise(multiply16), 0x4070, 0x108002c4, hangs,
     "float multiplication with a live operand converter"},
    {"a_sum_of_floats_without_converter", sample_element_wise(add16), 0x4070, 0x108203c0, corrupts,
     "drops the operand"},
    {"a_converter_that_multiplies_by_zero", sample_element_wise(add16), 0x4078, 0, corrupts,
     "makes every operand the same"},
    {"an_unknown_algorithm", sample_element_wise(add16), 0x4070, 0x108902c0, unknown, "EW algorithm 9"},
    {"a_binary_operation", sample_element_wise(add16), 0x4070, 0x109202c0, unknown, "EW_BINARY_EN is 1"},
    {"float_output_that_is_not_narrowed", sample_element_wise(add16), 0x4084, 1, hangs, "without FP32TOFP16_EN"},
    {"scaled_32_bit_integers", sample_element_wise(add32), 0x4084, 3, unknown, "output scale 3"},
    {"bytes_scaled_by_zero", sample_element_wise(multiply8), 0x4084, 0, corrupts, "makes every result the offset"},
    {"a_live_zero_point", sample_element_wise(multiply8), 0x4050, 1, unknown,
     "in flying mode, where there is no window"},
    {"another_width_of_the_operands", sample_element_wise(add32), 0x500c, 22, corrupts, "DATA_CUBE_WIDTH.WIDTH is 22"},
};

class CheckerFlyingRefuses : public testing::TestWithParam<TaskCorruption> {};

TEST_P(CheckerFlyingRefuses, one_corrupted_register) { expect_objection(GetParam(), program_of); }

INSTANTIATE_TEST_SUITE_P(Values, CheckerFlyingRefuses, testing::ValuesIn(flying_corruptions),
                         [](const testing::TestParamInfo<TaskCorruption>& info) {
                             return std::string(info.param.name);
                         });

TEST(CheckerElementWise, the_largest_width_is_warned_about) {
    ElementWiseShape shape = add32;
    shape.width = 8192;
    shape.channels = 4;
    const std::vector<Violation> violations = sample(sample_element_wise(shape)).check();
    EXPECT_EQ(first_refusal(violations), nullptr) << messages(violations);
    EXPECT_TRUE(says(violations, "field's maximum 8191"));
    shape.width = 8191;
    EXPECT_TRUE(sample(sample_element_wise(shape)).check().empty());
}

TEST(CheckerAccumulate, passes_the_published_form_from_twelve_rows_on) {
    for (const std::uint32_t rows : {12U, 16U, 17U, 128U}) {
        const std::vector<Violation> violations = sample(accumulating(rows)).check();
        EXPECT_TRUE(violations.empty()) << rows << "\n" << messages(violations);
    }
    // Published as wrong below twelve rows: the generator clamped strides to twelve atoms, so the readers step unequally.
    const std::vector<Violation> clamped = sample(accumulating(8)).check();
    EXPECT_NE(first_refusal(clamped), nullptr);
    EXPECT_TRUE(says(clamped, "MRDMA steps 320 bytes from one of its surfaces to the next and ERDMA 384"));
    // Another project multiplies four and eight rows with strides that fit.
    SampleProgram fitting = sample(accumulating(8));
    fitting.set(0x5040, 128).set(0x504c, 128).set(0x506c, 128);
    EXPECT_EQ(first_refusal(fitting.check()), nullptr) << messages(fitting.check());
    EXPECT_TRUE(says(fitting.check(), "an element-wise operand of 8 pixels"));
}

TEST(CheckerAccumulate, a_chain_alternates_between_two_buffers_and_never_works_in_place) {
    constexpr std::uint32_t a = 0x01800000;
    constexpr std::uint32_t b = 0x01900000;
    SampleProgram program(std::vector<SampleTask>{accumulating(16, 0x00200000, a), accumulating(16, a, b),
                                                  accumulating(16, b, a), accumulating(16, a, b)});
    const std::vector<Violation> violations = program.check();
    EXPECT_EQ(first_refusal(violations), nullptr) << messages(violations);
    EXPECT_EQ(violations.size(), 1U) << messages(violations);  // said once
    EXPECT_TRUE(says(violations, "two others accumulate like this"));
    EXPECT_TRUE(says(sample(accumulating(16, a, a)).check(), "over its own element-wise operands"));
}

const TaskCorruption accumulate_corruptions[] = {
    {"mrdma_alone_is_off", accumulating(16), 0x5044, 0x17d50, hangs, "COMB_USE is 5 and MRDMA is off"},
    {"operands_that_are_not_combined", accumulating(16), 0x5044, 0x17840, hangs, "COMB_USE is 0 and MRDMA is on"},
    {"no_gap_between_main_surfaces", accumulating(16), 0x504c, 0, corrupts, "SURF_NOTCH_ADDR is 0"},
    {"no_gap_between_ew_surfaces", accumulating(16), 0x506c, 0, corrupts, "EW_SURF_NOTCH is 0"},
    {"an_operand_of_another_width", accumulating(16), 0x5044, 0x2fd40, corrupts, "ERDMA reads elements of 16 bits"},
    {"an_operand_of_another_format", accumulating(16), 0x5044, 0x1fd40, corrupts, "precision code 3 for MRDMA"},
    {"an_operand_processed_as_another_format", accumulating(16), 0x5044, 0x17d60, corrupts, "PROC_PRECISION is 3"},
    {"readers_that_step_unequally", accumulating(16), 0x5040, 272, corrupts, "alternate surfaces of one operand"},
    {"a_product_with_a_live_converter", accumulating(16), 0x4070, 0x108002c4, unknown, "float multiplication"},
    {"a_sum_without_converter", accumulating(16), 0x4070, 0x108203c0, corrupts, "drops the operand"},
    {"an_operand_per_channel_to_add", accumulating(16), 0x5034, 0x8, corrupts, "can be multiplied, not added"},
};

class CheckerAccumulateRefuses : public testing::TestWithParam<TaskCorruption> {};

TEST_P(CheckerAccumulateRefuses, one_corrupted_register) { expect_objection(GetParam(), program_of); }

INSTANTIATE_TEST_SUITE_P(Values, CheckerAccumulateRefuses, testing::ValuesIn(accumulate_corruptions),
                         [](const testing::TestParamInfo<TaskCorruption>& info) {
                             return std::string(info.param.name);
                         });

TEST(CheckerAccumulate, int32_beside_the_array_is_warned_about_because_only_the_product_was_measured) {
    SampleProgram program = sample(
        SampleTask{sample_body({.input = Precision::int8, .output = Precision::int32, .m = 16, .n = 32, .rdma = true}),
                   enable_convolution_rdma,
                   {}});
    program.set(0x4070, 0x10c203c0).set(0x5018, 0x00200000).set(0x5034, 0x4000000c).set(0x5038, 0x00200100);
    program.set(0x5040, 256).set(0x504c, 256).set(0x506c, 256).set(0x5044, 0x27d80);
    EXPECT_EQ(first_refusal(program.check()), nullptr) << messages(program.check());
    EXPECT_TRUE(says(program.check(), "was not measured itself"));
    program.set(0x4070, 0x10c202c0);
    EXPECT_TRUE(says(program.check(), "becomes garbage"));
}

// Loads both tables, then looks up: one published program does all of it in one task.
SampleTask with_tables(std::uint32_t entries) {
    SampleTask task = sample_element_wise(
        {.input = Precision::fp16, .output = Precision::fp16, .operation = 0x300, .operand = false});
    for (Command& command : task.body) {
        switch (command.offset) {
            case 0x4060: command.value = 0x20040; break;
            case 0x4064: command.value = 0x43000000; break;
            case 0x4068: command.value = 0x64000000; break;
            case 0x4088: command.value = 0x8000c000; break;
            case 0x4108: command.value = 0x68; break;
            case 0x410c: command.value = 0x50500; break;
            default: break;
        }
    }
    for (const std::uint32_t table : {0U, 1U}) {
        task.body.push_back({target::dpu, 0x4100, (2 | table) << 16});
        for (std::uint32_t i = 0; i < entries; ++i) {
            task.body.push_back({target::dpu, 0x4104, (i * 40503U) & 0xffffU});
        }
    }
    return task;
}

TEST(CheckerTables, a_program_that_loads_both_tables_passes) {
    const std::vector<Violation> violations = sample(with_tables(513)).check();
    EXPECT_TRUE(violations.empty()) << messages(violations);
    EXPECT_TRUE(says(sample(with_tables(512)).check(), "loads 512 of 513 entries of lookup table LO"));
}

TEST(CheckerTables, tables_of_an_earlier_task_serve_a_later_one) {
    SampleTask load = with_tables(513);
    SampleTask second = with_tables(0);
    for (Command& command : second.body) {
        command.value = command.offset == 0x4020 ? 0x01900000 : command.value;
    }
    SampleProgram program(std::vector<SampleTask>{load, second});
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

TEST(CheckerTables, registers_of_the_tables_must_be_written_and_a_lookup_of_8191_columns_is_refused) {
    SampleProgram program = sample(with_tables(513));
    EXPECT_TRUE(says(program.erase(0x4114).check(), "DPU.LUT_LE_END = 0x00000000: not written in this chain"));
    SampleTask wide = with_tables(513);
    for (Command& command : wide.body) {
        const bool width = command.offset == 0x4030 || command.offset == 0x500c || command.offset == 0x405c;
        const bool stride = command.offset == 0x4024 || command.offset == 0x40c0;
        command.value = width ? 8190 : stride ? 16 * 8191 : command.value;
    }
    EXPECT_TRUE(says(sample(wide).check(), "lookup over 8191 columns"));
}

TEST(CheckerTables, fused_with_a_matmul_and_pointers_that_return_to_group_0) {
    SampleProgram program(
        std::vector<SampleShape>{{.output = Precision::fp16, .rdma = true},
                                 {.output = Precision::fp16, .rdma = true, .output_address = 0x01900000}});
    program.set(0x4004, 0x30, 0).set(0x5004, 0x30, 0).set(0x4004, 0x30, 1).set(0x5004, 0x30, 1);
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    // In group 0 for good, the second task inherits from the first, not from the one before it.
    std::erase_if(program.task(1).body, [](const Command& c) { return c.offset == 0x4078; });
    EXPECT_TRUE(program.assemble().check().empty()) << messages(program.check());
    program.set(0x4004, 0xe, 0).set(0x4004, 0xe, 1);
    EXPECT_TRUE(says(program.check(), "DPU.EW_CVT_SCALE_VALUE = 0x00000000: not written in this chain"));
}

}  // namespace
}  // namespace npu::rockchip::test
