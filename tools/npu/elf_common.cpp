#include "elf_common.h"

#include <cxxabi.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "elf/file.h"

namespace npu::tools {

namespace {

[[noreturn]] void fail_with(const Error& error) {
    switch (error.code) {
        case ErrorCode::unsupported: fail(error.message, elf_not_supported);
        case ErrorCode::not_found:
        case ErrorCode::device_failure: fail(error.message, elf_io);
        default: fail(error.message, elf_malformed);
    }
}

template <typename T>
T value_or_fail(Result<T> result) {
    if (!result) {
        fail_with(result.error());
    }
    return std::move(*result);
}

}  // namespace

elf::Image open_image(const std::string& path) {
    return value_or_fail(elf::Image::parse(value_or_fail(elf::read_file(path)), path));
}

elf::Program open_program(const std::string& path) { return value_or_fail(elf::Program::analyse(open_image(path))); }

elf::Dynamic dynamic_of(const elf::Image& image) { return value_or_fail(elf::read_dynamic(image)); }

std::uint64_t parse_address(const elf::Program& program, const std::string& text) {
    if (const auto named = program.address_of(text)) {
        return *named;
    }
    std::string_view digits = text;
    for (const std::string_view prefix : {"fn_", "0x", "0X"}) {
        if (digits.starts_with(prefix)) {
            digits.remove_prefix(prefix.size());
            break;
        }
    }
    std::uint64_t address = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address, 16);
    if (error != std::errc{} || end != digits.data() + digits.size()) {
        fail("no symbol, import or address: " + text + " (addresses are hexadecimal; `npu elf functions` lists them)",
             elf_usage);
    }
    return address;
}

std::string hex(std::uint64_t value) { return format("0x%llx", static_cast<unsigned long long>(value)); }

std::string one_line(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '\n': out += "\\n"; break;
            case '\t': out += "\\t"; break;
            case '\r': out += "\\r"; break;
            case '\\': out += "\\\\"; break;
            default:
                if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
                    out += format("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
                } else {
                    out += c;
                }
        }
    }
    return out;
}

std::string demangled(const std::string& name) {
    const std::size_t star = name.starts_with('*') ? 1 : 0;  // typeinfo of a local type
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(
        abi::__cxa_demangle(name.c_str() + star, nullptr, nullptr, &status), std::free);
    return status == 0 && text ? std::string(text.get()) : name;
}

void print(const Json& json) { print(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"); }

}  // namespace npu::tools
