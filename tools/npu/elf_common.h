// What the subcommands of `npu elf` share: opening a library, reading an address as people write it, printing, and the exit
// statuses, which scripts rely on:
//
//   0 done                         5 bytes differ from those of the patch
//   1 nothing found, not applied   6 patched already
//   2 wrong usage                  7 more than one candidate
//   3 not a supported ELF file     8 a guard that must not be patched
//   4 torn or malformed            9 the file cannot be read or written
#pragma once

#include <nlohmann/json.hpp>

#include "commands.h"
#include "elf/asserts.h"

namespace npu::tools {

enum ElfStatus : int {
    elf_nothing = 1,
    elf_usage = 2,
    elf_not_supported = 3,
    elf_malformed = 4,
    elf_differs = 5,
    elf_patched_already = 6,
    elf_ambiguous = 7,
    elf_unsafe = 8,
    elf_io = 9,
};

using Json = nlohmann::ordered_json;

// Each ends the subcommand with the right status when it cannot do its work.
elf::Image open_image(const std::string& path);
elf::Program open_program(const std::string& path);
elf::Dynamic dynamic_of(const elf::Image& image);
// An address in hexadecimal (0x may be left out when it is no name), a symbol, an import or fn_<address>.
std::uint64_t parse_address(const elf::Program& program, const std::string& text);

std::string hex(std::uint64_t value);
// A text on one line: line ends and other control characters as escapes.
std::string one_line(std::string_view text);
// Type or function name as C++ writes it; the name itself when it is not mangled.
std::string demangled(const std::string& name);
// Bytes that are no UTF-8 are replaced.
void print(const Json& json);

// Subcommands of `npu elf`.
void add_elf_info(CLI::App& elf);
void add_elf_strings(CLI::App& elf);
void add_elf_functions(CLI::App& elf);
void add_elf_xref(CLI::App& elf);
void add_elf_callers(CLI::App& elf);
void add_elf_asserts(CLI::App& elf);
void add_elf_guards(CLI::App& elf);
void add_elf_patch(CLI::App& elf);
void add_elf_diff(CLI::App& elf);
void add_elf_find(CLI::App& elf);
void add_elf_crash(CLI::App& elf);
void add_elf_rtti(CLI::App& elf);
void add_elf_dis(CLI::App& elf);
void add_elf_identify(CLI::App& elf);

}  // namespace npu::tools
