// What the started blocks are asked to do, read from the registers. The registers say most numbers several times, once
// for each block; silicon hangs or corrupts when they disagree, so reading them is checking them.
#pragma once

#include <cstdint>
#include <optional>

#include "rockchip/chip.h"
#include "sim/convolution.h"
#include "sim/dpu_task.h"
#include "sim/finding.h"
#include "sim/pooling.h"
#include "sim/register_state.h"

namespace npu::sim {

// Either a convolution that feeds the DPU (enable 0x0d, 0x1d), or the DPU alone on data of its own (0x18), or pooling
// (0x60).
struct Task {
    std::uint32_t enable = 0;
    std::optional<Convolution> convolution;
    std::optional<DpuTask> dpu;
    std::optional<Pooling> pooling;
};

// Reads the groups that a start with `enable` would run. Empty when the task must not run; `judge` then says why.
// A register that was never written is reported first and alone, since its value is noise.
std::optional<Task> read_task(const RegisterState& state, std::uint32_t enable, const rockchip::ChipProfile& chip,
                              Judge& judge);

}  // namespace npu::sim
