// Who mentions what: every place in code that makes or uses an address, and every pointer in data. This is what turns the
// strings of a stripped file into knowledge of its functions.
#pragma once

#include "elf/flow.h"

namespace npu::elf {

enum class ReferenceKind : std::uint8_t {
    adrp_add,   // ADRP, ADD
    adrp_load,  // ADRP, load or store
    adr,
    literal,  // load relative to the instruction
    derived,  // addition to or access through an address that was complete already
    pointer,  // the value of a pointer that was loaded from read-only data (global offset table)
    data,     // a pointer in data, from the relocations; the site is its place
};
const char* kind_name(ReferenceKind kind);

struct Reference {
    std::uint64_t site = 0;
    std::uint64_t target = 0;
    ReferenceKind kind = ReferenceKind::adrp_add;
    std::uint8_t reg = 31;
};

struct Call {
    std::uint64_t site = 0;
    std::uint64_t target = 0;       // of a stub: the stub's address
    bool tail = false;              // a jump
    bool through_register = false;  // BLR of a pointer that is known
};

struct References {
    std::vector<Reference> all;  // by target, then site
    std::vector<Call> calls;     // by site
    std::size_t indirect = 0;    // calls through a register of unknown value

    [[nodiscard]] std::span<const Reference> to(std::uint64_t first, std::uint64_t last) const;
    // References made by code in [start, end), by target.
    [[nodiscard]] std::vector<Reference> from(std::uint64_t start, std::uint64_t end) const;
    [[nodiscard]] std::span<const Call> calls_from(std::uint64_t start, std::uint64_t end) const;
};

References find_references(const Program& program);

}  // namespace npu::elf
