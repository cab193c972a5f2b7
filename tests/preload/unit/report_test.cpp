// What the preload library writes is JSON that says the same.
#include "sim/preload/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace npu::sim {
namespace {

TEST(ProcessReport, every_value_arrives) {
    ProcessReport report;
    report.process = 123;
    report.program = "a \"program\"\\\n\t\x01";
    report.complete = true;
    report.statistics.submissions = 1;
    report.statistics.failed_submissions = 2;
    report.statistics.tasks = 3;
    report.statistics.macs = ~std::uint64_t{0};
    report.statistics.feature_bytes = 5;
    report.statistics.weight_bytes = 6;
    report.statistics.output_bytes = 7;
    report.statistics.command_words = 8;
    report.statistics.device_seconds = 1.5;
    report.memory_in_use = 9;
    report.findings = {{Severity::hang, 1, 2, "register \"x\"", 3}, {Severity::warning, 0, 0, "", 1}};
    report.faults = "lost-interrupt: 1 of 2\nno-memory: 0 of 0";
    const nlohmann::json json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["process"], 123);
    EXPECT_EQ(json["program"], report.program);
    EXPECT_EQ(json["complete"], true);
    EXPECT_EQ(json["statistics"]["submissions"], 1);
    EXPECT_EQ(json["statistics"]["failed_submissions"], 2);
    EXPECT_EQ(json["statistics"]["tasks"], 3);
    EXPECT_EQ(json["statistics"]["macs"], ~std::uint64_t{0});
    EXPECT_EQ(json["statistics"]["feature_bytes"], 5);
    EXPECT_EQ(json["statistics"]["weight_bytes"], 6);
    EXPECT_EQ(json["statistics"]["output_bytes"], 7);
    EXPECT_EQ(json["statistics"]["command_words"], 8);
    EXPECT_EQ(json["statistics"]["memory_in_use"], 9);
    EXPECT_EQ(json["statistics"]["device_nanoseconds"], 1'500'000'000);
    ASSERT_EQ(json["findings"].size(), 2U);
    EXPECT_EQ(json["findings"][0]["severity"], "hang");
    EXPECT_EQ(json["findings"][0]["core"], 1);
    EXPECT_EQ(json["findings"][0]["task"], 2);
    EXPECT_EQ(json["findings"][0]["count"], 3);
    EXPECT_EQ(json["findings"][0]["message"], "register \"x\"");
    EXPECT_EQ(json["faults"], report.faults);
}

TEST(ProcessReport, bytes_that_are_no_text_do_not_break_it) {
    ProcessReport report;
    for (int byte = 0; byte < 256; ++byte) {
        report.program += static_cast<char>(byte);
    }
    const auto is_json = [](const std::string& text) { return nlohmann::json::accept(text); };
    EXPECT_TRUE(is_json(to_json(report)));
    EXPECT_FALSE(is_json("\"" + report.program + "\""));
}

}  // namespace
}  // namespace npu::sim
