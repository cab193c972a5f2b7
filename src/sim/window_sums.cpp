#include "sim/window_sums.h"

#include <numeric>

#include "sim/mac.h"

namespace npu::sim {

void sum_windows(const Convolution& convolution, const Plane& plane, std::vector<std::int64_t>& sums) {
    std::vector<std::int16_t> values(convolution.channels);
    const auto sum_pixel = [&](const std::byte* pixel) {
        decode_integers(convolution.input, pixel, convolution.channels, values.data());
        return std::accumulate(values.begin(), values.end(), std::int64_t{0});
    };
    const std::size_t pixel_bytes = convolution.row_bytes();
    std::vector<std::int64_t> pixels(std::size_t{convolution.width} * convolution.height);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
        pixels[i] = sum_pixel(plane.pixels + i * pixel_bytes);
    }
    const std::int64_t padding = sum_pixel(plane.padding);
    std::vector<const std::byte*> positions(convolution.positions());
    sums.assign(convolution.rows(), 0);
    for (std::uint32_t row = 0; row < convolution.rows(); ++row) {
        find_positions(convolution, plane, row, positions.data());
        for (const std::byte* pixel : positions) {
            sums[row] +=
                pixel == plane.padding ? padding : pixels[static_cast<std::size_t>(pixel - plane.pixels) / pixel_bytes];
        }
    }
}

}  // namespace npu::sim
