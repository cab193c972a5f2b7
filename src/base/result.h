// Errors are values. A function that can fail for a reason outside the program (bad input, a kernel that
// refuses, memory that runs out) returns Result<T>; the Error inside says what was asked, what the bound is
// and what the user can do. An error is made once, where it is found, and passed up unchanged. Exceptions
// are for our own mistakes and never cross a C boundary.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace npu {

// What went wrong, as a class that a caller may act on. The text is for people.
enum class ErrorCode {
    invalid_argument,  // the caller asked for something that has no meaning
    unsupported,       // meaningful, but this chip, driver or version cannot do it
    out_of_memory,     // host or device memory, or an address window, is exhausted
    not_found,         // no such file, device or symbol
    device_failure,    // the kernel or the silicon reported a failure
    timeout,           // the deadline passed
};

// Short stable name of a class ("timeout"), for logs and statistics.
const char* error_code_name(ErrorCode code);

struct Error {
    ErrorCode code = ErrorCode::invalid_argument;
    std::string message;
};

// Either a T or an Error. `value()` on an error (or `error()` on a value) is our own mistake and aborts.
template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    T& value() & { return std::get<0>(state_); }
    const T& value() const& { return std::get<0>(state_); }
    T&& value() && { return std::get<0>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

  private:
    std::variant<T, Error> state_;
};

// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] bool ok() const { return !error_; }
    explicit operator bool() const { return ok(); }
    [[nodiscard]] const Error& error() const { return *error_; }

  private:
    std::optional<Error> error_;
};

// Formats as printf does.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// Makes an Error whose message is formatted as printf does.
[[gnu::format(printf, 2, 3)]] Error make_error(ErrorCode code, const char* pattern, ...);

}  // namespace npu

// Evaluates a Result expression and returns its error from the enclosing function, if it is one.
#define NPU_TRY(expression)                                        \
    do {                                                           \
        if (auto npu_try_result = (expression); !npu_try_result) { \
            return npu_try_result.error();                         \
        }                                                          \
    } while (false)

#define NPU_CONCAT_(a, b) a##b
#define NPU_CONCAT(a, b) NPU_CONCAT_(a, b)

// Declares `variable` from a Result expression, or returns its error: NPU_ASSIGN(auto buffer, allocate(n));
#define NPU_ASSIGN(variable, expression)                   \
    auto NPU_CONCAT(npu_assign_, __LINE__) = (expression); \
    if (!NPU_CONCAT(npu_assign_, __LINE__)) {              \
        return NPU_CONCAT(npu_assign_, __LINE__).error();  \
    }                                                      \
    variable = std::move(NPU_CONCAT(npu_assign_, __LINE__)).value()
