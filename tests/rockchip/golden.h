// The captured and generated programs that $NPU_TEST_DATA/golden holds, one JSON file each; ORIGIN of every one is
// its "source" key. golden/rv1106 is another chip with another register map and is left out.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rockchip/checker.h"
#include "rockchip/command.h"

namespace npu::rockchip::test {

struct GoldenTask {
    std::vector<Command> registers;  // as the JSON spells them: block, offset, value
    std::vector<std::uint64_t> words;
    std::vector<std::uint64_t> tail;
};

struct Golden {
    std::string name;
    std::string input, output;                            // names of precisions
    std::uint64_t pixels = 0, channels = 0, kernels = 0;  // M or H x W, K, N
    std::vector<GoldenTask> tasks;
    std::vector<std::uint64_t> words;  // all tasks, one after the other
    std::uint64_t iova = 0;            // where the first task must lie for its tail to be right

    // The last value that the first task writes to a register.
    [[nodiscard]] std::uint32_t value(std::uint16_t offset) const;
    // Exactly the bytes that the dimensions call for, at the addresses in the registers: features, weights, results,
    // commands, and the operand that is added to the results, if there is one.
    [[nodiscard]] std::vector<CheckBuffer> buffers() const;
    [[nodiscard]] CheckInput check_input() const;  // without buffers
};

inline constexpr std::size_t commands_buffer = 3;

// Folder of test data, or empty when NPU_TEST_DATA is not set or names no folder with golden programs.
std::optional<std::string> test_data();

std::vector<Golden> load_goldens(const std::string& folder);

}  // namespace npu::rockchip::test

// Skips a test, and says why where nobody can miss it.
#define NPU_REQUIRE_TEST_DATA(variable)                                                                     \
    const std::optional<std::string> variable = ::npu::rockchip::test::test_data();                         \
    if (!variable) {                                                                                        \
        GTEST_SKIP() << "\n*** NOT TESTED: set NPU_TEST_DATA to the folder that holds golden/*.json ***\n"; \
    }
