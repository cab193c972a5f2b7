#include "base/result.h"

#include <cstdarg>
#include <cstdio>

namespace npu {

const char* error_code_name(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_argument: return "invalid argument";
        case ErrorCode::unsupported: return "unsupported";
        case ErrorCode::out_of_memory: return "out of memory";
        case ErrorCode::not_found: return "not found";
        case ErrorCode::device_failure: return "device failure";
        case ErrorCode::timeout: return "timeout";
    }
    return "unknown";
}

namespace {

std::string format_list(const char* pattern, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, pattern, again);
    va_end(again);
    if (length < 0) {
        return pattern;
    }
    std::string text(static_cast<std::size_t>(length), '\0');
    std::vsnprintf(text.data(), text.size() + 1, pattern, arguments);
    return text;
}

}  // namespace

std::string format(const char* pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    std::string text = format_list(pattern, arguments);
    va_end(arguments);
    return text;
}

Error make_error(ErrorCode code, const char* pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    std::string text = format_list(pattern, arguments);
    va_end(arguments);
    return Error{code, std::move(text)};
}

}  // namespace npu
