#include "sim/addressing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

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

std::int64_t output_line_bytes(const Convolution& convolution) {
    return atom * static_cast<std::int64_t>(convolution.width + convolution.output_notch_atoms);
}

// Output atoms as four nested counters, each with a stride in bytes.
struct Counter {
    std::int64_t stride;
    std::int64_t count;
    [[nodiscard]] std::int64_t reach() const { return stride * (count - 1); }
};

std::array<Counter, 4> output_counters(const Convolution& convolution) {
    return {{{atom, convolution.width},
             {output_line_bytes(convolution), convolution.height},
             {static_cast<std::int64_t>(convolution.output_surface_bytes), convolution.surfaces_per_group()},
             {static_cast<std::int64_t>(convolution.output_group_bytes), convolution.groups()}}};
}

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
    return {base, base + static_cast<std::int64_t>(convolution.weight_bytes)};
}

Extent output_extent(const Convolution& convolution) {
    std::int64_t end = static_cast<std::int64_t>(convolution.output_address) + atom;
    for (const Counter& counter : output_counters(convolution)) {
        end += counter.reach();
    }
    return {static_cast<std::int64_t>(convolution.output_address), end};
}

void gather_features(const Convolution& convolution, const std::byte* memory, std::byte* rows) {
    const FeatureStrides strides(convolution);
    const Extent extent = feature_extent(convolution);
    const std::byte* base = memory + (static_cast<std::int64_t>(convolution.feature_address) - extent.begin);
    const std::uint32_t surfaces = strides.surfaces();
    const std::uint64_t row_bytes = convolution.row_bytes();
    for (std::uint32_t h = 0; h < convolution.height; ++h) {
        for (std::uint32_t w = 0; w < convolution.width; ++w) {
            const std::byte* source = base + atom * (strides.line(h) + w);
            std::byte* row = rows + row_bytes * (std::uint64_t{h} * convolution.width + w);
            if (strides.surface == 1) {  // channels of a pixel are contiguous: a row-major matrix
                std::memcpy(row, source, row_bytes);
                continue;
            }
            for (std::uint32_t s = 0; s < surfaces; ++s) {
                std::memcpy(row + std::uint64_t{s} * atom, source + atom * strides.surface * s, atom);
            }
        }
    }
}

void scatter_group(const Convolution& convolution, std::uint32_t group, const std::byte* rows, std::byte* memory) {
    const std::uint32_t surfaces = convolution.surfaces_per_group();
    const std::uint64_t group_row_bytes = std::uint64_t{surfaces} * atom;
    std::byte* base = memory + group * convolution.output_group_bytes;
    const std::int64_t line = output_line_bytes(convolution);
    for (std::uint32_t h = 0; h < convolution.height; ++h) {
        for (std::uint32_t w = 0; w < convolution.width; ++w) {
            std::byte* pixel = base + h * line + atom * w;
            const std::byte* row = rows + group_row_bytes * (std::uint64_t{h} * convolution.width + w);
            for (std::uint32_t j = 0; j < surfaces; ++j) {
                std::memcpy(pixel + j * convolution.output_surface_bytes, row + std::uint64_t{j} * atom, atom);
            }
        }
    }
}

bool outputs_overlap(const Convolution& convolution) {
    auto counters = output_counters(convolution);
    std::ranges::sort(counters, {}, &Counter::stride);
    // Disjoint for certain when each counter steps over everything that the smaller ones reach.
    std::int64_t reach = atom;
    bool nested = true;
    for (const Counter& counter : counters) {
        if (counter.count == 1) {
            continue;
        }
        nested = nested && counter.stride >= reach;
        reach += counter.reach();
    }
    if (nested) {
        return false;
    }
    std::vector<bool> taken(static_cast<std::size_t>(reach / atom));
    for (std::int64_t a = 0; a < counters[0].count; ++a) {
        for (std::int64_t b = 0; b < counters[1].count; ++b) {
            for (std::int64_t c = 0; c < counters[2].count; ++c) {
                for (std::int64_t d = 0; d < counters[3].count; ++d) {
                    const std::int64_t bytes = a * counters[0].stride + b * counters[1].stride +
                                               c * counters[2].stride + d * counters[3].stride;
                    const auto place = static_cast<std::size_t>(bytes / atom);
                    if (taken[place]) {
                        return true;
                    }
                    taken[place] = true;
                }
            }
        }
    }
    return false;
}

}  // namespace npu::sim
