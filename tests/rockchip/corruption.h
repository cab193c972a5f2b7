// A table test: a sound task, one register changed, and what the checker must say.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "rockchip/sample_program.h"

namespace npu::rockchip::test {

struct TaskCorruption {
    const char* name;
    SampleTask task;
    std::uint16_t offset;
    std::uint32_t value;
    const char* consequence;
    const char* message;  // part of it
    Severity severity = Severity::refuse;
    std::uint16_t reported = 0;  // register that the checker names, when it is another one
};

inline std::ostream& operator<<(std::ostream& stream, const TaskCorruption& corruption) {
    return stream << corruption.name;
}

// `make` turns the task into a program.
template <typename Make>
void expect_objection(const TaskCorruption& corruption, Make make) {
    SampleProgram program = make(corruption.task);
    const std::vector<Violation> before = program.check();
    ASSERT_TRUE(before.empty()) << "the sound program must pass:\n" << messages(before);
    const std::vector<Violation> after = program.set(corruption.offset, corruption.value).check();
    const std::uint16_t reported = corruption.reported != 0 ? corruption.reported : corruption.offset;
    const auto found = std::find_if(after.begin(), after.end(), [&](const Violation& violation) {
        return violation.offset == reported && violation.message.find(corruption.message) != std::string::npos;
    });
    ASSERT_NE(found, after.end()) << "nothing says '" << corruption.message << "':\n" << messages(after);
    EXPECT_EQ(found->severity, corruption.severity) << found->message;
    EXPECT_STREQ(found->consequence, corruption.consequence) << found->message;
    EXPECT_EQ(first_refusal(after) == nullptr, corruption.severity == Severity::warn) << messages(after);
    EXPECT_NE(found->message.find(std::string("source: ") + found->source), std::string::npos) << found->message;
}

inline bool says(const std::vector<Violation>& violations, const char* message) {
    return messages(violations).find(message) != std::string::npos;
}

}  // namespace npu::rockchip::test
