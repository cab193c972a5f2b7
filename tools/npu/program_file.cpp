#include "program_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "rockchip/assembler.h"
#include "rockchip/disassembler.h"

namespace npu::tools {

namespace {

constexpr struct {
    ProgramFormat format;
    const char* name;
} format_names[] = {{ProgramFormat::raw, "raw"},   {ProgramFormat::hex, "hex"},   {ProgramFormat::hex32, "hex32"},
                    {ProgramFormat::dump, "dump"}, {ProgramFormat::json, "json"}, {ProgramFormat::assembly, "asm"}};

Result<std::vector<std::uint64_t>> parse_raw(const std::string& name, std::string_view bytes) {
    if (bytes.size() % 8 != 0) {
        return make_error(ErrorCode::invalid_argument,
                          "%s: %zu bytes are no whole number of 64-bit words; the file is cut short, or not raw words",
                          name.c_str(), bytes.size());
    }
    std::vector<std::uint64_t> words(bytes.size() / 8);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        words[i / 8] |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * (i % 8));
    }
    return words;
}

std::string raw_bytes(std::span<const std::uint64_t> words) {
    std::string bytes;
    bytes.reserve(8 * words.size());
    for (const std::uint64_t word : words) {
        for (int shift = 0; shift < 64; shift += 8) {
            bytes += static_cast<char>(word >> shift & 0xff);
        }
    }
    return bytes;
}

std::string json_bytes(std::span<const std::uint64_t> words) {
    nlohmann::json list = nlohmann::json::array();
    for (const std::uint64_t word : words) {
        list.push_back(format("0x%016llx", static_cast<unsigned long long>(word)));
    }
    return nlohmann::json{{"words", std::move(list)}}.dump(1) + "\n";
}

}  // namespace

const char* format_name(ProgramFormat format) {
    return std::ranges::find(format_names, format, [](const auto& entry) { return entry.format; })->name;
}

std::optional<ProgramFormat> format_from_name(std::string_view name) {
    const auto* found =
        std::ranges::find_if(format_names, [&](const auto& entry) { return std::string_view(entry.name) == name; });
    return found != std::end(format_names) ? std::optional(found->format) : std::nullopt;
}

Result<Program> parse_program(std::string name, std::string_view bytes, std::optional<ProgramFormat> format) {
    Program program;
    program.format = format.value_or(detect_format(bytes));
    program.name = std::move(name);
    if (program.format == ProgramFormat::json) {
        NPU_TRY(parse_json(bytes, program));
    } else if (program.format == ProgramFormat::raw) {
        NPU_ASSIGN(program.words, parse_raw(program.name, bytes));
    } else {
        NPU_ASSIGN(program.words, parse_text(program.name, bytes, program.format));
    }
    if (program.words.empty()) {
        return make_error(ErrorCode::invalid_argument, "%s: no words; expected a command program as %s",
                          program.name.c_str(),
                          format ? format_name(*format) : "raw words, hexadecimal text, JSON, a dump or assembly");
    }
    return program;
}

Result<Program> read_program(const std::string& path, std::optional<ProgramFormat> format) {
    if (path == "-") {
        const std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
        return parse_program("standard input", bytes, format);
    }
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream content;
    if (!stream || !(content << stream.rdbuf())) {
        // An empty file leaves the stream in a failed state without an error.
        if (!stream.is_open() || stream.peek() != std::ifstream::traits_type::eof()) {
            return make_error(ErrorCode::not_found, "%s: %s", path.c_str(),
                              errno != 0 ? std::strerror(errno) : "cannot be read");
        }
    }
    return parse_program(path, content.str(), format);
}

std::string write_program(std::span<const std::uint64_t> words, ProgramFormat format) {
    std::string text;
    switch (format) {
        case ProgramFormat::raw: return raw_bytes(words);
        case ProgramFormat::json: return json_bytes(words);
        case ProgramFormat::dump: return rockchip::disassemble(words);
        case ProgramFormat::hex:
            for (const std::uint64_t word : words) {
                text += npu::format("%016llx\n", static_cast<unsigned long long>(word));
            }
            return text;
        case ProgramFormat::hex32:
            for (const std::uint64_t word : words) {
                text += npu::format("0x%08x 0x%08x\n", static_cast<unsigned>(word & 0xffffffffU),
                                    static_cast<unsigned>(word >> 32));
            }
            return text;
        case ProgramFormat::assembly:
            for (const std::uint64_t word : words) {
                text += rockchip::assembly_text(word) + "\n";
            }
            return text;
    }
    return text;
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
    if (path == "-") {
        std::cout.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        std::cout.flush();
        return std::cout ? Result<void>() : make_error(ErrorCode::device_failure, "standard output: cannot be written");
    }
    std::ofstream stream(path, std::ios::binary);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    stream.close();
    if (!stream) {
        return make_error(ErrorCode::device_failure, "%s: cannot be written: %s", path.c_str(), std::strerror(errno));
    }
    return {};
}

}  // namespace npu::tools
