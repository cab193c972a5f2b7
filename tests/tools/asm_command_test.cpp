// `npu disasm` and `npu asm` as a user runs them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tools/run_command.h"

namespace npu::tools::test {
namespace {

TEST(AsmCommand, gives_back_the_bytes_of_every_golden_program_from_every_form_of_disassembly) {
    NPU_REQUIRE_GOLDEN(files);
    EXPECT_GE(files->size(), 19U);
    for (const GoldenFile& file : *files) {
        const std::string expected = raw(file.words);
        for (const char* form : {"", "--meaning", "--asm", "--json"}) {
            const Output output =
                run("disasm " + std::string(form) + " '" + file.path + "' | npu asm - -o program.bin");
            EXPECT_EQ(output.status, 0) << file.path << "\n" << output.error;
            EXPECT_EQ(read("program.bin"), expected) << file.path << " " << form;
        }
    }
}

TEST(AsmCommand, gives_back_random_words) {
    std::mt19937_64 random(31);
    std::vector<std::uint64_t> words;
    const std::uint16_t targets[] = {0, 0x0001, 0x0041, 0x0081, 0x0101, 0x0201, 0x0401, 0x0801, 0x1001, 0x2001, 0x4001};
    for (int i = 0; i < 4000; ++i) {
        const std::uint64_t word = random();
        words.push_back(i % 3 == 0   ? word
                        : i % 3 == 1 ? (word & 0x0000ffffffffffff) | std::uint64_t{targets[word >> 32 & 7]} << 48
                                     : std::uint64_t{targets[random() % 11]} << 48 | (word & 0xffffffff0000) |
                                           (0x1000 + word % 0x4000 / 4 * 4));
    }
    words.push_back(0);
    write("random.bin", raw(words));
    for (const char* form : {"", "--meaning", "--asm", "--json"}) {
        EXPECT_EQ(run("disasm random.bin " + std::string(form) + " | npu asm -o again.bin").status, 0);
        EXPECT_EQ(read("again.bin"), read("random.bin")) << form;
    }
}

TEST(AsmCommand, reads_standard_input_and_writes_standard_output) {
    EXPECT_EQ(run("asm", "CNA.CBUF_CON0 WEIGHT_BANK=11 DATA_BANK=1\n").out, raw({0x0201000000b11040}));
    EXPECT_EQ(run("asm - --as hex", "nop\n").out, "0000000000000000\n");
    EXPECT_EQ(run("disasm", raw({0x0201000000b11040})).out,
              "# task 0: 1 word, no tail\n"
              "     0  0201000000b11040  CNA.CBUF_CON0 = 0x000000b1  WEIGHT_BANK=11  DATA_BANK=1\n");
}

TEST(AsmCommand, names_file_line_and_what_was_expected) {
    const struct {
        const char* content;
        const char* arguments;
        const char* message;
    } cases[] = {
        {"nop\nCNA.CBUF_CON1 = 1\nCNA.DATASIZE0 = 1\n", "asm program",
         "program:3: unknown instruction or register "
         "'CNA.DATASIZE0'; the nearest register is "
         "CNA.DATA_SIZE0"},
        {"CNA.CBUF_CON0 DATA_BANK=16\n", "asm program",
         "program:1: DATA_BANK of CNA.CBUF_CON0 holds 0 to 15 (bits 3:0)"},
        {"0201000000b11040\nzz\n", "disasm program --format hex", "program:2: 'zz' is no 64-bit word; expected 16"},
        {"00b11040 02010000 1\n", "disasm program --format hex32", "program:1: '1' is no 32-bit word"},
        {"{\"words\": 3}", "disasm program", "program: words is no list of words"},
        {"\x01\x02\x03", "disasm program", "program: 3 bytes are no whole number of 64-bit words"},
        {"", "disasm program", "program: no words"},
    };
    for (const auto& entry : cases) {
        write("program", entry.content);
        const Output output = run(entry.arguments);
        EXPECT_EQ(output.status, 2) << entry.message;
        EXPECT_TRUE(output.out.empty()) << output.out;
        EXPECT_NE(output.error.find(std::string("npu: ") + entry.message), std::string::npos) << output.error;
    }
    EXPECT_EQ(run("asm /no/such/file").status, 2);
    EXPECT_NE(run("asm /no/such/file").error.find("/no/such/file: No such file or directory"), std::string::npos);
    EXPECT_NE(run("asm .").error.find("npu: .: "), std::string::npos);
    EXPECT_NE(run("asm -o /no/such/folder/file", "nop").error.find("/no/such/folder/file: cannot be written"),
              std::string::npos);
    EXPECT_EQ(run("disasm --format elf program").status, 2);
    EXPECT_EQ(run("disasm --json --asm program").status, 2);
}

TEST(DisasmCommand, prints_json_with_block_register_value_and_fields) {
    const Output output = run("disasm --json --meaning", "0x0201000000b11040 0xffff000000002010 0x00810000000d0008");
    ASSERT_EQ(output.status, 0) << output.error;
    const nlohmann::json json = nlohmann::json::parse(output.out);
    const nlohmann::json& banks = json.at("words").at(0);
    EXPECT_EQ(banks.at("word"), "0x0201000000b11040");
    EXPECT_EQ(banks.at("block"), "CNA");
    EXPECT_EQ(banks.at("register"), "CBUF_CON0");
    EXPECT_EQ(banks.at("value"), "0x000000b1");
    EXPECT_EQ(banks.at("fields").at("WEIGHT_BANK"), 11);
    EXPECT_EQ(banks.at("fields").at("DATA_REUSE"), 0);
    EXPECT_FALSE(banks.at("meaning").get<std::string>().empty());
    EXPECT_EQ(json.at("words").at(1).at("text"), "unknown register 0x2010 of target 0xffff = 0x00000000");
    EXPECT_EQ(json.at("task_list").at(0).at("blocks"), "CNA CORE DPU");
}

TEST(DisasmCommand, says_when_the_words_are_for_another_chip) {
    NPU_REQUIRE_GOLDEN(files);
    for (const GoldenFile& file : *files) {
        const Output output = run("disasm '" + file.path + "'");
        EXPECT_EQ(output.out.find("# The file says that these words are for RV1103") == 0, file.other_chip)
            << file.path;
    }
}

}  // namespace
}  // namespace npu::tools::test
