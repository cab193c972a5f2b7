#include "rockchip/disassembler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "rockchip/command.h"
#include "rockchip/registers.h"
#include "rockchip/sample_program.h"

namespace npu::rockchip::test {
namespace {

TEST(Disassembler, prints_block_register_value_and_every_field_that_is_not_zero) {
    EXPECT_EQ(disassemble_word(encode({target::cna, 0x1040, 0xb1})),
              "CNA.CBUF_CON0 = 0x000000b1  WEIGHT_BANK=11  DATA_BANK=1");
    EXPECT_EQ(disassemble_word(encode({target::cna, 0x1020, 0x00010004})),
              "CNA.DATA_SIZE0 = 0x00010004  DATAIN_WIDTH=1  DATAIN_HEIGHT=4");
    EXPECT_EQ(disassemble_word(encode({target::dpu, 0x4020, 0xffff3000})), "DPU.DST_BASE_ADDR = 0xffff3000");
}

TEST(Disassembler, prints_the_signed_stride_as_a_number_too) {
    const std::string text = disassemble_word(encode({target::cna, 0x1080, 0x0ffffffd}));
    EXPECT_NE(text.find("SURF_STRIDE=0xffffffd (-3)"), std::string::npos) << text;
    EXPECT_EQ(disassemble_word(encode({target::cna, 0x1080, 4})).find('('), std::string::npos);
}

TEST(Disassembler, spells_out_tails_separators_enables_and_padding) {
    EXPECT_EQ(disassemble_word(0), "padding");
    EXPECT_EQ(disassemble_word(encode({target::separator, 0, 0})), "separator");
    EXPECT_EQ(disassemble_word(encode({target::enable, 8, 0x0d})), "enable 0x0d: CNA CORE DPU");
    EXPECT_EQ(disassemble_word(encode({target::enable, 8, 0x1d})), "enable 0x1d: CNA CORE DPU DPU_RDMA");
    EXPECT_EQ(disassemble_word(encode({target::enable, 8, 0x60})), "enable 0x60: PPU PPU_RDMA");
    EXPECT_EQ(disassemble_word(encode({target::enable, 8, 0x82})), "enable 0x82: unknown bits 0x82");
    EXPECT_NE(disassemble_word(encode({target::pc, 0x14, 0x37})).find("next task: 112 words"), std::string::npos);
    EXPECT_NE(disassemble_word(encode({target::pc, 0x14, 0})).find("last task"), std::string::npos);
}

TEST(Disassembler, says_so_when_target_register_or_bits_are_unknown) {
    EXPECT_EQ(disassemble_word(encode({0x0401, 0x2010, 7})), "unknown register 0x2010 of target 0x0401 = 0x00000007");
    EXPECT_NE(disassemble_word(encode({target::dpu, 0x1040, 0xb1})).find("target 0x1001 does not own CNA.CBUF_CON0"),
              std::string::npos);
    EXPECT_NE(disassemble_word(encode({target::cna, 0x1020, 0x00010800})).find("outside every field: 0x00000800"),
              std::string::npos);
    EXPECT_NE(disassemble_word(encode({target::separator, 4, 1})).find("separator with offset"), std::string::npos);
    EXPECT_NE(disassemble_word(encode({target::enable, 4, 1})).find("unknown offset"), std::string::npos);
}

TEST(Disassembler, adds_meanings_only_when_asked) {
    const std::uint64_t word = encode({target::cna, 0x1070, 0x1000});
    EXPECT_EQ(disassemble_word(word).find(';'), std::string::npos);
    EXPECT_NE(disassemble_word(word, true).find("; address of the features"), std::string::npos);
}

TEST(Disassembler, prints_one_numbered_line_per_word_with_the_word_in_hex) {
    SampleProgram program({SampleShape{}});
    const std::string text = disassemble(program.words, false, 100);
    EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), program.words.size());
    EXPECT_EQ(text.rfind("   100  0201000000b11040  CNA.CBUF_CON0", 0), 0U) << text.substr(0, 100);
}

TEST(Disassembler, never_fails_on_random_words) {
    std::mt19937_64 random(6);
    const std::uint16_t targets[] = {0, 0x0041, 0x0081, 0x0101, 0x0201, 0x0401, 0x0801, 0x1001, 0x2001, 0x4001, 0x8001};
    std::vector<std::uint64_t> words;
    for (int i = 0; i < 20000; ++i) {
        std::uint64_t word = random();
        if (i % 2 == 0) {  // a real target and a plausible offset
            word = encode({targets[random() % std::size(targets)], static_cast<std::uint16_t>(random() % 0xa000 & ~3U),
                           static_cast<std::uint32_t>(random())});
        }
        words.push_back(word);
    }
    const std::string text = disassemble(words, true);
    EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), words.size());
    std::size_t covered = 0;
    for (const TaskView& task : split_tasks(words)) {
        covered += task.words.size();
        EXPECT_LE(task.body_words, task.words.size());
    }
    EXPECT_LE(covered, words.size());
}

TEST(SplitTasks, finds_every_task_its_body_and_where_its_tail_leads) {
    SampleProgram program({SampleShape{}, SampleShape{.m = 4}, SampleShape{.m = 2, .rdma = true}});
    const std::vector<TaskView> tasks = split_tasks(program.words);
    ASSERT_EQ(tasks.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(tasks[i].first, program.starts[i]);
        EXPECT_EQ(tasks[i].body_words, program.task(i).body.size());
        EXPECT_TRUE(tasks[i].has_tail);
        EXPECT_EQ(tasks[i].chained, i < 2);
    }
    EXPECT_EQ(tasks[0].next_address, sample_iova + 8 * program.starts[1]);
    EXPECT_EQ(tasks[1].next_amount, fetch_amount(static_cast<std::uint32_t>(tasks[2].words.size())));
    EXPECT_EQ(tasks[2].enable, enable_convolution_rdma);
}

TEST(SplitTasks, keeps_a_stream_without_enable_as_a_task_without_tail) {
    const std::uint64_t words[] = {0, encode({target::cna, 0x1040, 0xb1}), 0, 0};
    const std::vector<TaskView> tasks = split_tasks(words);
    ASSERT_EQ(tasks.size(), 1U);
    EXPECT_EQ(tasks[0].first, 1U);
    EXPECT_EQ(tasks[0].words.size(), 1U);
    EXPECT_FALSE(tasks[0].has_tail);
    EXPECT_EQ(tasks[0].enable, 0U);
    EXPECT_TRUE(split_tasks({}).empty());
}

TEST(SplitTasks, an_enable_word_with_a_broken_tail_still_ends_a_task) {
    const std::uint64_t words[] = {encode({target::cna, 0x1040, 0xb1}), encode({target::enable, 8, 0x0d})};
    const std::vector<TaskView> tasks = split_tasks(words);
    ASSERT_EQ(tasks.size(), 1U);
    EXPECT_FALSE(tasks[0].has_tail);
    EXPECT_EQ(tasks[0].body_words, 2U);
    EXPECT_EQ(tasks[0].enable, 0x0dU);
}

}  // namespace
}  // namespace npu::rockchip::test
