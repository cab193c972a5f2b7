// The NPU of the RV1106 (and RV1103), as far as four published programs with their board outputs prove it. It is a
// relative of the RK3588's: the same command words, the same blocks at the same offsets, but the fields inside the
// registers differ, a whole program has 126 registers, and addresses are relative to PC.TASK_DMA_BASE_ADDR.
//
// Two kinds of task are known, both 1x1 convolutions to int8 with 16 lanes to a pixel:
//
//   image    packed unsigned bytes, three to a pixel, lines of 16 pixels; a converter subtracts the zero point; weights
//            are 4 bytes to a kernel
//   feature  what such a task wrote: int8, 16 lanes to a pixel; weights are 16 bytes to a kernel
//
// and what happens to the sums is the same: per output channel a bias, a weight zero point and a multiplier from a
// channel table that the DPU's DMA reads (4 channels to 32 bytes: four int32, four int16, four uint16), then an optional
// ReLU, then one multiplier, shift and zero point for all channels:
//
//   acc = sum((x - 128) * (w + table_zero)) + table_bias        feature: sum(x * (w + table_zero)) + table_bias
//   s   = half_even(acc * table_multiplier >> 14), at least 0 with ReLU
//   out = saturate(half_even(s * multiplier >> shift) + zero_point)
//
// What the published outputs prove: half-even in the first rounding (the two files made of ties); lanes 0 to 3 of the
// single convolutions and 0 to 2 of the chain. Higher lanes were zero before the board ran, so they do not tell written
// zeros from untouched bytes; here they are not touched. The second rounding never meets a tie there.
// The register words were rebuilt from published formulas; of registers that hold one value in all programs nothing is
// known but that value, so another one is refused. Texts name registers as the RK3588 does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "rockchip/command.h"
#include "rockchip/timing.h"
#include "sim/finding.h"
#include "sim/memory.h"

namespace npu::sim {

// A flat register file: whether this chip has two groups of registers does not show in programs that write all of them.
// A task inherits nothing, so poison() belongs before the writes of each task. Not thread-safe.
class Rv1106Registers {
  public:
    explicit Rv1106Registers(std::uint64_t seed = 1) : seed_(seed) {}

    // Fills everything with noise and forgets what was written.
    void poison(std::uint64_t seed);

    // Any offset; what reads it decides whether there is such a register.
    void write(std::uint16_t offset, std::uint32_t value) { written_[offset] = value; }

    // A register command of a list (not one for the PC, the separator or the enable word). Unlike on the RK3588 a list
    // writes S_POINTER of CNA and CORE itself. Refuses a target that does not belong to the offset.
    void apply(const rockchip::Command& command, Judge& judge);

    // Noise for a register that was not written.
    [[nodiscard]] std::uint32_t value(std::uint16_t offset) const;
    [[nodiscard]] bool written(std::uint16_t offset) const { return written_.contains(offset); }
    // In order of offset.
    [[nodiscard]] const std::map<std::uint16_t, std::uint32_t>& all_written() const { return written_; }

  private:
    std::uint64_t seed_;
    std::map<std::uint16_t, std::uint32_t> written_;
};

// Runs the task that a start with `enable` means. `memory` is what the addresses in the registers lead to, so the caller
// has added the DMA base. Empty when the task must not run: nothing is written and `judge` says why. `command_words` of
// the result is left at 0.
std::optional<rockchip::TaskWork> run_rv1106_task(const Rv1106Registers& registers, std::uint32_t enable,
                                                  const Memory& memory, Judge& judge);

}  // namespace npu::sim
