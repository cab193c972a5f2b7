// The registers of one core. Each block keeps its registers twice, in two groups: while the block runs a task from
// one group, the command list fills the other. With S_POINTER = 0xe, the value that nearly every program writes, the
// pointer moves to the other group each time the block is started; with 0x30 (both pointers cleared, no alternation) the
// block stays with group 0. A group keeps its values across tasks, jobs and
// processes, so a task inherits what it does not write from the task two positions earlier. Nothing ever clears
// them: at power-on they hold noise here, and a read of a register that nobody wrote is an error.
// Source: published measurements on both kernel drivers (task order full, full, delta, delta is exact; a delta after
// one full task runs with an older geometry).
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "rockchip/registers.h"
#include "sim/finding.h"

namespace npu::sim {

class BlockRegisters {
  public:
    static constexpr std::size_t count = 128;  // the highest offset of a block that commands reach is 0x184

    // Fills both groups with noise and forgets that anything was written.
    void poison(std::uint64_t seed);

    // Writes into the group that the pointer names. A write to S_POINTER is kept beside the groups.
    void write(std::uint16_t offset, std::uint32_t value);

    [[nodiscard]] std::uint32_t value(std::uint16_t offset) const { return groups_[pointer_][index(offset)]; }
    [[nodiscard]] bool written(std::uint16_t offset) const { return written_[pointer_][index(offset)]; }

    // The group that is being written, and that a start would run.
    [[nodiscard]] unsigned pointer() const { return pointer_; }

    // True when S_POINTER was written since the block was last started and the block will run the group that is being
    // written: the executer has a pointer of its own, which a list can clear but not set.
    [[nodiscard]] bool armed() const { return armed_ && pointer_ == executer_; }
    [[nodiscard]] std::uint32_t last_s_pointer() const { return s_pointer_; }

    // The block was started: with alternation the other group is written from now on.
    void started();

  private:
    static std::size_t index(std::uint16_t offset) { return (offset & 0xfffU) / 4; }

    std::array<std::array<std::uint32_t, count>, 2> groups_{};
    std::array<std::bitset<count>, 2> written_;
    unsigned pointer_ = 0;
    unsigned executer_ = 0;
    bool armed_ = false;
    std::uint32_t s_pointer_ = 0;
};

class RegisterState {
  public:
    explicit RegisterState(std::uint64_t seed) { poison(seed); }

    void poison(std::uint64_t seed);

    // What the kernel driver writes before each job: S_POINTER of CNA and CORE.
    void armed_by_kernel(unsigned core);

    // CNA to PPU_RDMA; other blocks are not reached by command lists.
    [[nodiscard]] BlockRegisters& block(rockchip::Block block);
    [[nodiscard]] const BlockRegisters& block(rockchip::Block block) const;

  private:
    std::array<BlockRegisters, 6> blocks_;
};

// Block that an offset belongs to, for the blocks that command lists reach.
rockchip::Block block_of(std::uint16_t offset);

// Reads the groups that a start would run, and notes every register that was read without ever being written. Such a
// register holds noise; in lenient mode it reads as 0, which is what most of them hold after a reset.
class RegisterReader {
  public:
    explicit RegisterReader(const RegisterState& state, Mode mode = Mode::strict) : state_(state), mode_(mode) {}

    std::uint32_t operator()(std::uint16_t offset);
    std::uint32_t operator()(const rockchip::Field& field) { return field.of((*this)(field.offset)); }

    // Offsets read although never written in their group.
    [[nodiscard]] const std::vector<std::uint16_t>& missing() const { return missing_; }

  private:
    const RegisterState& state_;
    Mode mode_;
    std::vector<std::uint16_t> missing_;
};

}  // namespace npu::sim
