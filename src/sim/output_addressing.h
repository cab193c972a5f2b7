// Where outputs are written, from register values alone. With h, w the pixel, G the channels of a group, n the channel
// and j its 16-byte surface within the group:
//
//   D + (n / G)*surface_add + j*surf_stride + 16 * ( h*(W + notch) + w )
//
// Source: derived from captured programs and hardware-tested generators; agrees with all of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/dpu_task.h"
#include "sim/extent.h"

namespace npu::sim {

// Lowest to highest byte that the outputs of a task touch.
Extent output_extent(const DpuTask& task);

// Writes one group. `rows` holds, pixel after pixel, the group's outputs in their final format; `memory` starts
// at output_extent().begin.
void scatter_group(const DpuTask& task, std::uint32_t group, const std::byte* rows, std::byte* memory);

// True when two outputs of the task would be written to the same atom.
bool outputs_overlap(const DpuTask& task);

}  // namespace npu::sim
