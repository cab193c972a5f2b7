#include "base/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

namespace npu {
namespace {

std::map<std::string, std::string>& variables() {
    static std::map<std::string, std::string> instance;
    return instance;
}

const char* look_up(const char* name) {
    const auto found = variables().find(name);
    return found == variables().end() ? nullptr : found->second.c_str();
}

Result<Options> parse_with(std::map<std::string, std::string> set) {
    variables() = std::move(set);
    return parse_options(look_up);
}

TEST(Options, without_variables_every_option_has_its_default) {
    const Result<Options> parsed = parse_with({});
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->device, "auto");
    EXPECT_EQ(parsed->engine, "native");
    EXPECT_EQ(parsed->rknn_library, "librknnrt.so");
    EXPECT_EQ(parsed->stats_path, "");
    EXPECT_EQ(parsed->precision, "auto");
    EXPECT_EQ(parsed->claim, "all");
    EXPECT_EQ(parsed->cores, 3);
    EXPECT_EQ(parsed->timeout_ms, 2000);
    EXPECT_EQ(parsed->memory_mib, 0);
    EXPECT_FALSE(parsed->any_host);
    EXPECT_TRUE(parsed->check_programs);
}

TEST(Options, every_variable_sets_its_own_option) {
    const Result<Options> parsed = parse_with({{"GGML_NPU_DEVICE", "/dev/accel/accel0"},
                                               {"GGML_NPU_ENGINE", "rknn"},
                                               {"GGML_NPU_RKNN_LIBRARY", "/opt/librknnrt.so"},
                                               {"GGML_NPU_STATS", "/tmp/stats.json"},
                                               {"GGML_NPU_PRECISION", "fp16"},
                                               {"GGML_NPU_CLAIM", "matmul"},
                                               {"GGML_NPU_CORES", "2"},
                                               {"GGML_NPU_TIMEOUT_MS", "600000"},
                                               {"GGML_NPU_MEMORY_MIB", "512"},
                                               {"GGML_NPU_ANY_HOST", "1"},
                                               {"GGML_NPU_CHECK", "0"}});
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed->device, "/dev/accel/accel0");
    EXPECT_EQ(parsed->engine, "rknn");
    EXPECT_EQ(parsed->rknn_library, "/opt/librknnrt.so");
    EXPECT_EQ(parsed->stats_path, "/tmp/stats.json");
    EXPECT_EQ(parsed->precision, "fp16");
    EXPECT_EQ(parsed->claim, "matmul");
    EXPECT_EQ(parsed->cores, 2);
    EXPECT_EQ(parsed->timeout_ms, 600000);
    EXPECT_EQ(parsed->memory_mib, 512);
    EXPECT_TRUE(parsed->any_host);
    EXPECT_FALSE(parsed->check_programs);
}

TEST(Options, a_bad_value_is_an_error_that_names_variable_value_and_what_is_accepted) {
    for (const OptionInfo& option : option_table()) {
        if (option.type == OptionType::text) {
            continue;
        }
        for (const char* bad : {"nonsense", "", "-1", "99999999999999999999", "1 ", "2x", "0x1", "|", "all|matmul"}) {
            const Result<Options> parsed = parse_with({{option.name, bad}});
            ASSERT_FALSE(parsed.ok()) << option.name << "='" << bad << "'";
            EXPECT_EQ(parsed.error().code, ErrorCode::invalid_argument);
            const std::string& message = parsed.error().message;
            EXPECT_NE(message.find(option.name), std::string::npos) << message;
            EXPECT_NE(message.find(format("'%s'", bad)), std::string::npos) << message;
            EXPECT_NE(message.find(option.choices), std::string::npos) << message;
        }
    }
}

TEST(Options, integers_are_accepted_up_to_both_ends_of_their_range_and_not_beyond) {
    for (const OptionInfo& option : option_table()) {
        if (option.type != OptionType::integer) {
            continue;
        }
        const std::string range = option.choices;
        const std::size_t dots = range.find("..");
        ASSERT_NE(dots, std::string::npos) << range;
        const long long low = std::stoll(range.substr(0, dots));
        const long long high = std::stoll(range.substr(dots + 2));
        EXPECT_TRUE(parse_with({{option.name, std::to_string(low)}}).ok()) << option.name;
        EXPECT_TRUE(parse_with({{option.name, std::to_string(high)}}).ok()) << option.name;
        EXPECT_FALSE(parse_with({{option.name, std::to_string(low - 1)}}).ok()) << option.name;
        EXPECT_FALSE(parse_with({{option.name, std::to_string(high + 1)}}).ok()) << option.name;
    }
}

TEST(Options, every_listed_choice_is_accepted) {
    for (const OptionInfo& option : option_table()) {
        if (option.type != OptionType::choice) {
            continue;
        }
        std::string rest = option.choices;
        while (!rest.empty()) {
            const std::size_t bar = rest.find('|');
            EXPECT_TRUE(parse_with({{option.name, rest.substr(0, bar)}}).ok()) << option.name << " " << rest;
            rest = bar == std::string::npos ? "" : rest.substr(bar + 1);
        }
    }
}

TEST(OptionTable, names_are_unique_and_prefixed_and_every_option_has_help_and_an_acceptable_default) {
    std::set<std::string> names;
    for (const OptionInfo& option : option_table()) {
        EXPECT_EQ(std::string(option.name).rfind("GGML_NPU_", 0), 0U) << option.name;
        EXPECT_TRUE(names.insert(option.name).second) << option.name;
        EXPECT_NE(std::string(option.help), "");
        ASSERT_NE(option.default_value, nullptr);
        EXPECT_TRUE(parse_with({{option.name, option.default_value}}).ok()) << option.name;
    }
}

TEST(OptionTable, its_text_lists_every_option_with_its_default) {
    const std::string text = describe_options();
    EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), option_table().size());
    for (const OptionInfo& option : option_table()) {
        EXPECT_NE(text.find(option.name), std::string::npos);
        EXPECT_NE(text.find(format("[default: %s]", option.default_value)), std::string::npos) << option.name;
    }
}

TEST(UnknownOptions, a_misspelt_variable_is_listed_and_known_or_foreign_ones_are_not) {
    ::setenv("GGML_NPU_CORE", "2", 1);    // misspelt
    ::setenv("GGML_NPU_CORES_", "2", 1);  // a known name with a tail
    ::setenv("GGML_NPU_CORES", "2", 1);
    ::setenv("GGML_OTHER", "2", 1);
    const std::vector<std::string> unknown = unknown_options();
    for (const char* name : {"GGML_NPU_CORE", "GGML_NPU_CORES_", "GGML_NPU_CORES", "GGML_OTHER"}) {
        ::unsetenv(name);
    }
    const auto listed = [&](const char* name) { return std::count(unknown.begin(), unknown.end(), name) == 1; };
    EXPECT_TRUE(listed("GGML_NPU_CORE"));
    EXPECT_TRUE(listed("GGML_NPU_CORES_"));
    EXPECT_FALSE(listed("GGML_NPU_CORES"));
    EXPECT_FALSE(listed("GGML_OTHER"));
}

}  // namespace
}  // namespace npu
