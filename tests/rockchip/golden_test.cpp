// Every captured and every generated program for this chip, read back: the register table must know each word, the
// disassembler must print it, and the checker must pass it and say no more than what is stated here.
#include "rockchip/golden.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "rockchip/disassembler.h"
#include "rockchip/registers.h"
#include "rockchip/sample_program.h"

namespace npu::rockchip::test {
namespace {

struct Expected {
    Severity severity;
    std::uint16_t offset;
    const char* message;
};

// What the checker has to say about a golden program; nothing about those that are not listed.
const std::map<std::string, std::vector<Expected>> expected_violations{
    // Vendor tiles of one convolution: weights in a single bank, which hung elsewhere.
    {"conv1x1_f16_c64_h56w56_oc128_2tasks_weight_reuse",
     {{Severity::warn, 0x1040, "WEIGHT_BANK 1"}, {Severity::warn, 0x1040, "WEIGHT_BANK 1"}}},
    // First task of a longer chain, the rest of which was not kept.
    {"matmul_f16_f16_M8_K32_N64_native", {{Severity::warn, 0x0030, "TASK_NUMBER 1 ends the chain here"}}},
    {"matmul_i4_i16_M1_K64_N64_native_task0", {{Severity::warn, 0x0030, "TASK_NUMBER 1 ends the chain here"}}},
};

TEST(Golden, all_programs_of_this_chip_are_there) {
    NPU_REQUIRE_TEST_DATA(folder);
    const std::vector<Golden> goldens = load_goldens(*folder);
    EXPECT_GE(goldens.size(), 15U);
    std::set<std::string> formats;
    for (const Golden& golden : goldens) {
        formats.insert(golden.input);
        EXPECT_FALSE(golden.words.empty()) << golden.name;
    }
    EXPECT_EQ(formats, (std::set<std::string>{"fp16", "int4", "int8", "tf32"}));
}

TEST(Golden, every_word_decodes_and_encodes_to_itself) {
    NPU_REQUIRE_TEST_DATA(folder);
    for (const Golden& golden : load_goldens(*folder)) {
        for (const std::uint64_t word : golden.words) {
            EXPECT_EQ(encode(decode(word)), word) << golden.name;
        }
    }
}

TEST(Golden, decoded_words_agree_with_the_registers_spelt_out_beside_them) {
    NPU_REQUIRE_TEST_DATA(folder);
    for (const Golden& golden : load_goldens(*folder)) {
        for (const GoldenTask& task : golden.tasks) {
            ASSERT_EQ(task.words.size(), task.registers.size() + tail_words) << golden.name;
            for (std::size_t i = 0; i < task.registers.size(); ++i) {
                EXPECT_EQ(decode(task.words[i]), task.registers[i]) << golden.name << " word " << i;
            }
            EXPECT_TRUE(std::equal(task.tail.begin(), task.tail.end(), task.words.end() - tail_words)) << golden.name;
        }
    }
}

TEST(Golden, every_word_names_a_known_register_and_sets_only_known_fields) {
    NPU_REQUIRE_TEST_DATA(folder);
    for (const Golden& golden : load_goldens(*folder)) {
        const std::string text = disassemble(golden.words);
        for (const char* complaint : {"unknown", "outside every field", "does not own"}) {
            EXPECT_EQ(text.find(complaint), std::string::npos) << golden.name << "\n" << text;
        }
    }
}

TEST(Golden, streams_split_into_their_tasks_and_tails_chain_them) {
    NPU_REQUIRE_TEST_DATA(folder);
    for (const Golden& golden : load_goldens(*folder)) {
        const std::vector<TaskView> tasks = split_tasks(golden.words);
        ASSERT_EQ(tasks.size(), golden.tasks.size()) << golden.name;
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            EXPECT_TRUE(tasks[i].has_tail) << golden.name;
            EXPECT_EQ(tasks[i].body_words, golden.tasks[i].registers.size()) << golden.name;
            EXPECT_TRUE(tasks[i].enable == enable_convolution || tasks[i].enable == enable_convolution_rdma);
            if (i + 1 < tasks.size()) {
                EXPECT_TRUE(tasks[i].chained);
                EXPECT_EQ(tasks[i].next_address, golden.iova + 8 * tasks[i + 1].first) << golden.name;
                EXPECT_EQ(tasks[i].next_amount, fetch_amount(static_cast<std::uint32_t>(tasks[i + 1].words.size())));
            }
        }
    }
}

TEST(Golden, the_checker_passes_every_program_and_says_exactly_what_is_stated) {
    NPU_REQUIRE_TEST_DATA(folder);
    std::size_t stated = 0;
    for (const Golden& golden : load_goldens(*folder)) {
        const std::vector<CheckBuffer> buffers = golden.buffers();
        CheckInput input = golden.check_input();
        input.buffers = buffers;
        const std::vector<Violation> violations = check_program(input, rk3588());
        const auto found = expected_violations.find(golden.name);
        const std::vector<Expected> expected =
            found == expected_violations.end() ? std::vector<Expected>{} : found->second;
        stated += found == expected_violations.end() ? 0 : 1;
        EXPECT_EQ(first_refusal(violations), nullptr) << golden.name << "\n" << messages(violations);
        ASSERT_EQ(violations.size(), expected.size()) << golden.name << "\n" << messages(violations);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_EQ(violations[i].severity, expected[i].severity) << golden.name;
            EXPECT_EQ(violations[i].offset, expected[i].offset) << golden.name;
            EXPECT_NE(violations[i].message.find(expected[i].message), std::string::npos) << violations[i].message;
        }
    }
    EXPECT_EQ(stated, expected_violations.size()) << "the table names a program that is not there";
}

TEST(Golden, mainline_programs_pass_as_single_tasks_of_the_mainline_driver_and_vendor_programs_do_not) {
    NPU_REQUIRE_TEST_DATA(folder);
    for (const Golden& golden : load_goldens(*folder)) {
        if (golden.tasks.size() > 1 || expected_violations.contains(golden.name)) {
            continue;
        }
        CheckInput input = golden.check_input();
        input.mainline_driver = true;
        const std::vector<Violation> violations = check_program(input, rk3588());
        const bool mainline = golden.name.rfind("rocketgen", 0) == 0;
        EXPECT_EQ(first_refusal(violations) == nullptr, mainline) << golden.name << "\n" << messages(violations);
    }
}

// The extents that the checker derives are exact: sixteen bytes less at either end of any operand are too few.
TEST(Golden, one_atom_less_at_either_end_of_any_operand_is_a_dma_error) {
    NPU_REQUIRE_TEST_DATA(folder);
    for (const Golden& golden : load_goldens(*folder)) {
        const std::vector<CheckBuffer> exact = golden.buffers();
        for (std::size_t operand = 0; operand < exact.size(); ++operand) {
            if (operand == commands_buffer) {
                continue;
            }
            for (const bool front : {false, true}) {
                std::vector<CheckBuffer> buffers = exact;
                buffers[operand].iova += front ? 16 : 0;
                buffers[operand].bytes -= 16;
                CheckInput input = golden.check_input();
                input.buffers = buffers;
                const std::vector<Violation> violations = check_program(input, rk3588());
                // The added operand's first atom is read by MRDMA, its last by ERDMA.
                const std::uint16_t registers[] = {0x1070, 0x1110, 0x4020, 0, std::uint16_t(front ? 0x5018 : 0x5038)};
                const bool found = std::any_of(violations.begin(), violations.end(), [&](const Violation& violation) {
                    return violation.consequence == consequence::dma_error && violation.offset == registers[operand];
                });
                EXPECT_TRUE(found) << golden.name << " operand " << operand << "\n" << messages(violations);
            }
        }
    }
}

}  // namespace
}  // namespace npu::rockchip::test
