// Where outputs are written, from register values alone. The output cube is cut into surfaces of 16-byte atoms: with c2
// channels to an atom, surface s holds channels s*c2 to s*c2 + c2 - 1 of all pixels. Surfaces are counted in groups of
// S = SIZE_E + 1, and with h, w the pixel an atom lies at
//
//   D + (s / S)*surface_add + (s % S)*surf_stride + 16 * ( h*(W + notch) + w )
//
// Source: derived from captured programs and hardware-tested generators; agrees with all of them. Usually S is what one
// kernel group of the array fills. A smaller S works when SURFACE_ADD is the size of S surfaces (a hardware-tested fp16
// program has S = 1 and groups of 2 surfaces); with SURFACE_ADD of a whole kernel group the later surfaces of each group
// are never written (published). In flying mode every known program has S = 1.
//
// The transposed writer of int16 (BS_OW_CFG.TP_ORG_EN), for M pixels and up to 32 channels, in elements of 16 bits, as
// published; it is not known how the strides enter, so they must be those of the published program:
//
//   slot = 4*m + (n/4)%4 + (n/16)*4*M + (n%4)*16*M
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/dpu_task.h"
#include "sim/extent.h"

namespace npu::sim {

// Lowest to highest byte that the outputs of a task touch.
Extent output_extent(const DpuTask& task);

// True when surface `surface` of the output cube reaches memory.
bool surface_written(const DpuTask& task, std::uint32_t surface);

// Bytes from the beginning of the output to a written surface.
std::uint64_t surface_offset(const DpuTask& task, std::uint32_t surface);

// Writes `count` surfaces from `first` on. `rows` holds, pixel after pixel, `count` atoms in their final format; `memory`
// starts at output_extent().begin.
void scatter_surfaces(const DpuTask& task, std::uint32_t first, std::uint32_t count, const std::byte* rows,
                      std::byte* memory);

// Writes int16 values [pixels][channels] of the channels from `first_channel` on through the transposed writer.
void scatter_transposed(const DpuTask& task, std::uint32_t first_channel, std::uint32_t channels,
                        const std::int16_t* values, std::byte* memory);

// True when two outputs of the task would be written to the same atom.
bool outputs_overlap(const DpuTask& task);

}  // namespace npu::sim
