// Where features are read and outputs are written, from register values alone. Memory is counted in atoms of 16
// bytes: one atom is one pixel of a few channels (a "surface" is the plane of such atoms). With h, w the pixel and s
// the surface,
//
//   features, GROUP_LINE_OFF = 1:  A + 16 * ( h*line + s*(W + surf) + w )
//   features, GROUP_LINE_OFF = 0:  A + 16 * ( (h>>2)*line + s*(4*W + surf) + (h&3)*W + w )      surf is signed
//   outputs:  D + (n / G)*surface_add + j*surf_stride + 16 * ( h*(W + notch) + w ),  j the surface in the group
//
// Weights are a plain stream and need no formula here. Source: derived from captured programs and hardware-tested
// generators; agrees with all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/convolution.h"

namespace npu::sim {

// A half-open range of NPU addresses. It may leave the 32-bit window: strides are free.
struct Extent {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

// Lowest to highest byte that the features, the weights or the outputs of a task touch.
Extent feature_extent(const Convolution& convolution);
Extent weight_extent(const Convolution& convolution);
Extent output_extent(const Convolution& convolution);

// Copies the features of all rows, row after row: row m = h*W + w holds its K channels in order. `memory` starts at
// feature_extent().begin; `rows` has feature_bytes() bytes.
void gather_features(const Convolution& convolution, const std::byte* memory, std::byte* rows);

// Writes one kernel group. `rows` holds, row after row, the group's outputs in their final format; `memory` starts
// at output_extent().begin.
void scatter_group(const Convolution& convolution, std::uint32_t group, const std::byte* rows, std::byte* memory);

// True when two outputs of the task would be written to the same atom.
bool outputs_overlap(const Convolution& convolution);

}  // namespace npu::sim
