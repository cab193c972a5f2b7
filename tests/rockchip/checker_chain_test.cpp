// Rules about submissions, chains, tails, words and register groups.
#include <gtest/gtest.h>

#include <random>

#include "rockchip/sample_program.h"

namespace npu::rockchip::test {
namespace {

const SampleShape first_tile{.output_address = 0x01800000};
const SampleShape second_tile{.output_address = 0x01900000};
const SampleShape third_tile{.output_address = 0x01a00000};

// The one violation at `offset` whose message has `message` in it; fails the test when there is none.
void expect_violation(const std::vector<Violation>& violations, Severity severity, std::uint16_t offset,
                      const char* consequence, const char* message, std::size_t task = 0) {
    for (const Violation& violation : violations) {
        if (violation.offset == offset && violation.message.find(message) != std::string::npos) {
            EXPECT_EQ(violation.severity, severity) << violation.message;
            EXPECT_STREQ(violation.consequence, consequence) << violation.message;
            EXPECT_EQ(violation.task, task) << violation.message;
            return;
        }
    }
    ADD_FAILURE() << "nothing says '" << message << "' about register " << std::hex << offset << ":\n"
                  << messages(violations);
}

void expect_refusal(const std::vector<Violation>& violations, std::uint16_t offset, const char* consequence,
                    const char* message, std::size_t task = 0) {
    expect_violation(violations, Severity::refuse, offset, consequence, message, task);
}

SampleProgram chain() { return SampleProgram({first_tile, second_tile, third_tile}); }

TEST(CheckerChain, a_sound_chain_of_three_tasks_passes) {
    SampleProgram program = chain();
    const std::vector<Violation> violations = program.check();
    EXPECT_TRUE(violations.empty()) << messages(violations);
}

TEST(CheckerChain, task_number_zero_or_beyond_the_counter_is_refused) {
    SampleProgram program = chain();
    program.input.task_number = 0;
    expect_refusal(program.check(), 0x0030, consequence::hangs, "TASK_NUMBER is 0");
    program.input.task_number = 4096;
    expect_refusal(program.check(), 0x0030, consequence::hangs, "TASK_NUMBER 4096 exceeds 4095");
}

TEST(CheckerChain, a_chain_shorter_than_task_number_never_completes) {
    SampleProgram program = chain();
    program.input.task_number = 4;
    expect_refusal(program.check(), 0x0030, consequence::hangs, "TASK_NUMBER is 4, but the chain ends after 3", 2);
}

TEST(CheckerChain, a_chain_longer_than_task_number_is_warned_about) {
    SampleProgram program = chain();
    program.input.task_number = 2;
    const std::vector<Violation> violations = program.check();
    expect_violation(violations, Severity::warn, 0x0030, consequence::corrupts, "TASK_NUMBER 2 ends the chain here", 1);
    EXPECT_EQ(first_refusal(violations), nullptr);
}

TEST(CheckerChain, an_interrupt_mask_that_is_not_whole_pairs_or_of_another_block_is_refused) {
    SampleProgram program = chain();
    for (const std::uint32_t mask : {0U, 0x100U, 0x200U, 0x301U, 0xffffU, 0x1ffffU}) {
        program.input.interrupt_mask = mask;
        expect_refusal(program.check(), 0x0020, consequence::hangs, "not whole pairs");
    }
    for (const std::uint32_t mask : {0xc00U, 0x3U, 0xf00U}) {
        program.input.interrupt_mask = mask;
        expect_refusal(program.check(), 0x0020, consequence::hangs, "completes with the DPU pair 0x300");
    }
}

TEST(CheckerChain, an_empty_program_is_refused) {
    SampleProgram program = chain();
    program.input.body_words = 0;
    expect_refusal(program.check(), 0x0014, consequence::hangs, "no commands");
    EXPECT_NE(first_refusal(check_program(CheckInput{}, rk3588())), nullptr);
}

TEST(CheckerChain, the_mainline_driver_takes_one_task_at_a_time_with_dpu_rdma) {
    SampleProgram program = chain();
    program.input.mainline_driver = true;
    expect_refusal(program.check(), 0x0030, consequence::hangs, "follows no chain");
    SampleProgram plain = sample(first_tile);
    plain.input.mainline_driver = true;
    expect_refusal(plain.check(), 0x0008, consequence::hangs, "needs DPU_RDMA programmed");
    SampleProgram with_rdma = sample({.rdma = true});
    with_rdma.input.mainline_driver = true;
    EXPECT_TRUE(with_rdma.check().empty());
}

TEST(CheckerTail, a_missing_separator_is_refused) {
    SampleProgram program = chain();
    program.words[program.task(0).body.size() + 2] = 0;
    expect_refusal(program.check(), 0x0000, consequence::hangs, "the word before enable must be the separator");
}

TEST(CheckerTail, words_of_the_tail_in_another_order_are_refused) {
    SampleProgram program = chain();
    const std::size_t tail = program.task(0).body.size();
    std::swap(program.words[tail], program.words[tail + 1]);
    expect_refusal(program.check(), 0x0010, consequence::hangs, "second word must write PC.REGISTER_AMOUNTS");
    program.assemble();
    program.words[tail] = encode({target::cna, 0x1040, 0xb1});
    expect_refusal(program.check(), 0x1040, consequence::hangs, "first word must write PC.BASE_ADDRESS or be zero");
    program.assemble();
    program.words[tail + 3] = encode({target::enable, 0x000c, 0x0d});
    expect_refusal(program.check(), 0x000c, consequence::hangs, "must have offset 0x0008");
}

TEST(CheckerTail, an_amount_that_is_too_small_never_fetches_the_enable_word) {
    SampleProgram program = chain();
    const std::size_t amount = program.task(0).body.size() + 1;
    program.words[amount] = encode({target::pc, 0x0014, decode(program.words[amount]).value - 1});
    expect_refusal(program.check(), 0x0014, consequence::hangs, "the amount is too small", 1);
    program.assemble();
    program.input.body_words -= 2;
    expect_refusal(program.check(), 0x0014, consequence::hangs, "the amount is too small");
}

TEST(CheckerTail, an_amount_that_reaches_past_the_commands_is_refused) {
    SampleProgram program = chain();
    const std::size_t amount = program.starts[1] + program.task(1).body.size() + 1;
    program.words[amount] = encode({target::pc, 0x0014, decode(program.words[amount]).value + 8});
    expect_refusal(program.check(), 0x0010, consequence::dma_error, "words, 112 are there", 2);
}

TEST(CheckerTail, an_amount_that_reaches_into_the_next_task_is_refused_or_warned_about) {
    SampleProgram program = chain();
    program.input.body_words += 112;
    expect_refusal(program.check(), 0x0008, consequence::not_understood, "a second enable word inside one fetch");
    program.input.body_words -= 100;
    const std::vector<Violation> violations = program.check();
    expect_violation(violations, Severity::warn, 0x1040, consequence::corrupts, "fetched after the enable word");
}

TEST(CheckerTail, padding_fetched_after_the_enable_word_is_harmless) {
    SampleProgram program = chain();
    program.task(0).after.assign(12, 0);
    program.assemble();
    program.input.body_words += 8;
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

TEST(CheckerTail, a_next_address_that_is_unaligned_or_outside_the_commands_is_refused) {
    SampleProgram program = chain();
    const std::size_t tail = program.task(0).body.size();
    const std::uint32_t address = decode(program.words[tail]).value;
    program.words[tail] = encode({target::pc, 0x0010, address + 8});
    expect_refusal(program.check(), 0x0010, consequence::hangs, "no multiple of 16", 1);
    program.words[tail] = encode({target::pc, 0x0010, 0x00100000});
    expect_refusal(program.check(), 0x0010, consequence::dma_error, "outside the command words", 1);
}

TEST(CheckerTail, the_co_work_bits_of_the_amount_are_not_understood) {
    SampleProgram program = chain();
    const std::size_t amount = program.task(0).body.size() + 1;
    program.words[amount] |= std::uint64_t{1} << 32;
    expect_refusal(program.check(), 0x0014, consequence::not_understood, "multi-core co-work");
}

TEST(CheckerTail, a_chain_may_begin_anywhere_in_the_commands) {
    SampleProgram program = chain();
    program.input.first_word = program.starts[1];
    program.input.task_number = 2;
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

TEST(CheckerTail, commands_outside_the_jobs_buffers_are_refused) {
    SampleProgram program = chain();
    program.buffers.pop_back();
    expect_refusal(program.check(), 0x0010, consequence::dma_error, "lies in no single buffer");
}

TEST(CheckerEnable, sets_of_blocks_other_than_matmul_are_refused) {
    SampleProgram program = sample(first_tile);
    const auto with = [&](std::uint32_t enable) {
        program.task().enable = enable;
        return program.assemble().check();
    };
    expect_refusal(with(0x18), 0x0008, consequence::not_understood, "stand-alone element-wise");
    expect_refusal(with(0x60), 0x0008, consequence::not_understood, "stand-alone pooling");
    expect_refusal(with(0), 0x0008, consequence::hangs, "fires no block");
    expect_refusal(with(0x0c), 0x0008, consequence::not_understood, "not a known set of blocks");
    expect_refusal(with(0x8d), 0x0008, consequence::not_understood, "not a known set of blocks");
}

TEST(CheckerEnable, firing_dpu_rdma_without_programming_it_is_refused) {
    SampleProgram program = sample(first_tile);
    program.task().enable = 0x1d;
    const std::vector<Violation> violations = program.assemble().check();
    expect_refusal(violations, 0x5004, consequence::corrupts, "not written in this task");
    expect_refusal(violations, 0x5044, consequence::corrupts, "not written in this chain");
}

TEST(CheckerWords, writes_that_a_command_list_must_not_make_are_refused) {
    const struct {
        Command command;
        const char* consequence;
        const char* message;
    } cases[] = {
        {{target::cna, 0x1004, 0xe}, consequence::hangs, "the kernel driver writes this pointer"},
        {{target::core, 0x3004, 0xe}, consequence::hangs, "the kernel driver writes this pointer"},
        {{target::cna, 0x1008, 1}, consequence::not_understood, "fired by the enable word"},
        {{target::dpu, 0x4000, 0}, consequence::not_understood, "read-only"},
        {{target::pc, 0x0010, 0x02000000}, consequence::hangs, "only the tail may redirect the PC"},
        {{target::pc, 0x0020, 0x300}, consequence::hangs, "only the tail may redirect the PC"},
        {{target::separator, 0, 0}, consequence::hangs, "separator word inside a body"},
        {{0x0401, 0x2010, 1}, consequence::not_understood, "target 0x0401 has no such register"},
        {{target::cna, 0x1200, 1}, consequence::not_understood, "target 0x0201 has no such register"},
        {{target::dpu, 0x1040, 0xb1}, consequence::not_understood, "its block is reached by 0x0201"},
        {{target::none, 0xf008, 0x0d}, consequence::not_understood, "does not own this register"},
        {{target::ppu, 0x600c, 1}, consequence::not_understood, "pooling"},
    };
    for (const auto& entry : cases) {
        SampleProgram program = sample(first_tile);
        program.task().body.push_back(entry.command);
        expect_refusal(program.assemble().check(), entry.command.offset, entry.consequence, entry.message);
    }
}

TEST(CheckerWords, zero_words_in_a_body_are_padding) {
    SampleProgram program = sample(first_tile);
    program.task().body.insert(program.task().body.begin() + 7, 3, Command{});
    EXPECT_TRUE(program.assemble().check().empty());
}

TEST(CheckerWords, the_output_pointer_must_come_before_the_blocks_other_writes) {
    SampleProgram program = sample(first_tile);
    program.task().body.insert(program.task().body.begin(), Command{target::dpu, 0x4014, 0});
    expect_refusal(program.assemble().check(), 0x4004, consequence::not_understood,
                   "armed before the block's other writes");
}

TEST(CheckerWords, the_output_pointer_must_be_armed_in_every_task) {
    SampleProgram program = chain();
    program.erase(0x4004, 2);
    expect_refusal(program.check(), 0x4004, consequence::corrupts, "not written in this task", 2);
}

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

TEST(Checker, keeps_a_bounded_number_of_violations_and_never_loses_the_first_refusal) {
    std::vector<SampleShape> shapes;
    for (std::uint32_t i = 0; i < 600; ++i) {
        shapes.push_back({.output_address = 0x01800000 + i * 0x1000});
    }
    SampleProgram program(shapes);
    EXPECT_TRUE(program.check().empty());
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        for (Command& command : program.task(i).body) {
            command.value = command.offset == 0x1040 ? 0x1b : command.value;  // a warning each
        }
    }
    program.set(0x301c, 1, 599);
    const std::vector<Violation> violations = program.check();
    EXPECT_EQ(violations.size(), violation_limit + 1);
    const Violation* refusal = first_refusal(violations);
    ASSERT_NE(refusal, nullptr);
    EXPECT_EQ(refusal->task, 599U);
}

TEST(Checker, never_fails_on_random_words_or_random_changes) {
    std::mt19937_64 random(7);
    for (int round = 0; round < 3000; ++round) {
        SampleProgram program = chain();
        for (int change = 0; change < 4; ++change) {
            std::uint64_t& word = program.words[random() % program.words.size()];
            switch (random() % 4) {
                case 0: word = random(); break;
                case 1: word ^= std::uint64_t{1} << (random() % 64); break;
                case 2: word = 0; break;
                default: word = program.words[random() % program.words.size()]; break;
            }
        }
        program.input.body_words += static_cast<std::uint32_t>(random() % 8 == 0 ? random() : 0);
        program.input.words_iova += random() % 8 == 0 ? random() % 0x100000000 : 0;
        program.input.task_number += static_cast<std::uint32_t>(random() % 3);
        for (const Violation& violation : program.check()) {
            EXPECT_FALSE(violation.message.empty());
            EXPECT_STRNE(violation.consequence, "");
        }
    }
}

}  // namespace
}  // namespace npu::rockchip::test
