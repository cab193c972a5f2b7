// From environment variables to a simulated kernel's options.
#include "sim/preload/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/options.h"

namespace npu::sim {
namespace {

std::map<std::string, std::string>& variables() {
    static std::map<std::string, std::string> instance;
    return instance;
}

Result<SimulationOptions> parse_with(std::map<std::string, std::string> set) {
    variables() = std::move(set);
    return parse_simulation_options([](const char* name) -> const char* {
        const auto found = variables().find(name);
        return found == variables().end() ? nullptr : found->second.c_str();
    });
}

TEST(SimulationSettings, without_variables_a_strict_vendor_kernel_in_real_time) {
    const auto options = parse_with({});
    ASSERT_TRUE(options.ok());
    const auto settings = simulation_settings(*options);
    ASSERT_TRUE(settings.ok()) << settings.error().message;
    EXPECT_EQ(settings->driver, Driver::rknpu);
    EXPECT_EQ(settings->mode, Mode::strict);
    EXPECT_TRUE(settings->real_time);
    EXPECT_FALSE(settings->strict_sync);
    EXPECT_TRUE(settings->log_findings);
    EXPECT_EQ(settings->memory_bytes, 0U);
    EXPECT_EQ(settings->chip, &rockchip::rk3588());
    EXPECT_EQ(settings->faults.report(), "");
    ASSERT_TRUE(settings->submission_seconds);
    EXPECT_GT(settings->submission_seconds({}, 0), 0.0) << "a submission without tasks costs a start";
}

TEST(SimulationSettings, every_variable_arrives) {
    const auto options = parse_with({{"GGML_NPU_SIM_KERNEL", "rocket"},
                                     {"GGML_NPU_SIM_CHIP", "RK3588"},
                                     {"GGML_NPU_SIM_MODE", "lenient"},
                                     {"GGML_NPU_SIM_ROCKET_INTERFACE", "1.5"},
                                     {"GGML_NPU_SIM_FAULTS", "lost-interrupt@at=3"},
                                     {"GGML_NPU_SIM_COHERENCY", "1"},
                                     {"GGML_NPU_SIM_SEED", "77"},
                                     {"GGML_NPU_SIM_MEMORY_MIB", "512"},
                                     {"GGML_NPU_SIM_REAL_TIME", "0"},
                                     {"GGML_NPU_SIM_LOG", "0"},
                                     {"GGML_NPU_SIM_ROOT", "/a"},
                                     {"GGML_NPU_SIM_REPORTS", "/b"}});
    ASSERT_TRUE(options.ok()) << options.error().message;
    EXPECT_EQ(options->root, "/a");
    EXPECT_EQ(options->reports, "/b");
    const auto settings = simulation_settings(*options);
    ASSERT_TRUE(settings.ok()) << settings.error().message;
    EXPECT_EQ(settings->driver, Driver::rocket);
    EXPECT_EQ(settings->mode, Mode::lenient);
    EXPECT_EQ(settings->rocket.major, 1U);
    EXPECT_EQ(settings->rocket.minor, 5U);
    EXPECT_NE(settings->faults.report().find("lost-interrupt@at=3"), std::string::npos);
    EXPECT_TRUE(settings->strict_sync);
    EXPECT_EQ(settings->poison_seed, 77U);
    EXPECT_EQ(settings->memory_bytes, std::uint64_t{512} << 20);
    EXPECT_FALSE(settings->real_time);
    EXPECT_FALSE(settings->log_findings);
}

TEST(SimulationSettings, a_bad_value_is_an_error_that_names_it) {
    EXPECT_FALSE(parse_with({{"GGML_NPU_SIM_KERNEL", "linux"}}).ok());
    EXPECT_TRUE(parse_with({{"GGML_NPU_CORES", "99"}}).ok());  // not this library's business
    for (const auto& [name, value] : {std::pair{"GGML_NPU_SIM_CHIP", "z80"}, {"GGML_NPU_SIM_FAULTS", "flood"}}) {
        const auto options = parse_with({{name, value}});
        ASSERT_TRUE(options.ok());
        const auto settings = simulation_settings(*options);
        ASSERT_FALSE(settings.ok()) << value;
        EXPECT_NE(settings.error().message.find(value), std::string::npos) << settings.error().message;
    }
}

}  // namespace
}  // namespace npu::sim
