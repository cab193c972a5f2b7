// `npu check` as a user runs it: what it passes, what it refuses, and its exit status.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/run_command.h"

namespace npu::tools::test {
namespace {

const GoldenFile* find(const std::vector<GoldenFile>& files, const char* name) {
    const auto found =
        std::ranges::find_if(files, [&](const GoldenFile& file) { return file.path.find(name) != std::string::npos; });
    EXPECT_NE(found, files.end()) << name;
    return found != files.end() ? &*found : nullptr;
}

// The same words with one register changed everywhere.
std::vector<std::uint64_t> with(std::vector<std::uint64_t> words, std::uint16_t offset, std::uint32_t value) {
    for (std::uint64_t& word : words) {
        const bool same = (word & 0xffff) == offset && word >> 48 != 0x0101;
        word = same ? (word & 0xffff00000000ffff) | std::uint64_t{value} << 16 : word;
    }
    return words;
}

TEST(CheckCommand, passes_every_golden_program_of_this_chip_and_refuses_to_judge_another_chips) {
    NPU_REQUIRE_GOLDEN(files);
    for (const GoldenFile& file : *files) {
        const Output output = run("check '" + file.path + "'");
        EXPECT_EQ(output.status, file.other_chip ? 2 : 0) << output.out << output.error;
        if (file.other_chip) {
            EXPECT_NE(output.error.find("is for the RV1103; the checker knows the register map of the RK3588 only"),
                      std::string::npos)
                << output.error;
        } else {
            EXPECT_NE(output.out.find("for RK3588 under rknpu: sound"), std::string::npos) << output.out;
        }
    }
}

TEST(CheckCommand, refuses_a_bad_register_by_name_value_bound_consequence_and_source) {
    NPU_REQUIRE_GOLDEN(files);
    const GoldenFile* file = find(*files, "matmul_i8_i32_M4_K32_N32_rowmajor");
    ASSERT_NE(file, nullptr);
    write("bad.bin", raw(with(file->words, 0x1040, 0xc1)));
    const Output output = run("check bad.bin");
    EXPECT_EQ(output.status, 1);
    EXPECT_TRUE(output.error.empty()) << output.error;
    EXPECT_NE(
        output.out.find("refuse  task 0: CNA.CBUF_CON0 = 0x000000c1: bank overflow: DATA_BANK 1 + WEIGHT_BANK 12 = "
                        "13, the chip has 12 (hangs; source: register manual)"),
        std::string::npos)
        << output.out;
    EXPECT_NE(output.out.find("refused, 1 reason"), std::string::npos) << output.out;
}

TEST(CheckCommand, prints_json) {
    NPU_REQUIRE_GOLDEN(files);
    const GoldenFile* file = find(*files, "matmul_i8_i32_M4_K32_N32_rowmajor");
    write("bad.bin", raw(with(file->words, 0x1040, 0xc1)));
    const Output output = run("check --json bad.bin");
    EXPECT_EQ(output.status, 1);
    const nlohmann::json json = nlohmann::json::parse(output.out);
    EXPECT_EQ(json.at("sound"), false);
    const nlohmann::json& violation = json.at("submissions").at(0).at("violations").at(0);
    EXPECT_EQ(violation.at("severity"), "refuse");
    EXPECT_EQ(violation.at("register"), "CNA.CBUF_CON0");
    EXPECT_EQ(violation.at("value"), "0x000000c1");
    EXPECT_EQ(violation.at("consequence"), "hangs");
    EXPECT_EQ(violation.at("source"), "register manual");
}

TEST(CheckCommand, reads_every_format) {
    NPU_REQUIRE_GOLDEN(files);
    const GoldenFile* file = find(*files, "rocketgen_f16_f16_M8_K64_N32.json");
    for (const char* format : {"raw", "hex", "hex32", "dump", "json", "asm"}) {
        const Output output = run("asm '" + file->path + "' --as " + format + " | npu check");
        EXPECT_EQ(output.status, 0) << format << "\n" << output.out << output.error;
    }
}

TEST(CheckCommand, finds_the_address_that_the_first_tail_implies) {
    NPU_REQUIRE_GOLDEN(files);
    const GoldenFile* file = find(*files, "2tasks_weight_reuse");
    EXPECT_EQ(run("check '" + file->path + "'").status, 0);
    EXPECT_EQ(run("check --base 0xfff9cb4800 '" + file->path + "'").status, 1);  // the second task is not there
    const Output one = run("check --tasks 1 '" + file->path + "'");
    EXPECT_NE(one.out.find("TASK_NUMBER 1 ends the chain here"), std::string::npos) << one.out;
    EXPECT_EQ(run("check --tasks 3 '" + file->path + "'").status, 1);
    EXPECT_EQ(run("check --first-body 40 '" + file->path + "'").status, 1);
}

TEST(CheckCommand, finds_padding_between_tasks_that_the_file_left_out) {
    NPU_REQUIRE_GOLDEN(files);
    // Three tasks of 126 words, which in memory lie 128 words apart.
    const GoldenFile* file = find(*files, "rocketgen_f16_f16_M8_K64_N32.json");
    std::vector<std::uint64_t> words;
    for (std::uint64_t task = 0; task < 3; ++task) {
        std::vector<std::uint64_t> part =
            with(file->words, 0x4020, 0x00180000 + static_cast<std::uint32_t>(task) * 0x1000);
        if (task < 2) {
            part[122] = std::uint64_t{0x0101} << 48 | (0x01000000 + 1024 * (task + 1)) << 16 | 0x0010;
            part[123] = std::uint64_t{0x0101} << 48 | 62 << 16 | 0x0014;
        }
        words.insert(words.end(), part.begin(), part.end());
    }
    write("three.bin", raw(words));
    const Output output = run("check three.bin");
    EXPECT_EQ(output.status, 0) << output.out;
    EXPECT_NE(output.out.find("3 tasks in 1 submission"), std::string::npos) << output.out;
    EXPECT_EQ(run("check --base 0x1000000 three.bin").status,
              1);  // taken literally, the third is not where it should be
}

TEST(CheckCommand, checks_each_task_alone_under_rocket_and_chains_when_batched) {
    NPU_REQUIRE_GOLDEN(files);
    const GoldenFile* mainline = find(*files, "rocketgen_i8_i32");
    const GoldenFile* vendor = find(*files, "matmul_i8_i32_M4_K32_N32_rowmajor");
    std::vector<std::uint64_t> two = mainline->words;
    const std::vector<std::uint64_t> bad = with(mainline->words, 0x1040, 0xc1);
    two.insert(two.end(), mainline->words.begin(), mainline->words.end());
    write("two.bin", raw(two));
    const Output sound = run("check --kernel rocket two.bin");
    EXPECT_EQ(sound.status, 0) << sound.out;
    EXPECT_NE(sound.out.find("2 tasks in 2 submissions for RK3588 under rocket: sound"), std::string::npos)
        << sound.out;
    two.resize(mainline->words.size());
    two.insert(two.end(), bad.begin(), bad.end());
    write("two.bin", raw(two));
    const Output refused = run("check --kernel rocket two.bin");
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.out.find("submission 1, from word 126"), std::string::npos) << refused.out;
    // A task that reuses weights belongs to the job of the one before.
    const std::vector<std::uint64_t> reusing = with(with(mainline->words, 0x1040, 0x20a2), 0x4020, 0x00190000);
    two.resize(mainline->words.size());
    two.insert(two.end(), reusing.begin(), reusing.end());
    write("two.bin", raw(two));
    const Output job = run("check --kernel rocket two.bin");
    EXPECT_EQ(job.status, 0) << job.out;
    EXPECT_NE(job.out.find("2 tasks in 1 submission"), std::string::npos) << job.out;
    write("one.bin", raw(reusing));
    EXPECT_EQ(run("check --kernel rocket one.bin").status, 1);
    EXPECT_EQ(run("check --kernel rocket '" + vendor->path + "'").status, 1);
    EXPECT_EQ(run("check --kernel rocket --tasks 2 two.bin").status, 1);
    const GoldenFile* chained = find(*files, "2tasks_weight_reuse");
    EXPECT_NE(run("check --kernel rocket --batched '" + chained->path + "'").out.find("2 tasks in 1 submission"),
              std::string::npos);
}

TEST(CheckCommand, compares_addresses_with_buffers_when_it_is_told_them) {
    NPU_REQUIRE_GOLDEN(files);
    const GoldenFile* file = find(*files, "mtx512gen_f16_f32_M4_K64_N16");
    const std::string inputs =
        "--buffer 0xfff00000:0x200 --buffer 0xfff20000:0x800 --base 0x1000 --buffer 0x1000:0x1000 ";
    EXPECT_EQ(run("check " + inputs + "--buffer 0xfff80000:0x100:w '" + file->path + "'").status, 0);
    const Output output = run("check " + inputs + "--buffer 0xfff80000:0x100 '" + file->path + "'");
    EXPECT_EQ(output.status, 1);
    EXPECT_NE(output.out.find("in a buffer that the device may not write"), std::string::npos) << output.out;
    EXPECT_EQ(run("check " + inputs + "--buffer 0xfff80000:0xf0:w '" + file->path + "'").status, 1);
    for (const char* buffer : {"12", "1:2:x", "a:b", "0x10:", ":5"}) {
        const Output bad = run("check --buffer " + std::string(buffer) + " '" + file->path + "'");
        EXPECT_EQ(bad.status, 2) << buffer;
        EXPECT_NE(bad.error.find("--buffer"), std::string::npos) << bad.error;
    }
}

TEST(CheckCommand, refuses_chips_that_it_does_not_know_and_says_what_is_missing) {
    const std::string program = "nop\nCNA.CBUF_CON0 = 1\n";
    for (const char* chip : {"rk3576", "rk3568", "rv1106", "rk9999"}) {
        const Output output = run("check --chip " + std::string(chip), program);
        EXPECT_EQ(output.status, 2) << chip;
        EXPECT_TRUE(output.out.empty()) << output.out;
    }
    EXPECT_NE(run("check --chip rk3576", program).error.find("issing: "), std::string::npos);
    EXPECT_NE(run("check --chip rv1106", program).error.find("Missing: what the fields"), std::string::npos);
}

TEST(CheckCommand, has_three_exit_statuses_and_says_what_is_wrong_with_its_arguments) {
    EXPECT_EQ(run("check", "CNA.CBUF_CON0 = 1\n").status, 1);
    EXPECT_EQ(run("check", "nop\n").status, 2);
    EXPECT_NE(run("check", "nop\n").error.find("nothing but padding"), std::string::npos);
    EXPECT_EQ(run("check /no/such/file").status, 2);
    EXPECT_EQ(run("check --kernel other", "nop").status, 2);
    EXPECT_EQ(run("check --base x", "CNA.CBUF_CON0 = 1\n").status, 2);
    EXPECT_EQ(run("check --interrupt-mask x", "CNA.CBUF_CON0 = 1\n").status, 2);
    EXPECT_EQ(run("check --help").status, 0);
}

TEST(CheckCommand, takes_the_interrupt_mask_into_account) {
    NPU_REQUIRE_GOLDEN(files);
    const GoldenFile* file = find(*files, "rocketgen_f16_f16_M8_K64_N32.json");
    EXPECT_EQ(run("check --interrupt-mask 0x300 '" + file->path + "'").status, 0);
    const Output output = run("check --interrupt-mask 0xc00 '" + file->path + "'");
    EXPECT_EQ(output.status, 1);
    EXPECT_NE(output.out.find("completes with the DPU pair 0x300"), std::string::npos) << output.out;
}

}  // namespace
}  // namespace npu::tools::test
