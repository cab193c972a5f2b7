// Pooling tasks (enable 0x60).
#include "rockchip/corruption.h"
#include "rockchip/sample_blocks.h"

namespace npu::rockchip::test {
namespace {

constexpr auto hangs = consequence::hangs;
constexpr auto corrupts = consequence::corrupts;
constexpr auto unknown = consequence::not_understood;

const PoolingShape maximum{};
const PoolingShape average{.method = 0};

SampleProgram program_of(const SampleTask& task) { return sample(task); }

TEST(CheckerPooling, passes_every_method_window_and_stride) {
    for (const std::uint32_t method : {0U, 1U, 2U}) {
        for (const std::uint32_t window : {1U, 2U, 3U, 4U}) {
            for (const std::uint32_t stride : {1U, 2U, 3U}) {
                for (const std::uint32_t pad : {0U, window - 1}) {
                    PoolingShape shape{.method = method};
                    shape.window_width = shape.window_height = window;
                    shape.stride_x = shape.stride_y = stride;
                    shape.pad_left = shape.pad_bottom = pad;
                    const std::vector<Violation> violations = sample(sample_pooling(shape)).check();
                    EXPECT_TRUE(violations.empty()) << messages(violations);
                }
            }
        }
    }
}

TEST(CheckerPooling, both_readings_of_the_reciprocal_pass) {
    SampleProgram program = sample(sample_pooling(average));
    EXPECT_TRUE(program.set(0x6038, 65536 / 3).set(0x603c, 65536 / 2).check().empty()) << messages(program.check());
    EXPECT_TRUE(says(program.set(0x603c, 65536 / 3).check(), "RECIP_KERNEL_HEIGHT is 0x5555; for a window of 2"));
}

TEST(CheckerPooling, a_copy_of_one_pixel_passes_in_any_format_as_the_vendors_barrier_has_it) {
    PoolingShape shape{.width = 1, .height = 1, .channels = 32, .window_width = 1, .window_height = 1, .stride_x = 1};
    shape.pad_left = shape.pad_bottom = 0;
    SampleProgram program = sample(sample_pooling(shape));
    EXPECT_TRUE(program.set(0x6084, 0).set(0x7030, 0).check().empty()) << messages(program.check());
}

TEST(CheckerPooling, input_and_output_end_exactly_where_their_last_surface_ends) {
    const PoolingShape shape{.width = 10,
                             .height = 6,
                             .channels = 20,
                             .window_width = 2,
                             .window_height = 2,
                             .stride_x = 2,
                             .stride_y = 2,
                             .pad_left = 0,
                             .pad_right = 0,
                             .pad_top = 0,
                             .pad_bottom = 0};
    SampleProgram program = sample(sample_pooling(shape));
    program.set(0x7024, 16 * 13).set(0x7028, 16 * 100).set(0x6024, 2 << 16 | 0x11).set(0x607c, 16 * 40);
    std::uint64_t input_end = 0;
    std::uint64_t output_end = 0;
    for (std::uint64_t surface = 0; surface < 3; ++surface) {  // 20 channels of eight
        for (std::uint64_t h = 0; h < 6; ++h) {
            input_end = std::max<std::uint64_t>(input_end, surface * 1600 + h * 16 * 13 + 16 * 10);
        }
        for (std::uint64_t h = 0; h < 3; ++h) {
            output_end = std::max<std::uint64_t>(output_end, surface * 640 + 16 * (h * (5 + 2) + 5));
        }
    }
    program.buffers = {{shape.input_address, input_end, false},
                       {shape.output_address, output_end, true},
                       {sample_iova, 0x10000, false}};
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.buffers[0].bytes -= 16;
    EXPECT_TRUE(says(program.check(), "input pixels take 0x100000"));
    program.buffers[0].bytes += 16;
    program.buffers[1].bytes -= 16;
    EXPECT_TRUE(says(program.check(), "results take 0x1800000"));
}

const TaskCorruption corruptions[] = {
    {"data_from_the_dpu", sample_pooling(maximum), 0x6024, 0x01, hangs, "waits for data from the DPU"},
    {"an_unknown_method", sample_pooling(maximum), 0x6024, 0x13, unknown, "POOLING_METHOD 3"},
    {"an_index", sample_pooling(maximum), 0x6024, 0x40000011, unknown, "INDEX_EN is 1"},
    {"a_count", sample_pooling(maximum), 0x6024, 0x31, unknown, "USE_CNT is 1"},
    {"bytes_as_input", sample_pooling(maximum), 0x7030, 0, corrupts, "pooling works on fp16"},
    {"bytes_to_work_on", sample_pooling(maximum), 0x6084, 0, corrupts, "pooling works on fp16"},
    {"a_flying_input", sample_pooling(maximum), 0x6084, 0xa, unknown, "DPU_FLYIN is 1"},
    {"another_output_width", sample_pooling(maximum), 0x6018, 9, corrupts, "give a width of 6"},
    {"another_output_height", sample_pooling(maximum), 0x601c, 8, corrupts, "give a height of 8"},
    {"another_stride", sample_pooling(maximum), 0x6034, 0x00000102, corrupts, "give a width of 11", Severity::refuse,
     0x6018},
    {"padding_as_wide_as_the_window", sample_pooling(maximum), 0x6040, 0x1003, unknown, "whole windows"},
    {"another_channel_count_of_the_output", sample_pooling(maximum), 0x6020, 15, corrupts, "CUBE_OUT_CHANNEL is 15"},
    {"another_channel_count_of_the_reader", sample_pooling(maximum), 0x7014, 15, corrupts, "CUBE_IN_CHANNEL is 15"},
    {"another_width_of_the_reader", sample_pooling(maximum), 0x700c, 15, corrupts, "CUBE_IN_WIDTH is 15"},
    {"another_height_of_the_reader", sample_pooling(maximum), 0x7010, 15, corrupts, "CUBE_IN_HEIGHT is 15"},
    {"a_line_shorter_than_its_pixels", sample_pooling(maximum), 0x7024, 16 * 11, corrupts, "the next begins after 176"},
    {"overlapping_surfaces", sample_pooling(maximum), 0x607c, 16 * 47, corrupts, "overlapping output"},
    {"a_reciprocal_of_another_window", sample_pooling(average), 0x6038, 0x7800, corrupts, "for a window of 3"},
    {"an_input_that_is_not_aligned", sample_pooling(maximum), 0x701c, 0x00100004, corrupts, "no multiple of 16"},
    {"an_unaligned_writer", sample_pooling(maximum), 0x60dc, 0x83, unknown, "NONALIGN is 1"},
};

class CheckerPoolingRefuses : public testing::TestWithParam<TaskCorruption> {};

TEST_P(CheckerPoolingRefuses, one_corrupted_register) { expect_objection(GetParam(), program_of); }

INSTANTIATE_TEST_SUITE_P(Values, CheckerPoolingRefuses, testing::ValuesIn(corruptions),
                         [](const testing::TestParamInfo<TaskCorruption>& info) {
                             return std::string(info.param.name);
                         });

TEST(CheckerPooling, every_register_that_acts_must_be_written) {
    std::size_t refused = 0;
    const SampleTask task = sample_pooling(average);
    for (const Command& command : task.body) {
        const std::vector<Violation> violations = sample(task).erase(command.offset).check();
        refused += first_refusal(violations) != nullptr ? 1 : 0;
    }
    EXPECT_EQ(refused, task.body.size());
    // The value of padding and the reciprocals act in some tasks only.
    PoolingShape shape = maximum;
    shape.pad_left = shape.pad_bottom = 0;
    SampleProgram program = sample(sample_pooling(shape));
    program.erase(0x6044).erase(0x6048).erase(0x6038).erase(0x603c);
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

TEST(CheckerPooling, completes_with_its_own_interrupt_and_on_a_patched_mainline_driver_only) {
    SampleProgram program = sample(sample_pooling(maximum));
    program.input.interrupt_mask = interrupt_dpu;
    EXPECT_TRUE(says(program.check(), "a chain that ends in pooling completes with the PPU pair 0xc00"));
    program.input.mainline_driver = true;
    EXPECT_TRUE(says(program.check(), "completes on DPU interrupts only"));
    program.input.interrupt_mask = interrupt_ppu;
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

TEST(CheckerPooling, may_follow_a_matmul_in_a_chain) {
    PoolingShape shape = maximum;
    shape.output_address = 0x01900000;
    SampleProgram program(std::vector<SampleTask>{{sample_body({}), enable_convolution, {}}, sample_pooling(shape)});
    program.input.interrupt_mask = interrupt_ppu;
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

}  // namespace
}  // namespace npu::rockchip::test
