// What registers hold, along every path. A compiler makes an address in two steps that may stand far apart, in different
// blocks, with other code between; and it makes one ADRP serve several additions. So the values are followed as a compiler
// would follow them: per basic block, joined where paths meet (a register keeps its value only if all paths agree), until
// nothing changes. What a call may change is forgotten at the call; what memory holds is not known, except pointers that
// the dynamic linker writes once into memory that is read-only afterwards.
#pragma once

#include <array>
#include <functional>

#include "elf/program.h"

namespace npu::elf {

struct Registers {
    std::uint32_t known = 0;
    std::uint32_t page = 0;     // known, and what ADRP gave: half an address
    std::uint32_t address = 0;  // known, and made from the position of code, so it points somewhere
    std::array<std::uint64_t, 31> values{};

    [[nodiscard]] std::optional<std::uint64_t> get(unsigned reg) const {
        return reg < 31 && (known >> reg & 1) != 0 ? std::optional(values[reg]) : std::nullopt;
    }
    [[nodiscard]] bool is_page(unsigned reg) const { return reg < 31 && (page >> reg & 1) != 0; }
    [[nodiscard]] bool is_address(unsigned reg) const { return reg < 31 && (address >> reg & 1) != 0; }
    void forget(std::uint32_t registers);
    void set(unsigned reg, std::uint64_t value, bool is_an_address, bool is_a_page = false);
    // Keeps what both agree on; true when something was lost.
    bool meet(const Registers& other);
};

// Follows one function with all its parts. Beside moves and additions it knows what a comparison proves: behind
// `cmp x4, #33; b.ne elsewhere` x4 is 33, and compilers use that. A landing pad begins with what held at the calls that
// lead to it, so far as a call preserves it.
class Flow {
  public:
    struct Block {
        std::uint64_t start = 0;
        std::uint64_t end = 0;
        std::vector<std::size_t> from;  // blocks that lead here
        std::vector<std::size_t> to;
        bool root = false;  // entered otherwise, too: function start, landing pad, jump table
        bool seen = false;
        Registers in;
    };
    // Called with the registers as they are before the instruction.
    using Visitor = std::function<void(std::uint64_t address, const Instruction&, const Registers&)>;

    // `group`: indices of functions that belong together. The program must outlive this.
    Flow(const Program& program, std::span<const std::size_t> group);

    [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }
    [[nodiscard]] std::optional<std::size_t> block_at(std::uint64_t address) const;
    // Runs through a block from given registers; returns those at its end.
    Registers walk(const Block& block, Registers registers, const Visitor& visit = {}) const;
    void walk_all(const Visitor& visit) const;

  private:
    void cut(std::span<const std::size_t> group);
    void connect();
    void settle();
    void run(const std::vector<std::size_t>& first);
    bool enter(std::size_t block, const Registers& registers);
    [[nodiscard]] Registers along(const Block& from, std::size_t to, Registers registers) const;
    void step(const Instruction& i, std::uint64_t address, Registers& registers) const;

    const Program& program_;
    std::vector<Block> blocks_;  // by address
    std::map<std::uint64_t, bool> leaders_;
    std::vector<LandingPad> pads_;
};

// The pointer at a place, if the dynamic linker writes it and nobody may change it later.
std::optional<std::uint64_t> constant_pointer(const Program& program, std::uint64_t place);

}  // namespace npu::elf
