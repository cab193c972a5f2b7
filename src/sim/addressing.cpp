#include "sim/addressing.h"

#include <algorithm>
#include <cstring>

namespace npu::sim {

namespace {

constexpr std::int64_t atom = rockchip::atom_bytes;

struct FeatureStrides {
    const Convolution& convolution;
    std::int64_t surface;  // atoms from one channel block to the next

    explicit FeatureStrides(const Convolution& shape)
        : convolution(shape),
          surface((shape.lines_in_groups_of_four ? 4 : 1) * std::int64_t{shape.width} + shape.surface_atoms) {}

    [[nodiscard]] std::int64_t line(std::uint32_t h) const {  // atoms from the base to line h
        const auto stride = static_cast<std::int64_t>(convolution.line_atoms);
        return convolution.lines_in_groups_of_four ? (h >> 2) * stride + std::int64_t{h & 3} * convolution.width
                                                   : h * stride;
    }
    [[nodiscard]] std::uint32_t surfaces() const {
        return static_cast<std::uint32_t>(convolution.row_bytes() / rockchip::atom_bytes);
    }
};

}  // namespace

Extent feature_extent(const Convolution& convolution) {
    const FeatureStrides strides(convolution);
    std::int64_t low = 0;
    std::int64_t high = 0;
    for (std::uint32_t h = 0; h < convolution.height; ++h) {
        low = std::min(low, strides.line(h));
        high = std::max(high, strides.line(h));
    }
    const std::int64_t last_surface = strides.surface * (strides.surfaces() - 1);
    low += std::min<std::int64_t>(0, last_surface);
    high += std::max<std::int64_t>(0, last_surface) + convolution.width;
    const auto base = static_cast<std::int64_t>(convolution.feature_address);
    return {base + atom * low, base + atom * high};
}

Extent weight_extent(const Convolution& convolution) {
    const auto base = static_cast<std::int64_t>(convolution.weight_address);
    return {base, base + static_cast<std::int64_t>(convolution.weight_memory_bytes)};
}

void gather_features(const Convolution& convolution, const std::byte* memory, std::byte* pixels) {
    const FeatureStrides strides(convolution);
    const Extent extent = feature_extent(convolution);
    const std::byte* base = memory + (static_cast<std::int64_t>(convolution.feature_address) - extent.begin);
    const std::uint32_t surfaces = strides.surfaces();
    const std::uint64_t pixel_bytes = convolution.row_bytes();
    for (std::uint32_t h = 0; h < convolution.height; ++h) {
        for (std::uint32_t w = 0; w < convolution.width; ++w) {
            const std::byte* source = base + atom * (strides.line(h) + w);
            std::byte* pixel = pixels + pixel_bytes * (std::uint64_t{h} * convolution.width + w);
            if (strides.surface == 1) {  // channels of a pixel are contiguous: a row-major matrix
                std::memcpy(pixel, source, pixel_bytes);
                continue;
            }
            for (std::uint32_t s = 0; s < surfaces; ++s) {
                std::memcpy(pixel + std::uint64_t{s} * atom, source + atom * strides.surface * s, atom);
            }
        }
    }
}

}  // namespace npu::sim
