// The file formats: what each looks like, how it is told from the others, and what is said about a bad one.
#include <gtest/gtest.h>

#include <random>

#include "program_file.h"
#include "rockchip/command.h"
#include "tools/run_command.h"

namespace npu::tools {
namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::uint64_t banks = 0x0201000000b11040;  // CNA.CBUF_CON0 = 0xb1
constexpr std::uint64_t fire = 0x00810000000d0008;   // enable 0x0d

Words words_of(const std::string& bytes, std::optional<ProgramFormat> format = std::nullopt) {
    const Result<Program> program = parse_program("file", bytes, format);
    EXPECT_TRUE(program.ok()) << bytes << "\n" << (program ? "" : program.error().message);
    return program ? program->words : Words{};
}

std::string error_of(const std::string& bytes, std::optional<ProgramFormat> format = std::nullopt) {
    const Result<Program> program = parse_program("file", bytes, format);
    EXPECT_FALSE(program.ok()) << bytes;
    return program ? std::string() : program.error().message;
}

TEST(Formats, have_names_that_lead_back_to_them) {
    for (const char* name : {"raw", "hex", "hex32", "dump", "json", "asm"}) {
        ASSERT_TRUE(format_from_name(name).has_value()) << name;
        EXPECT_STREQ(format_name(*format_from_name(name)), name);
    }
    EXPECT_FALSE(format_from_name("").has_value());
    EXPECT_FALSE(format_from_name("elf").has_value());
}

TEST(Formats, raw_words_are_little_endian) {
    const std::string bytes("\x40\x10\xb1\x00\x00\x00\x01\x02\x08\x00\x0d\x00\x00\x00\x81\x00", 16);
    EXPECT_EQ(detect_format(bytes), ProgramFormat::raw);
    EXPECT_EQ(words_of(bytes), (Words{banks, fire}));
    EXPECT_NE(error_of(bytes.substr(0, 13)).find("file: 13 bytes are no whole number of 64-bit words"),
              std::string::npos);
}

TEST(Formats, hexadecimal_words_come_with_and_without_prefix_commas_and_comments) {
    const std::string text = "# two words\n0201000000b11040, 0x00810000000d0008 ; second\r\n\n0x0 // third\n";
    EXPECT_EQ(detect_format(text), ProgramFormat::hex);
    EXPECT_EQ(words_of(text), (Words{banks, fire, 0}));
    EXPECT_NE(
        error_of("0201000000b11040\n\n0201000000b1104\n", ProgramFormat::hex).find("file:3: '0201000000b1104' is"),
        std::string::npos);
    EXPECT_NE(error_of("0x0201000000b110400", ProgramFormat::hex).find("expected 16 hexadecimal digits, or 0x and at"),
              std::string::npos);
}

TEST(Formats, pairs_of_32_bit_words_have_the_low_half_first) {
    for (const std::string text :
         {"00b11040 02010000\n000d0008 00810000\n", "0x00b11040, 0x02010000,\n0xd0008 0x810000"}) {
        EXPECT_EQ(detect_format(text), ProgramFormat::hex32) << text;
        EXPECT_EQ(words_of(text), (Words{banks, fire}));
    }
    EXPECT_NE(error_of("00b11040 02010000\n000d0008\n").find("file:2: a 32-bit word without its partner"),
              std::string::npos);
    EXPECT_NE(error_of("00b11040 0201\n", ProgramFormat::hex32).find("'0201' is no 32-bit word"), std::string::npos);
}

TEST(Formats, a_dump_gives_its_words_whatever_its_indices_are) {
    const std::string text =
        "# task 0\n     6  0201000000b11040  CNA.CBUF_CON0 = 0x000000b1  WEIGHT_BANK=11  DATA_BANK=1  ; banks\n"
        "   111  00810000000d0008  enable 0x0d: CNA CORE DPU\n 7 ffff000000000000 whatever this was\n8 "
        "0000000000000000\n";
    EXPECT_EQ(detect_format(text), ProgramFormat::dump);
    EXPECT_EQ(words_of(text), (Words{banks, fire, 0xffff000000000000, 0}));
    EXPECT_NE(
        error_of("0  0201000000b11040  nop\nCNA.CBUF_CON0 = 1\n", ProgramFormat::dump).find("file:1: the word is"),
        std::string::npos);
    EXPECT_NE(error_of("0  0201000000b11040\nCNA.CBUF_CON0 = 1\n").find("file:2: expected an index, a word"),
              std::string::npos);
}

TEST(Formats, a_dump_whose_meaning_was_edited_and_whose_word_was_not_is_refused) {
    const char* line = "0  0201000000b11040  CNA.CBUF_CON0 = 0x000000a2\n";
    EXPECT_NE(error_of(line).find("the word is 0201000000b11040, but its meaning is that of 0201000000a21040"),
              std::string::npos);
    const char* appended = "0  0201000000b01040  CNA.CBUF_CON0 = 0x000000b0  WEIGHT_BANK=11  DATA_BANK=1\n";
    EXPECT_EQ(words_of(appended), (Words{0x0201000000b01040}));  // contradicts itself: no instruction, so a remark
}

TEST(Formats, json_holds_words_in_a_list_in_tasks_or_in_programs) {
    EXPECT_EQ(words_of(R"({"words": ["0x0201000000b11040", "00810000000d0008", 0]})"), (Words{banks, fire, 0}));
    EXPECT_EQ(words_of(R"(["0x0201000000b11040", 36310271996526600])"), (Words{banks, fire}));
    EXPECT_EQ(words_of(R"({"tasks": [{"words": ["0x0201000000b11040"]}, {"words": ["0x00810000000d0008"]}]})"),
              (Words{banks, fire}));
    EXPECT_EQ(words_of(R"({"soc": "RV1103", "programs": [{"offset": 0, "words": ["0x0"]}]})"), Words{0});
    EXPECT_EQ(parse_program("f", R"({"soc": "RV1103", "programs": [{"words": ["0x0"]}]})", std::nullopt)->chip,
              "RV1103");
    EXPECT_EQ(words_of(R"({"words": [{"index": 0, "word": "0x0201000000b11040", "block": "CNA"}]})"), Words{banks});
}

TEST(Formats, json_that_is_none_or_holds_no_program_is_refused_with_the_place) {
    EXPECT_NE(error_of("{\n\"words\": [\n1,\n}").find("file:4: no JSON here"), std::string::npos);
    EXPECT_NE(error_of(R"({"words": ["0x1", "xyz"]})").find("file: words[1] is \"xyz\"; expected a 64-bit word"),
              std::string::npos);
    EXPECT_NE(error_of(R"({"tasks": [{"words": []}, {}]})").find("tasks[1].words is missing"), std::string::npos);
    EXPECT_NE(error_of(R"({"tasks": 3})").find("\"tasks\" is no list"), std::string::npos);
    EXPECT_NE(error_of(R"({"a": 3})").find("no program in this JSON; expected \"words\""), std::string::npos);
    EXPECT_NE(error_of(R"({"words": ["0x10000000000000000"]})").find("words[0]"), std::string::npos);
    EXPECT_NE(error_of(R"({"words": [-1]})").find("words[0] is -1"), std::string::npos);
    EXPECT_NE(error_of(R"({"words": []})").find("no words"), std::string::npos);
}

TEST(Formats, assembly_is_what_is_nothing_else) {
    EXPECT_EQ(detect_format("CNA.CBUF_CON0 = 0xb1\nenable 0x0d\n"), ProgramFormat::assembly);
    EXPECT_EQ(words_of("CNA.CBUF_CON0 = 0xb1 // banks\nlast\nseparator\nenable 0x0d\n"),
              (Words{banks, 0, 0x0101000000000014, 0x0041000000000000, fire}));
    EXPECT_NE(error_of("nop\n\nCNA.CBUF = 1\n").find("file:3: unknown instruction or register 'CNA.CBUF'"),
              std::string::npos);
}

TEST(Formats, an_empty_file_has_no_program) {
    EXPECT_NE(error_of("").find("file: no words; expected a command program"), std::string::npos);
    EXPECT_NE(error_of("# only a comment\n").find("no words"), std::string::npos);
    EXPECT_NE(error_of("", ProgramFormat::raw).find("no words; expected a command program as raw"), std::string::npos);
}

TEST(Formats, every_format_gives_back_random_words_and_is_recognised) {
    std::mt19937_64 random(21);
    for (int round = 0; round < 40; ++round) {
        Words words(1 + random() % 300);
        for (std::uint64_t& word : words) {
            word = random() % 8 == 0 ? 0 : random();
        }
        words.front() |= std::uint64_t{1} << 63;  // else all of them might be zero, which pairs of words can be too
        for (const char* name : {"raw", "hex", "hex32", "dump", "json", "asm"}) {
            const ProgramFormat format = *format_from_name(name);
            const std::string bytes = write_program(words, format);
            EXPECT_EQ(detect_format(bytes), format) << name;
            EXPECT_EQ(words_of(bytes), words) << name;
            EXPECT_EQ(words_of(bytes, format), words) << name;
        }
    }
}

TEST(Formats, never_fail_on_random_bytes) {
    std::mt19937_64 random(22);
    const std::string alphabet = "0123456789abcdefx \n\t,#;/={}[]\":.CNAwords";
    for (int round = 0; round < 3000; ++round) {
        std::string bytes;
        const bool text = random() % 2 == 0;
        for (std::uint64_t i = random() % 200; i > 0; --i) {
            bytes += text ? alphabet[random() % alphabet.size()] : static_cast<char>(random());
        }
        const Result<Program> program = parse_program("file", bytes, std::nullopt);
        EXPECT_TRUE(program ? !program->words.empty() : program.error().message.rfind("file:", 0) == 0);
    }
}

}  // namespace
}  // namespace npu::tools
