#include "rockchip/assembler.h"

#include <gtest/gtest.h>

#include <random>

#include "rockchip/command.h"
#include "rockchip/disassembler.h"
#include "rockchip/golden.h"
#include "rockchip/registers.h"

namespace npu::rockchip {
namespace {

using Words = std::vector<std::uint64_t>;

Words words_of(const char* line) {
    const Result<Words> words = assemble_line(line);
    EXPECT_TRUE(words.ok()) << line << ": " << (words ? "" : words.error().message);
    return words ? *words : Words{};
}

std::string error_of(const char* line) {
    const Result<Words> words = assemble_line(line);
    EXPECT_FALSE(words.ok()) << line;
    return words ? std::string() : words.error().message;
}

TEST(Assembler, takes_a_register_by_value_by_fields_or_by_both) {
    const Words expected{encode({target::cna, 0x1040, 0xb1})};
    EXPECT_EQ(words_of("CNA.CBUF_CON0 = 0xb1"), expected);
    EXPECT_EQ(words_of("CNA.CBUF_CON0=177"), expected);
    EXPECT_EQ(words_of("  cna.cbuf_con0   WEIGHT_BANK=11 data_bank = 1  "), expected);
    EXPECT_EQ(words_of("CNA.CBUF_CON0 = 0x000000b1  WEIGHT_BANK=11  DATA_BANK=1  # as printed"), expected);
    EXPECT_EQ(words_of("0x1040 = 0xb1 ; by offset"), expected);
    EXPECT_EQ(words_of("0x1040 DATA_BANK=0x1 WEIGHT_BANK=0xb"), expected);
}

TEST(Assembler, takes_negative_numbers_where_they_fit) {
    EXPECT_EQ(words_of("CNA.DMA_CON2 SURF_STRIDE=-3"), (Words{encode({target::cna, 0x1080, 0x0ffffffd})}));
    EXPECT_EQ(words_of("CNA.DMA_CON2 SURF_STRIDE=0xffffffd (-3)"), (Words{encode({target::cna, 0x1080, 0x0ffffffd})}));
    EXPECT_EQ(words_of("DPU.OUT_CVT_OFFSET = -128"), (Words{encode({target::dpu, 0x4080, 0xffffff80})}));
    EXPECT_NE(error_of("DPU.OUT_CVT_OFFSET = -2147483649").find("beyond 32 bits"), std::string::npos);
    EXPECT_EQ(words_of("DPU.OUT_CVT_OFFSET = -2147483648"), (Words{encode({target::dpu, 0x4080, 0x80000000})}));
}

TEST(Assembler, takes_the_words_of_a_tail) {
    EXPECT_EQ(words_of("next 0x1000 amount 55"),
              (Words{encode({target::pc, 0x0010, 0x1000}), encode({target::pc, 0x0014, 55})}));
    EXPECT_EQ(words_of("last"), (Words{0, encode({target::pc, 0x0014, 0})}));
    EXPECT_EQ(words_of("separator"), (Words{encode({target::separator, 0, 0})}));
    EXPECT_EQ(words_of("enable 0x0d"), (Words{encode({target::enable, 8, 0x0d})}));
    EXPECT_EQ(words_of("Enable CNA core DPU"), (Words{encode({target::enable, 8, 0x0d})}));
    EXPECT_EQ(words_of("enable 0x1d: CNA CORE DPU DPU_RDMA"), (Words{encode({target::enable, 8, 0x1d})}));
    EXPECT_EQ(words_of("nop"), (Words{0}));
    EXPECT_EQ(words_of("padding"), (Words{0}));
    EXPECT_EQ(words_of(".word 0xffffffffffffffff"), (Words{~std::uint64_t{0}}));
}

TEST(Assembler, takes_empty_lines_and_comments_for_nothing) {
    for (const char* line : {"", "   \t", "# all of it", "  ; CNA.CBUF_CON0 = 1", "\r"}) {
        EXPECT_TRUE(words_of(line).empty()) << line;
    }
}

TEST(Assembler, answers_an_unknown_name_with_the_nearest) {
    EXPECT_NE(error_of("CNA.CBUF_CON = 1").find("'CNA.CBUF_CON'; the nearest register is CNA.CBUF_CON0"),
              std::string::npos);
    EXPECT_NE(error_of("DST_BASE_ADR = 1").find("the nearest register is"), std::string::npos);
    EXPECT_NE(error_of("SURFACE_ADD = 1").find("the nearest register is DPU.SURFACE_ADD"), std::string::npos);
    EXPECT_NE(error_of("cna.dmacon1 = 1").find("the nearest register is CNA.DMA_CON1"), std::string::npos);
    EXPECT_NE(error_of("CNA.CBUF_CON0 WEIGHTBANK=1").find("no field 'WEIGHTBANK'; the nearest is WEIGHT_BANK"),
              std::string::npos);
    EXPECT_NE(error_of("enable CMAC").find("'CMAC' names no block"), std::string::npos);
    EXPECT_NE(error_of("0x2010 = 1").find("no register is known at offset 0x2010"), std::string::npos);
}

TEST(Assembler, answers_a_value_that_does_not_fit_with_the_bound) {
    EXPECT_NE(
        error_of("CNA.CBUF_CON0 WEIGHT_BANK=16").find("WEIGHT_BANK of CNA.CBUF_CON0 holds 0 to 15 (bits 7:4); 16"),
        std::string::npos);
    EXPECT_NE(error_of("CNA.DATA_SIZE0 DATAIN_HEIGHT=2048").find("holds 0 to 2047 (bits 10:0)"), std::string::npos);
    EXPECT_NE(error_of("CNA.DMA_CON2 SURF_STRIDE=-134217729").find("does not fit"), std::string::npos);
    EXPECT_NE(error_of("CNA.CBUF_CON0 = 0x100000000").find("beyond 32 bits"), std::string::npos);
    EXPECT_NE(error_of("next 0x1008 amount 5").find("no multiple of 16"), std::string::npos);
    EXPECT_NE(error_of("next 0x1000 amount 65536").find("holds 0 to 65535"), std::string::npos);
    EXPECT_NE(error_of(".word 0x10000000000000000").find("at most 64 bits"), std::string::npos);
}

TEST(Assembler, refuses_contradictions_and_lines_that_say_too_little_or_too_much) {
    EXPECT_NE(error_of("CNA.CBUF_CON0 = 0xb1 WEIGHT_BANK=10").find("has 11 in WEIGHT_BANK, and the line says 10"),
              std::string::npos);
    EXPECT_NE(error_of("CNA.CBUF_CON0 DATA_BANK=1 DATA_BANK=1").find("given twice"), std::string::npos);
    EXPECT_NE(error_of("CNA.CBUF_CON0").find("without a value"), std::string::npos);
    EXPECT_NE(error_of("CNA.CBUF_CON0 = ").find("expected FIELD=VALUE"), std::string::npos);
    EXPECT_NE(error_of("CNA.CBUF_CON0 = x").find("'x' is no number; expected the value of CNA.CBUF_CON0"),
              std::string::npos);
    EXPECT_NE(error_of("CNA.CBUF_CON0 = 1 2").find("'2' after CNA.CBUF_CON0: expected FIELD=VALUE"), std::string::npos);
    EXPECT_NE(error_of("enable 0x0d: CNA").find("the line names other blocks"), std::string::npos);
    EXPECT_NE(error_of("enable").find("enable without blocks"), std::string::npos);
    EXPECT_NE(error_of("separator 1").find("takes nothing after it"), std::string::npos);
    EXPECT_NE(error_of("next 0x1000").find("expected: next ADDRESS amount AMOUNT"), std::string::npos);
    EXPECT_NE(error_of(".word").find("expected: .word"), std::string::npos);
    EXPECT_NE(error_of("GLOBAL.OPERATION_ENABLE = 1").find("written by the CPU only"), std::string::npos);
}

TEST(Assembler, every_register_that_commands_reach_assembles_by_name_and_every_field_by_its_bounds) {
    std::size_t fields = 0;
    for (const RegisterInfo& info : register_table()) {
        if (block_target(info.block) == target::none) {
            continue;
        }
        const std::string name = std::string(block_name(info.block)) + "." + info.name;
        EXPECT_EQ(words_of((name + " = 0xdeadbeef").c_str()),
                  (Words{encode({block_target(info.block), info.offset, 0xdeadbeef})}));
        for (const FieldInfo& field : info.fields) {
            const Field reader = field_of(info, field);
            const std::string line = name + " " + field.name + "=";
            EXPECT_EQ(words_of((line + std::to_string(reader.maximum())).c_str()),
                      (Words{encode({block_target(info.block), info.offset, reader.maximum() << field.low})}));
            EXPECT_NE(
                error_of((line + std::to_string(std::uint64_t{reader.maximum()} + 1)).c_str()).find("does not fit"),
                std::string::npos);
            ++fields;
        }
    }
    EXPECT_GT(fields, 400U);
}

// Words with known and unknown targets, registers of the table and others, and words that do nothing.
std::vector<std::uint64_t> any_words(std::size_t count) {
    std::mt19937_64 random(11);
    const std::uint16_t targets[] = {0,      0x0001, 0x0041, 0x0081, 0x0101, 0x0201,
                                     0x0401, 0x0801, 0x1001, 0x2001, 0x4001, 0x8001};
    const auto table = register_table();
    std::vector<std::uint64_t> words{0, std::uint64_t{1} << 48, ~std::uint64_t{0}};
    while (words.size() < count) {
        switch (random() % 4) {
            case 0: words.push_back(random()); break;
            case 1:
                words.push_back(encode({targets[random() % std::size(targets)], static_cast<std::uint16_t>(random()),
                                        static_cast<std::uint32_t>(random())}));
                break;
            case 2: {
                const RegisterInfo& info = table[random() % table.size()];
                words.push_back(encode(
                    {block_target(info.block), info.offset, static_cast<std::uint32_t>(random() >> random() % 64)}));
                break;
            }
            default:
                words.push_back(
                    encode({target::enable, 8, static_cast<std::uint32_t>(random() >> (32 + random() % 32))}));
        }
    }
    return words;
}

TEST(AssemblyText, assembles_to_the_same_word_whatever_the_word_is) {
    for (const std::uint64_t word : any_words(20000)) {
        const std::string text = assembly_text(word);
        EXPECT_EQ(words_of(text.c_str()), Words{word}) << text;
    }
}

// What the disassembler prints is an instruction for the same word, or none at all; never one for another word.
TEST(AssemblyText, the_disassemblers_text_never_assembles_to_another_word) {
    std::size_t same = 0;
    for (const std::uint64_t word : any_words(4000)) {
        for (const bool meaning : {false, true}) {
            const Result<Words> words = assemble_line(disassemble_word(word, meaning));
            if (words) {
                EXPECT_EQ(*words, Words{word}) << disassemble_word(word, meaning);
                ++same;
            }
        }
    }
    EXPECT_GT(same, 1000U);
}

TEST(AssemblyText, of_golden_programs_assembles_to_the_same_words) {
    NPU_REQUIRE_TEST_DATA(folder);
    for (const test::Golden& golden : test::load_goldens(*folder)) {
        Words words;
        for (const std::uint64_t word : golden.words) {
            const std::string text = assembly_text(word);
            EXPECT_EQ(text.find(".word"), std::string::npos) << golden.name << ": " << text;
            const Words part = words_of(text.c_str());
            words.insert(words.end(), part.begin(), part.end());
        }
        EXPECT_EQ(words, golden.words) << golden.name;
    }
}

TEST(Assembler, never_fails_on_random_text) {
    std::mt19937_64 random(12);
    const char* pieces[] = {"CNA.CBUF_CON0",
                            "=",
                            "0xb1",
                            " ",
                            "WEIGHT_BANK",
                            "next",
                            "amount",
                            ":",
                            "(",
                            ")",
                            "-",
                            "enable",
                            ".word",
                            "#",
                            "0x",
                            "\xff",
                            "DPU",
                            "last",
                            "\t",
                            "99999999999999999999"};
    std::size_t accepted = 0;
    for (int round = 0; round < 4000; ++round) {
        std::string line;
        for (std::uint64_t i = random() % 9; i > 0; --i) {
            line += pieces[random() % std::size(pieces)];
        }
        const Result<Words> words = assemble_line(line);
        accepted += words ? 1 : 0;
        EXPECT_TRUE(words || !words.error().message.empty());
    }
    EXPECT_GT(accepted, 50U);
}

}  // namespace
}  // namespace npu::rockchip
