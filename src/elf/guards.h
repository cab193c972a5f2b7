// Which branch decides that an assertion fails. The code that reports a failure (its tail) stands apart from the path of
// success, and one conditional branch leads to it or jumps around it. Disabling exactly that assertion means changing
// exactly that branch, if it can be changed safely. So every way into a tail is followed back and classified:
//
//   taken      the branch leads to the tail:               a NOP disables it
//   falls      the tail stands right behind the branch:    an unconditional branch to the same target disables it
//   canary     the branch compares the stack canary; never to be touched. The guard is sought in front of it
//   bound      the branch keeps the index of a jump table in bounds; without it a wild jump follows
//   exception  the way in is a landing pad: it runs while an exception passes
//   start      the tail begins a function; its callers hold the guard
//   unknown    nothing is seen to lead there
//
// Several branches may share one tail: changing one of them disables only a part of the assertion.
#pragma once

#include "elf/asserts.h"

namespace npu::elf {

enum class GuardClass : std::uint8_t { taken, falls, canary, bound, exception, start, unknown };
const char* class_name(GuardClass c);

struct Guard {
    GuardClass kind = GuardClass::unknown;
    std::uint64_t site = 0;     // the branch; for exception, start and unknown: where the way begins
    std::uint64_t target = 0;   // of the branch
    std::uint32_t word = 0;     // as it is
    std::uint32_t patched = 0;  // what disables it; 0 when it must not be
    bool through_jump = false;  // the way leads over an unconditional branch (code moved away)

    [[nodiscard]] bool safe() const { return patched != 0; }
};

struct Guards {
    std::vector<Guard> all;  // by address

    // Branches that decide (not canaries): more than one means a shared tail.
    [[nodiscard]] std::size_t deciding() const;
};

// The guards of one assertion.
Guards find_guards(const Program& program, const AssertSite& site);

// Guards for many, with one pass over each function.
std::vector<Guards> find_guards(const Program& program, std::span<const AssertSite> sites);

// Why the branch at an address must not be patched, whoever asks: it compares the canary. Empty: no such reason.
std::string forbidden_branch(const Program& program, std::uint64_t address);

}  // namespace npu::elf
