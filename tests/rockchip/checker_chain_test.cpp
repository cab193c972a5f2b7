// Rules about submissions, chains, tails and words.
#include "rockchip/sample_chain.h"

namespace npu::rockchip::test {
namespace {

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
        expect_refusal(program.check(), 0x0020, consequence::hangs, "completes with the DPU pair 0x300", 2);
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

TEST(CheckerChain, a_patched_mainline_driver_takes_chains) {
    SampleShape second = second_tile;
    second.rdma = true;
    SampleProgram program = SampleProgram({{.rdma = true}, second});
    program.input.mainline_driver = true;
    expect_refusal(program.check(), 0x0030, consequence::hangs, "follows no chain unless it is patched");
    program.input.batched = true;
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

TEST(CheckerTail, the_other_word_that_does_nothing_may_end_a_chain) {
    SampleProgram program = sample(first_tile);
    program.words[program.task().body.size()] = std::uint64_t{0x0001} << 48;
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
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

TEST(CheckerEnable, unknown_sets_of_blocks_and_blocks_that_the_body_does_not_program_are_refused) {
    SampleProgram program = sample(first_tile);
    const auto with = [&](std::uint32_t enable) {
        program.task().enable = enable;
        return program.assemble().check();
    };
    expect_refusal(with(0x18), 0x5004, consequence::corrupts, "not written in this task");
    expect_refusal(with(0x60), 0x6004, consequence::corrupts, "not written in this task");
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

}  // namespace
}  // namespace npu::rockchip::test
