#include "sim/windows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/integers.h"

namespace npu::sim {

namespace {

// Copies one block of all positions; `bytes` is a constant so that the compiler can copy in registers.
template <std::size_t bytes>
std::byte* copy_block(const std::vector<const std::byte*>& positions, std::size_t offset, std::byte* to) {
    for (const std::byte* pixel : positions) {
        std::memcpy(to, pixel + offset, bytes);
        to += bytes;
    }
    return to;
}

}  // namespace

std::uint32_t channel_blocks(const Convolution& convolution) {
    return ceil_div(convolution.channels, step_channels(convolution));
}

std::uint32_t window_steps(const Convolution& convolution) {
    return channel_blocks(convolution) * convolution.positions();
}

bool plane_is_rows(const Convolution& convolution) {
    return convolution.is_product() && convolution.channels % step_channels(convolution) == 0;
}

void find_positions(const Convolution& convolution, const Plane& plane, std::uint32_t row,
                    const std::byte** positions) {
    const std::int64_t first_y =
        std::int64_t{row / convolution.output_width} * convolution.stride_y - std::int64_t{convolution.pad_top};
    const std::int64_t first_x =
        std::int64_t{row % convolution.output_width} * convolution.stride_x - std::int64_t{convolution.pad_left};
    const std::size_t pixel_bytes = convolution.row_bytes();
    for (std::uint32_t ky = 0; ky < convolution.kernel_height; ++ky) {
        const std::int64_t y = first_y + std::int64_t{ky} * convolution.dilation_y;
        const bool line_inside = y >= 0 && y < convolution.height;
        for (std::uint32_t kx = 0; kx < convolution.kernel_width; ++kx) {
            const std::int64_t x = first_x + std::int64_t{kx} * convolution.dilation_x;
            const bool inside = line_inside && x >= 0 && x < convolution.width;
            *positions++ = inside ? plane.pixels + static_cast<std::size_t>(y * convolution.width + x) * pixel_bytes
                                  : plane.padding;
        }
    }
}

void gather_windows(const Convolution& convolution, const Plane& plane, std::uint32_t first, std::uint32_t count,
                    std::byte* rows) {
    std::vector<const std::byte*> positions(convolution.positions());
    const std::size_t pixel_bytes = convolution.row_bytes();
    const std::size_t step_bytes = std::size_t{step_channels(convolution)} * rockchip::info(convolution.input).bits / 8;
    for (std::uint32_t row = first; row < first + count; ++row) {
        find_positions(convolution, plane, row, positions.data());
        for (std::size_t offset = 0; offset < pixel_bytes; offset += step_bytes) {
            const std::size_t bytes = std::min(step_bytes, pixel_bytes - offset);
            if (bytes < step_bytes) {
                for (const std::byte* pixel : positions) {
                    std::memcpy(rows, pixel + offset, bytes);
                    std::memset(rows + bytes, 0, step_bytes - bytes);
                    rows += step_bytes;
                }
            } else if (step_bytes == 16) {
                rows = copy_block<16>(positions, offset, rows);
            } else if (step_bytes == 32) {
                rows = copy_block<32>(positions, offset, rows);
            } else {
                rows = copy_block<64>(positions, offset, rows);
            }
        }
    }
}

}  // namespace npu::sim
