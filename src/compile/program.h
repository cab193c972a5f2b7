// A plan at concrete addresses: the words that go to device memory. The tasks of one core are chained by their
// tails, so that one submission runs them all:
//
//   segment (64-byte aligned):  body | next task's address or 0 | next task's amount or 0 | separator | enable
//
// Chains of different cores lie one after another and do not refer to each other. A program is relocatable: every
// word that holds an address is listed with the buffer it points into, so that a cached program is aimed at other
// buffers by rewriting those words and no others. A program that runs one task per kick (mainline driver) uses the
// same words; the kernel ignores the tails' addresses there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "compile/plan.h"
#include "compile/task.h"

namespace npu::compile {

inline constexpr std::uint32_t segment_bytes = 64;  // alignment of segments, and of Addresses::program

struct TaskEntry {
    std::uint32_t word_offset = 0;  // of the first body word in Program::words
    std::uint32_t body_words = 0;   // without the four-word tail
    std::uint32_t enable = 0;       // bits of the enable word
    friend bool operator==(const TaskEntry&, const TaskEntry&) = default;
};

// Tasks [first_task, first_task + task_count) of Program::tasks.
struct CoreRange {
    std::uint32_t first_task = 0;
    std::uint32_t task_count = 0;
    friend bool operator==(const CoreRange&, const CoreRange&) = default;
};

enum class Buffer : std::uint8_t { features, weights, output, program };

// The value field of words[word] is the address of `buffer` plus `addend`.
struct Relocation {
    std::uint32_t word = 0;
    Buffer buffer = Buffer::features;
    std::uint64_t addend = 0;
    friend bool operator==(const Relocation&, const Relocation&) = default;
};

struct Program {
    std::vector<std::uint64_t> words;
    std::vector<TaskEntry> tasks;  // core by core
    std::vector<CoreRange> cores;
    std::vector<Relocation> relocations;
    friend bool operator==(const Program&, const Program&) = default;
};

// Emits every task of the plan with buffers at `bases`, and chains them, each core's adds behind its matmul tasks.
// Errors: invalid_argument for bases that are not aligned (16 bytes; 64 for the program) or whose buffers do not
// end within the 32-bit address space; whatever emit_task refuses.
Result<Program> build_program(const Plan& plan, const Addresses& bases, const ChipProfile& chip);

// The plan's matmul tasks with addresses filled in, per core.
std::vector<std::vector<TaskSpec>> task_specs(const Plan& plan, const Addresses& bases);

// Chains any matmul tasks, per core. Addresses in the specs are absolute, none below its base in `bases`.
Result<Program> link_program(std::span<const std::vector<TaskSpec>> cores, const Addresses& bases,
                             const ChipProfile& chip);

// Where the chain of a core goes on after its last task.
struct NextTask {
    std::uint64_t address = 0;     // of its first word
    std::uint32_t body_words = 0;  // without the tail
};

// Makes the last task of core `core` lead to a task of another program, so that one submission runs both. relocate() leaves
// the link as it is.
void lead_on(Program& program, std::size_t core, const NextTask& next);

// Rewrites the address words, and only those, for buffers at `bases`. `words` may be the program in device memory.
// Errors as for bases in build_program, except that the ends of buffers are not known here; nothing is written
// after an error.
Result<void> relocate(std::span<std::uint64_t> words, std::span<const Relocation> relocations, const Addresses& bases);

inline Result<void> relocate(Program& program, const Addresses& bases) {
    return relocate(program.words, program.relocations, bases);
}

}  // namespace npu::compile
