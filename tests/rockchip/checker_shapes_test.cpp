// Shapes at which something is published to go wrong, and registers that a program leaves out.
#include <gtest/gtest.h>

#include <algorithm>

#include "rockchip/sample_program.h"

namespace npu::rockchip::test {
namespace {

const SampleShape fp16_wide{};
const SampleShape fp16_rdma{.rdma = true};

// They may be submitted, with a warning.
void expect_only_warning(const SampleShape& shape, std::uint16_t offset, const char* message, bool expected) {
    const std::vector<Violation> violations = sample(shape).check();
    EXPECT_EQ(first_refusal(violations), nullptr) << messages(violations);
    const bool found = std::any_of(violations.begin(), violations.end(), [&](const Violation& violation) {
        return violation.offset == offset && violation.message.find(message) != std::string::npos;
    });
    EXPECT_EQ(found, expected) << message << "\n" << messages(violations);
    EXPECT_TRUE(expected || violations.empty()) << messages(violations);
}

TEST(CheckerWarns, about_k_inside_the_range_where_two_sources_saw_failures) {
    const char* message = "two sources saw failures";
    expect_only_warning({.m = 8, .k = 3840}, 0x1024, message, true);
    expect_only_warning({.m = 4, .k = 3840}, 0x1024, message, false);
    expect_only_warning({.m = 8, .k = 3072}, 0x1024, message, false);
    expect_only_warning({.m = 8, .k = 4096}, 0x1024, message, false);
}

TEST(CheckerWarns, about_int8_features_that_nearly_fill_their_last_bank_in_one_pixel_lines) {
    const char* message = "such shapes need one more bank";
    SampleShape shape{.input = Precision::int8, .output = Precision::int32, .m = 144, .k = 672};
    shape.layout = SampleLayout::tall;
    expect_only_warning(shape, 0x1040, message, true);  // published failing shape
    shape.m = 192;
    shape.k = 160;
    expect_only_warning(shape, 0x1040, message, true);  // another
    shape.layout = SampleLayout::wide;
    expect_only_warning(shape, 0x1040, message, false);
    shape.layout = SampleLayout::tall;
    shape.m = 128;
    shape.k = 256;  // exactly full: published to be fine
    expect_only_warning(shape, 0x1040, message, false);
    shape.input = Precision::fp16;  // immune
    shape.output = Precision::fp32;
    shape.m = 96;
    shape.k = 160;
    expect_only_warning(shape, 0x1040, message, false);
}

TEST(CheckerWarns, about_lines_whose_entries_exceed_the_banks_though_their_bytes_fit) {
    SampleShape shape{.input = Precision::int8, .output = Precision::int32, .m = 600, .k = 32};
    shape.layout = SampleLayout::tall;
    expect_only_warning(shape, 0x1044, "though the bytes alone fit", true);
    shape.k = 64;
    shape.m = 300;
    expect_only_warning(shape, 0x1044, "though the bytes alone fit", false);
}

TEST(CheckerWarns, about_limits_of_single_formats) {
    expect_only_warning({.input = Precision::tf32, .output = Precision::fp32, .m = 1, .k = 4112}, 0x1024,
                        "verified up to 4096", true);
    expect_only_warning({.input = Precision::int4, .output = Precision::int16, .n = 64, .k = 512}, 0x1024, "saturate",
                        true);
    expect_only_warning({.input = Precision::int4, .output = Precision::int16, .n = 64, .k = 480}, 0x1024, "saturate",
                        false);
    expect_only_warning({.m = 1, .n = 8192}, 0x403c, "field's maximum 8191", true);
}

TEST(CheckerWarns, about_int4_wider_than_what_ran) {
    const SampleShape int4{.input = Precision::int4, .output = Precision::int16, .n = 64};
    const char* message = "wider ones sometimes never began";
    SampleShape shape = int4;
    shape.m = 512;
    expect_only_warning(shape, 0x1038, message, false);
    shape.m = 513;
    expect_only_warning(shape, 0x1038, message, true);
    shape = int4;
    shape.n = 4160;
    expect_only_warning(shape, 0x1038, message, true);
    // One project tells the writer of a single pixel for int4 of several rows.
    SampleProgram program = sample(int4);
    program.set(0x405c, 0);
    EXPECT_EQ(first_refusal(program.check()), nullptr) << messages(program.check());
    EXPECT_NE(messages(program.check()).find("one project runs int4 like this"), std::string::npos);
    EXPECT_NE(first_refusal(sample(fp16_wide).set(0x405c, 0).check()), nullptr);
}

TEST(CheckerWarns, about_a_single_int8_row_longer_than_most_sources_verified) {
    SampleShape row{.input = Precision::int8, .output = Precision::int32, .m = 1, .k = 10752};
    expect_only_warning(row, 0x1024, "which ran single int8 rows of up to 10752", true);
    row.k = 10784;
    EXPECT_NE(first_refusal(sample(row).check()), nullptr);
    row.k = 8224;
    row.m = 2;
    EXPECT_NE(first_refusal(sample(row).check()), nullptr);
}

TEST(CheckerRefusesShapes, a_kernel_group_that_its_banks_do_not_hold) {
    // Published: K 3584 with one weight bank, where a group takes three and a half, hung.
    SampleProgram program = sample({.m = 36, .n = 32, .k = 3584});
    EXPECT_EQ(first_refusal(program.check()), nullptr) << messages(program.check());
    program.set(0x1040, 0x1b);
    const std::string text = messages(program.check());
    EXPECT_NE(text.find("one group of kernels takes 114688 bytes, 1 weight banks hold 32768"), std::string::npos)
        << text;
}

TEST(CheckerRefusesShapes, beyond_what_is_verified) {
    EXPECT_NE(messages(sample({.m = 1, .k = 8224}).check()).find("K 8224 exceeds 8192"), std::string::npos);
    EXPECT_NE(messages(sample({.m = 1, .n = 8208}).check()).find("N 8208 exceeds 8192"), std::string::npos);
    const SampleShape wide_kernels{.input = Precision::tf32, .output = Precision::fp32, .m = 1, .k = 8208};
    EXPECT_NE(messages(sample(wide_kernels).check()).find("32832 bytes per kernel; at most 32768"), std::string::npos);
}

TEST(CheckerRefusesShapes, a_plane_larger_than_the_chip_profile_allows) {
    SampleProgram program = sample({.m = 200});
    program.check();
    ChipProfile narrow = rk3588();
    narrow.max_extent = 199;
    const std::vector<Violation> violations = check_program(program.input, narrow);
    ASSERT_NE(first_refusal(violations), nullptr);
    EXPECT_NE(messages(violations).find("plane 200x1; the chip's fields end at 199"), std::string::npos);
}

// Registers: every one that a program writes is missed when it is left out.
TEST(CheckerRegisters, one_that_acts_is_refused_when_the_chain_never_wrote_it_and_a_bypassed_one_warned_about) {
    std::size_t refused = 0;
    std::size_t warned = 0;
    std::vector<std::uint16_t> silent;
    for (const Command& command : sample_body(fp16_rdma)) {
        SampleProgram program = sample(fp16_rdma);
        const std::vector<Violation> violations = program.erase(command.offset).check();
        const auto found = std::find_if(violations.begin(), violations.end(), [&](const Violation& violation) {
            return violation.offset == command.offset &&
                   violation.message.find("not written in this") != std::string::npos;
        });
        if (found == violations.end()) {
            silent.push_back(command.offset);
        } else {
            (found->severity == Severity::refuse ? refused : warned) += 1;
        }
    }
    EXPECT_GT(refused, 60U);
    EXPECT_GT(warned, 15U);
    // Left unread by bypassed or disabled stages; one representative of each family is watched instead.
    for (const std::uint16_t offset : silent) {
        const bool lane = offset > 0x1140 && offset <= 0x117c;
        const bool operand = offset > 0x4090 && offset <= 0x40ac;
        const bool lookup = offset > 0x4100 && offset <= 0x412c;
        const bool reader = offset >= 0x5018;
        EXPECT_TRUE(lane || operand || lookup || reader) << std::hex << offset;
    }
}

TEST(CheckerRegisters, a_register_written_twice_with_two_values_is_warned_about) {
    SampleProgram program = sample(fp16_wide);
    program.task().body.front().value = 0xa2;  // the first of two writes of CBUF_CON0
    const std::vector<Violation> violations = program.assemble().check();
    ASSERT_EQ(violations.size(), 1U) << messages(violations);
    EXPECT_EQ(violations[0].severity, Severity::warn);
    EXPECT_NE(violations[0].message.find("written twice in one body, before with 0x000000a2"), std::string::npos);
}

}  // namespace
}  // namespace npu::rockchip::test
