// Three tiles and what tests of chains expect of the checker.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "rockchip/sample_program.h"

namespace npu::rockchip::test {

inline const SampleShape first_tile{.output_address = 0x01800000};
inline const SampleShape second_tile{.output_address = 0x01900000};
inline const SampleShape third_tile{.output_address = 0x01a00000};

// The one violation at `offset` whose message has `message` in it; fails the test when there is none.
inline void expect_violation(const std::vector<Violation>& violations, Severity severity, std::uint16_t offset,
                             const char* consequence, const char* message, std::size_t task = 0) {
    for (const Violation& violation : violations) {
        if (violation.offset == offset && violation.message.find(message) != std::string::npos) {
            EXPECT_EQ(violation.severity, severity) << violation.message;
            EXPECT_STREQ(violation.consequence, consequence) << violation.message;
            EXPECT_EQ(violation.task, task) << violation.message;
            return;
        }
    }
    ADD_FAILURE() << "nothing says '" << message << "' about register " << std::hex << offset << ":\n"
                  << messages(violations);
}

inline void expect_refusal(const std::vector<Violation>& violations, std::uint16_t offset, const char* consequence,
                           const char* message, std::size_t task = 0) {
    expect_violation(violations, Severity::refuse, offset, consequence, message, task);
}

inline SampleProgram chain() { return SampleProgram({first_tile, second_tile, third_tile}); }

}  // namespace npu::rockchip::test
