// What one task leaves for the next: register groups, and the contents of the on-chip buffer.
#include <algorithm>

#include "rockchip/sample_chain.h"

namespace npu::rockchip::test {
namespace {

// Register groups: a task inherits from the task two positions earlier.
SampleTask incremental(const SampleShape& shape) {
    SampleTask task;
    for (const Command& command : sample_body(shape)) {
        for (const std::uint16_t offset : {0x4004, 0x1070, 0x1110, 0x4020}) {
            if (command.offset == offset) {
                task.body.push_back(command);
            }
        }
    }
    return task;
}

TEST(CheckerGroups, a_short_task_after_two_full_ones_inherits_and_passes) {
    SampleProgram program = chain();
    program.task(2) = incremental(third_tile);
    EXPECT_TRUE(program.assemble().check().empty()) << messages(program.check());
}

TEST(CheckerGroups, a_short_task_after_one_full_one_uses_a_group_that_nobody_wrote) {
    SampleProgram program = SampleProgram({first_tile, second_tile});
    program.task(1) = incremental(second_tile);
    expect_refusal(program.assemble().check(), 0x100c, consequence::corrupts, "the previous client left", 1);
}

TEST(CheckerGroups, what_a_short_task_inherits_is_checked_too) {
    SampleProgram program = chain();
    program.task(2) = incremental(third_tile);
    program.set(0x1040, 0x2b, 0);  // too many banks in the first task: the third inherits them
    program.set(0x1040, 0xc1, 0);
    const std::vector<Violation> violations = program.check();
    expect_refusal(violations, 0x1040, consequence::hangs, "bank overflow", 0);
    EXPECT_EQ(std::count_if(violations.begin(), violations.end(),
                            [](const Violation& violation) { return violation.offset == 0x1040; }),
              2);
    EXPECT_EQ(violations.back().task, 2U);
}

TEST(CheckerGroups, dpu_rdma_toggles_only_when_it_fires) {
    SampleShape with = first_tile;
    with.rdma = true;
    SampleShape third = third_tile;
    third.rdma = true;
    SampleProgram program = SampleProgram({with, second_tile, third});
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    // Fired for the second time, DPU_RDMA is in its second group, though the other blocks are back in the first.
    std::erase_if(program.task(2).body,
                  [](const Command& c) { return c.target == target::dpu_rdma && c.offset != 0x5004; });
    expect_refusal(program.assemble().check(), 0x5044, consequence::corrupts, "the previous client left", 2);
}

// The mainline driver starts every task by itself: its registers do not outlast a start, the on-chip buffer does.
TEST(CheckerJobs, tasks_started_one_by_one_inherit_no_registers) {
    std::vector<SampleShape> shapes{first_tile, second_tile, third_tile};
    for (SampleShape& shape : shapes) {
        shape.rdma = true;
    }
    SampleProgram program(shapes);
    const auto alone = [&] {
        static std::vector<CheckTask> more;
        more.clear();
        for (std::size_t i = 1; i < shapes.size(); ++i) {
            more.push_back({program.starts[i], static_cast<std::uint32_t>(program.task(i).body.size())});
        }
        program.input.task_number = 1;
        program.input.mainline_driver = true;
        program.input.more_tasks = more;
        return program.check();
    };
    EXPECT_TRUE(alone().empty()) << messages(program.check());
    program.set(0x1040, 0x20b1, 1);  // the same weights as the task before
    EXPECT_TRUE(alone().empty()) << messages(program.check());
    program.set(0x1110, 0x00900000, 0);
    expect_refusal(alone(), 0x1040, consequence::corrupts, "the task before it used other weights", 1);
    program.set(0x1110, 0x00800000, 0);
    program.task(2) = incremental(third_tile);
    program.task(2).enable = enable_convolution_rdma;
    program.assemble();
    expect_refusal(alone(), 0x100c, consequence::corrupts, "the previous client left", 2);
}

// Reuse of what is in the on-chip buffer.
TEST(CheckerReuse, weights_stay_for_the_next_task_that_uses_the_same_ones) {
    SampleProgram program = SampleProgram({first_tile, second_tile});
    program.set(0x1040, 0x20b1, 1);
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

TEST(CheckerReuse, weights_of_another_address_size_split_or_format_are_refused) {
    SampleShape other = second_tile;
    other.weight_address += 0x10000;
    SampleProgram program = SampleProgram({first_tile, other});
    program.set(0x1040, 0x20b1, 1);
    expect_refusal(program.check(), 0x1040, consequence::corrupts, "the task before it used other weights", 1);
    other = second_tile;
    other.n = 64;
    program = SampleProgram({first_tile, other});
    program.set(0x1040, 0x20b1, 1);
    expect_refusal(program.check(), 0x1040, consequence::corrupts, "the task before it used other weights", 1);
    program = SampleProgram({first_tile, second_tile});
    program.set(0x1040, 0x20a2, 1);
    expect_refusal(program.check(), 0x1040, consequence::corrupts, "another bank split", 1);
}

TEST(CheckerReuse, weights_that_streamed_through_are_not_resident) {
    SampleShape first = first_tile;
    first.n = 512;
    first.k = 1024;  // 1 MiB
    SampleShape second = first;
    second.output_address = second_tile.output_address;
    SampleProgram program = SampleProgram({first, second});
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.set(0x1040, 0x20b1, 1);
    expect_refusal(program.check(), 0x1040, consequence::corrupts, "do not stay in 11 banks", 1);
}

TEST(CheckerReuse, features_stay_for_the_next_task_that_uses_the_same_ones) {
    SampleShape other_weights = second_tile;
    other_weights.weight_address += 0x10000;
    SampleProgram program = SampleProgram({first_tile, other_weights});
    program.set(0x1040, 0x10b1, 1);
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.set(0x1070, first_tile.feature_address + 0x100, 1);
    expect_refusal(program.check(), 0x1040, consequence::corrupts, "the task before it used other features", 1);
}

TEST(CheckerModes, a_change_of_precision_inside_a_chain_is_warned_about) {
    SampleShape integer = second_tile;
    integer.input = Precision::int8;
    integer.output = Precision::int32;
    const std::vector<Violation> violations = SampleProgram({first_tile, integer}).check();
    expect_violation(violations, Severity::warn, 0x100c, consequence::hangs, "changes from fp16 to int8", 1);
    EXPECT_EQ(first_refusal(violations), nullptr) << messages(violations);
}

}  // namespace
}  // namespace npu::rockchip::test
