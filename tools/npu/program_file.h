// Command programs in files. People keep them as raw words, as hexadecimal text, as the pairs of 32-bit words that dumps
// of other projects hold, as JSON beside what the program computes, as our own dump (what `npu disasm` prints), or
// written by hand for the assembler. All of these are read here into the same list of 64-bit words; which one it is can
// be told from the content, or be said. The formats are described in docs/programs.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace npu::tools {

enum class ProgramFormat {
    raw,       // 64-bit words, least significant byte first
    hex,       // text: 64-bit words, 16 digits, or 0x and up to 16 digits
    hex32,     // text: pairs of 32-bit words, low half of the value and offset first
    dump,      // text: index, word, meaning
    json,      // {"words": [...]}, {"tasks": [{"words": [...]}]} or {"programs": [{"words": [...]}]}
    assembly,  // text: instructions of the assembler
};

struct Program {
    std::string name;  // of the file, for messages
    ProgramFormat format = ProgramFormat::raw;
    std::vector<std::uint64_t> words;
    std::string chip;  // what a JSON file says under "soc"; else empty
};

// Names for the command line: "raw", "hex", "hex32", "dump", "json", "asm".
const char* format_name(ProgramFormat format);
std::optional<ProgramFormat> format_from_name(std::string_view name);

// The format of some bytes. Never fails: text that is nothing else is taken for assembly, whose messages say what an
// instruction looks like.
ProgramFormat detect_format(std::string_view bytes);

// The words of a file's content. Errors name the file, the line where there is one, and what was expected; a program
// without a word is an error.
Result<Program> parse_program(std::string name, std::string_view bytes, std::optional<ProgramFormat> format);

// Reads a file, or standard input when `path` is "-", and parses it.
Result<Program> read_program(const std::string& path, std::optional<ProgramFormat> format);

// The bytes of a file in that format. Reading them back gives the same words.
std::string write_program(std::span<const std::uint64_t> words, ProgramFormat format);

// Writes to a file, or to standard output when `path` is "-".
Result<void> write_file(const std::string& path, std::string_view bytes);

// Parts of parse_program.
Result<std::vector<std::uint64_t>> parse_text(const std::string& name, std::string_view bytes, ProgramFormat format);
Result<void> parse_json(std::string_view bytes, Program& program);

}  // namespace npu::tools
