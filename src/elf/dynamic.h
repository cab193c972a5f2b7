// What the dynamic linker reads: names that a library wants and gives, and the places it must fill in. It is all found
// through the dynamic segment, so it survives stripping. The relocations double as references from data: a table of
// pointers in a stripped library is a run of zeros in the file and a run of R_AARCH64_RELATIVE entries here, whose
// addends are the pointers (AAELF64, "Relocation"; gABI, "Dynamic Section").
#pragma once

#include <map>

#include "elf/image.h"

namespace npu::elf {

struct Symbol {
    std::string name;
    std::string version;  // of an import, e.g. GLIBC_2.17; empty when none is asked for
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::uint8_t type = 0;     // 2: function, 1: object
    std::uint8_t binding = 0;  // 0: local, 1: global, 2: weak
    std::uint8_t visibility = 0;
    bool defined = false;

    [[nodiscard]] bool is_function() const { return type == 2 || type == 10; }
};

// ELF64 relocation numbers for AArch64.
enum : std::uint32_t {
    relocation_abs64 = 257,
    relocation_glob_dat = 1025,
    relocation_jump_slot = 1026,
    relocation_relative = 1027,
    relocation_irelative = 1032
};

struct Relocation {
    std::uint64_t place = 0;
    std::uint32_t type = 0;
    std::uint32_t symbol = 0;  // index in Dynamic::symbols; 0: none
    std::int64_t addend = 0;
};

struct Dynamic {
    std::vector<std::pair<std::int64_t, std::uint64_t>> entries;  // tag, value; without the final DT_NULL
    std::string soname;
    std::vector<std::string> needed;
    std::vector<Symbol> symbols;  // [0] is the null symbol, as in the file
    std::vector<Relocation> relocations;
    // Pointers that the linker will write: place -> address in this image. From RELATIVE relocations, packed ones
    // (DT_RELR) and symbols that are defined here.
    std::map<std::uint64_t, std::uint64_t> pointers;
    // Places that hold the address of an imported symbol: place -> symbol index.
    std::map<std::uint64_t, std::uint32_t> imports;

    [[nodiscard]] std::optional<std::uint64_t> value(std::int64_t tag) const;
};

// The dynamic part of an image; all empty for a static executable. Errors: `invalid_argument` names the table that does
// not lie in the file, or the name without an end.
Result<Dynamic> read_dynamic(const Image& image);

// Symbols of a section of the given type (2: SHT_SYMTAB, 11: SHT_DYNSYM); empty when the file is stripped of it.
std::vector<Symbol> read_section_symbols(const Image& image, std::uint32_t section_type);

}  // namespace npu::elf
