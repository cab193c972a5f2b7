// From a plane of pixels to the rows of a matrix product. The window of one output pixel is laid out as the array
// takes it, step after step: 32 channels (16 of tf32) of one position, all positions of a block of channels before the
// next block, the same order as in the weight stream. A convolution is then a product of these rows with the kernels,
// and the multiply-accumulate kernels need not know that windows exist. A last block with fewer channels is filled with
// zeros, positions outside the plane with the pad value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/convolution.h"

namespace npu::sim {

// Channels of one step.
inline std::uint32_t step_channels(const Convolution& convolution) {
    return rockchip::info(convolution.input).channels_per_block;
}
// Blocks of channels of a pixel; the last one may be partial.
std::uint32_t channel_blocks(const Convolution& convolution);
// Steps of a window: blocks times positions.
std::uint32_t window_steps(const Convolution& convolution);

// Where the windows are read from. Memory format; valid while it is used.
struct Plane {
    const std::byte* pixels;   // [height][width], row_bytes() each
    const std::byte* padding;  // one pixel
};

// True when the pixels of the plane, in order, are the rows already.
bool plane_is_rows(const Convolution& convolution);

// Pixels that the window of output pixel `row` covers: for each position, line by line, a pointer into the plane or
// to the padding.
void find_positions(const Convolution& convolution, const Plane& plane, std::uint32_t row, const std::byte** positions);

// Rows `first` to `first + count - 1`: window_steps() * step_channels() values each.
void gather_windows(const Convolution& convolution, const Plane& plane, std::uint32_t first, std::uint32_t count,
                    std::byte* rows);

}  // namespace npu::sim
