#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace npu {
namespace {

Result<int> parse_digit(char c) {
    if (c < '0' || c > '9') {
        return make_error(ErrorCode::invalid_argument, "'%c' is no digit; accepted: %s", c, "0 to 9");
    }
    return c - '0';
}

Result<void> require_even(int value) {
    if (value % 2 != 0) {
        return make_error(ErrorCode::unsupported, "%d is odd", value);
    }
    return {};
}

Result<int> sum_of_even_digits(char a, char b, int& evaluated) {
    NPU_ASSIGN(const int first, parse_digit(a));
    ++evaluated;
    NPU_ASSIGN(const int second, parse_digit(b));
    ++evaluated;
    NPU_TRY(require_even(first));
    NPU_TRY(require_even(second));
    return first + second;
}

TEST(Result, holds_a_value_or_an_error) {
    const Result<int> value = 7;
    ASSERT_TRUE(value.ok());
    EXPECT_TRUE(static_cast<bool>(value));
    EXPECT_EQ(*value, 7);
    const Result<int> error = make_error(ErrorCode::timeout, "after %d ms", 20);
    ASSERT_FALSE(error.ok());
    EXPECT_FALSE(static_cast<bool>(error));
    EXPECT_EQ(error.error().code, ErrorCode::timeout);
    EXPECT_EQ(error.error().message, "after 20 ms");
}

TEST(Result, an_error_type_can_itself_be_the_value_held) {
    const Result<std::string> text = std::string("value");
    EXPECT_EQ(text->size(), 5U);
}

TEST(Result, moves_a_value_that_cannot_be_copied) {
    Result<std::unique_ptr<int>> holder = std::make_unique<int>(3);
    ASSERT_TRUE(holder.ok());
    const std::unique_ptr<int> taken = std::move(holder).value();
    EXPECT_EQ(*taken, 3);
}

TEST(Result, success_without_a_value_is_the_default) {
    const Result<void> success;
    EXPECT_TRUE(success.ok());
    const Result<void> failure = Error{ErrorCode::not_found, "no such node"};
    ASSERT_FALSE(failure.ok());
    EXPECT_EQ(failure.error().message, "no such node");
}

TEST(ResultMacros, assign_and_try_pass_values_through) {
    int evaluated = 0;
    const Result<int> sum = sum_of_even_digits('2', '6', evaluated);
    ASSERT_TRUE(sum.ok());
    EXPECT_EQ(*sum, 8);
    EXPECT_EQ(evaluated, 2);
}

TEST(ResultMacros, assign_returns_the_first_error_unchanged_and_stops_there) {
    int evaluated = 0;
    const Result<int> sum = sum_of_even_digits('x', 'y', evaluated);
    ASSERT_FALSE(sum.ok());
    EXPECT_EQ(sum.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(sum.error().message, "'x' is no digit; accepted: 0 to 9");
    EXPECT_EQ(evaluated, 0);
}

TEST(ResultMacros, try_returns_the_error_of_a_result_without_a_value) {
    int evaluated = 0;
    const Result<int> sum = sum_of_even_digits('2', '3', evaluated);
    ASSERT_FALSE(sum.ok());
    EXPECT_EQ(sum.error().code, ErrorCode::unsupported);
    EXPECT_EQ(sum.error().message, "3 is odd");
    EXPECT_EQ(evaluated, 2);
}

TEST(Result, every_error_class_has_a_name_of_its_own) {
    const ErrorCode codes[] = {ErrorCode::invalid_argument, ErrorCode::unsupported,    ErrorCode::out_of_memory,
                               ErrorCode::not_found,        ErrorCode::device_failure, ErrorCode::timeout};
    std::string seen = "|";
    for (const ErrorCode code : codes) {
        const std::string name = error_code_name(code);
        EXPECT_NE(name, "unknown");
        EXPECT_EQ(seen.find(format("|%s|", name.c_str())), std::string::npos) << name;
        seen += name;
        seen += '|';
    }
}

TEST(Format, has_no_length_limit) {
    const std::string tail(100000, 'x');
    EXPECT_EQ(format("%d %s", 42, tail.c_str()), "42 " + tail);
    EXPECT_EQ(format("%s", ""), "");
}

}  // namespace
}  // namespace npu
