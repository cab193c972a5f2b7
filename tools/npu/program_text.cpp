// The text formats: hexadecimal words, pairs of 32-bit words, our dump, assembly. Comments begin with `#`, `;` or `//`.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <vector>

#include "program_file.h"
#include "rockchip/assembler.h"
#include "rockchip/disassembler.h"

namespace npu::tools {

namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::string_view space = " \t\r\v\f,";  // commas: arrays that were cut out of source text

struct Line {
    std::size_t number;  // from 1
    std::string_view text;
};

std::vector<Line> lines_of(std::string_view bytes) {
    std::vector<Line> lines;
    std::size_t number = 0;
    while (!bytes.empty()) {
        const std::size_t end = std::min(bytes.find('\n'), bytes.size());
        lines.push_back({++number, bytes.substr(0, end)});
        bytes.remove_prefix(std::min(end + 1, bytes.size()));
    }
    return lines;
}

std::string_view without_comment(std::string_view line) {
    line = line.substr(0, line.find_first_of("#;"));
    return line.substr(0, line.find("//"));
}

std::vector<std::string_view> tokens_of(std::string_view line) {
    std::vector<std::string_view> tokens;
    for (std::size_t i = line.find_first_not_of(space); i < line.size(); i = line.find_first_not_of(space, i)) {
        const std::size_t end = std::min(line.find_first_of(space, i), line.size());
        tokens.push_back(line.substr(i, end - i));
        i = end;
    }
    return tokens;
}

bool prefixed(std::string_view token) { return token.starts_with("0x") || token.starts_with("0X"); }

std::string_view digits_of(std::string_view token) { return prefixed(token) ? token.substr(2) : token; }

// 1 to `most` hexadecimal digits after 0x, or exactly `most` without.
bool is_hex(std::string_view token, std::size_t most) {
    const std::string_view digits = digits_of(token);
    return (prefixed(token) ? !digits.empty() && digits.size() <= most : digits.size() == most) &&
           std::ranges::all_of(digits, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

std::uint64_t value_of(std::string_view token) {
    const std::string_view digits = digits_of(token);
    std::uint64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return value;
}

bool is_index(std::string_view token) {
    return token.size() <= 9 && std::ranges::all_of(token, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_dump_line(const std::vector<std::string_view>& tokens) {
    return tokens.size() >= 2 && is_index(tokens[0]) && is_hex(tokens[1], 16) && !prefixed(tokens[1]);
}

std::string where(const std::string& name, std::size_t line) { return npu::format("%s:%zu: ", name.c_str(), line); }

Error bad(const std::string& place, const std::string& message) {
    return Error{ErrorCode::invalid_argument, place + message};
}

std::string quoted(std::string_view token) {
    constexpr std::size_t most = 40;
    const int shown = static_cast<int>(std::min(token.size(), most));
    return npu::format("'%.*s%s'", shown, token.data(), token.size() > most ? "..." : "");
}

Result<Words> parse_hex(const std::string& name, std::span<const Line> lines) {
    Words words;
    for (const Line& line : lines) {
        for (const std::string_view token : tokens_of(without_comment(line.text))) {
            if (!is_hex(token, 16)) {
                return bad(where(name, line.number),
                           quoted(token) + " is no 64-bit word; expected 16 hexadecimal digits, or 0x and at most 16");
            }
            words.push_back(value_of(token));
        }
    }
    return words;
}

Result<Words> parse_hex32(const std::string& name, std::span<const Line> lines) {
    Words words;
    bool half = false;
    std::size_t last = 0;
    for (const Line& line : lines) {
        for (const std::string_view token : tokens_of(without_comment(line.text))) {
            if (!is_hex(token, 8)) {
                return bad(where(name, line.number),
                           quoted(token) + " is no 32-bit word; expected 8 hexadecimal digits, or 0x and at most 8");
            }
            if (half) {
                words.back() |= value_of(token) << 32;
            } else {
                words.push_back(value_of(token));
            }
            half = !half;
            last = line.number;
        }
    }
    if (half) {
        return bad(where(name, last),
                   "a 32-bit word without its partner; expected pairs: value and offset, then target and value");
    }
    return words;
}

// The word that the meaning beside `word` stands for, when it is another one. A meaning that is no instruction (an
// unknown word's) is a remark.
std::optional<std::uint64_t> contradiction(std::uint64_t word, std::string_view meaning) {
    meaning.remove_prefix(std::min(meaning.find_first_not_of(space), meaning.size()));
    if (const std::string printed = rockchip::disassemble_word(word); meaning.starts_with(printed)) {
        const std::string_view rest = meaning.substr(printed.size());
        const std::size_t next = rest.find_first_not_of(space);
        if (next == std::string_view::npos || rest[next] == ';' || rest[next] == '#') {
            return std::nullopt;  // untouched
        }
    }
    const Result<Words> words = rockchip::assemble_line(meaning);
    const bool other = words && !words->empty() && *words != Words{word};
    return other ? std::optional(words->front()) : std::nullopt;
}

Result<Words> parse_dump(const std::string& name, std::span<const Line> lines) {
    Words words;
    for (const Line& line : lines) {
        const std::vector<std::string_view> tokens = tokens_of(without_comment(line.text));
        if (tokens.empty()) {
            continue;
        }
        if (!is_dump_line(tokens)) {
            return bad(where(name, line.number),
                       "expected an index, a word of 16 hexadecimal digits and its meaning, as npu disasm prints them");
        }
        const std::uint64_t word = value_of(tokens[1]);
        const char* after = tokens[1].data() + tokens[1].size();
        const std::string_view meaning = line.text.substr(static_cast<std::size_t>(after - line.text.data()));
        if (const std::optional<std::uint64_t> other = contradiction(word, meaning); other) {
            return bad(where(name, line.number),
                       npu::format("the word is %016llx, but its meaning is that of %016llx; change both, or keep only "
                                   "the meanings and read them with --format asm",
                                   static_cast<unsigned long long>(word), static_cast<unsigned long long>(*other)));
        }
        words.push_back(word);
    }
    return words;
}

Result<Words> parse_assembly(const std::string& name, std::span<const Line> lines) {
    Words words;
    for (const Line& line : lines) {
        const Result<Words> part = rockchip::assemble_line(line.text.substr(0, line.text.find("//")));
        if (!part) {
            return bad(where(name, line.number), part.error().message);
        }
        words.insert(words.end(), part->begin(), part->end());
    }
    return words;
}

bool is_text(std::string_view bytes) {
    return std::ranges::all_of(bytes, [](unsigned char c) { return c >= 0x20 || std::isspace(c) != 0; });
}

}  // namespace

ProgramFormat detect_format(std::string_view bytes) {
    if (!is_text(bytes)) {
        return ProgramFormat::raw;
    }
    const std::size_t first = bytes.find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[')) {
        return ProgramFormat::json;
    }
    bool all_short = true;  // every token has at most eight digits
    for (const Line& line : lines_of(bytes)) {
        const std::vector<std::string_view> tokens = tokens_of(without_comment(line.text));
        if (is_dump_line(tokens)) {
            return ProgramFormat::dump;
        }
        for (const std::string_view token : tokens) {
            if (!is_hex(token, 16) && !is_hex(token, 8)) {
                return ProgramFormat::assembly;
            }
            all_short = all_short && is_hex(token, 8);
        }
    }
    return all_short ? ProgramFormat::hex32 : ProgramFormat::hex;
}

Result<Words> parse_text(const std::string& name, std::string_view bytes, ProgramFormat format) {
    const std::vector<Line> lines = lines_of(bytes);
    switch (format) {
        case ProgramFormat::hex: return parse_hex(name, lines);
        case ProgramFormat::hex32: return parse_hex32(name, lines);
        case ProgramFormat::dump: return parse_dump(name, lines);
        default: return parse_assembly(name, lines);
    }
}

}  // namespace npu::tools
