#include "sim/finding.h"

#include <cstdarg>
#include <cstdio>
#include <utility>

#include "base/result.h"
#include "rockchip/registers.h"

namespace npu::sim {

namespace {

std::string format_list(const char* pattern, va_list arguments) {
    char text[512];
    std::vsnprintf(text, sizeof text, pattern, arguments);
    return text;
}

}  // namespace

const char* severity_name(Severity severity) {
    switch (severity) {
        case Severity::hang: return "hang";
        case Severity::corrupt: return "corrupt";
        case Severity::unmodelled: return "unmodelled";
        case Severity::warning: return "warning";
    }
    return "?";
}

std::string register_text(std::uint16_t offset, std::uint32_t value) {
    const rockchip::RegisterInfo* info = rockchip::find_register(offset);
    return info == nullptr
               ? format("register 0x%04x = 0x%08x", offset, value)
               : format("%s.%s (0x%04x) = 0x%08x", rockchip::block_name(info->block), info->name, offset, value);
}

void Judge::add(Severity severity, std::string message) {
    refused_ = refused_ || severity == Severity::unmodelled || (mode_ == Mode::strict && severity != Severity::warning);
    findings_.push_back({severity, core_, task_, std::move(message)});
}

void Judge::refuse(Severity severity, const char* pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    add(severity, format_list(pattern, arguments));
    va_end(arguments);
}

void Judge::refuse_register(Severity severity, std::uint16_t offset, std::uint32_t value, const char* pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    add(severity, register_text(offset, value) + ": " + format_list(pattern, arguments));
    va_end(arguments);
}

void Judge::stop(Severity severity, const char* pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    add(severity, format_list(pattern, arguments));
    va_end(arguments);
    refused_ = true;
}

void Judge::warn(const char* pattern, ...) {
    va_list arguments;
    va_start(arguments, pattern);
    add(Severity::warning, format_list(pattern, arguments));
    va_end(arguments);
}

}  // namespace npu::sim
