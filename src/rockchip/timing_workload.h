// The tasks of a matmul that somebody else's planner cut. A published time is worth comparing with only if one knows
// which tasks ran, so each published row (timing_measurements.h) says how its program tiles, and this makes the tasks:
// N is dealt to the cores in whole tiles; each core goes through its row tiles, in each through its K tiles, in each
// through its channel tiles. That is the order in which features can stay in the CBUF, and the one that programs in
// the field use. Weights are streamed for each task.
#pragma once

#include <cstdint>
#include <vector>

#include "rockchip/precision.h"
#include "rockchip/timing.h"

namespace npu::rockchip {

// How a program cuts a matmul. 0 rows, channels or kernels in a task mean all of them (kernels: all of the core's).
struct Tiling {
    std::uint32_t m = 0;
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    bool features_stay = false;  // DATA_REUSE: the features are fetched for the first channel tile only
    bool accumulates = false;    // the DPU adds the previous K tile's result, which it reads back from memory
    std::uint32_t command_words = 112;
};

struct MatmulWork {
    std::uint32_t m = 0;
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    Precision input = Precision::fp16;
    Precision output = Precision::fp32;
};

// One list of tasks per core that has work. M, N, K > 0, cores > 0. K and N are padded to channel blocks and kernel
// groups, as the array needs them.
std::vector<std::vector<TaskWork>> tiled_tasks(const MatmulWork& matmul, const Tiling& tiling, std::uint32_t cores);

// Bytes of `count` elements.
std::uint64_t bytes_of(std::uint64_t count, Precision precision);

}  // namespace npu::rockchip
