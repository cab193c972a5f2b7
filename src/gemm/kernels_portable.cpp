// The specification of kernels.h: plain loops over the index functions of the layouts.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

#include "base/float_bits.h"
#include "base/integers.h"
#include "gemm/kernels.h"
#include "gemm/quantise.h"

namespace npu::gemm::portable {

namespace {

using compile::Precision;

template <typename Element>
Element load(const std::byte* from) {
    Element value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

template <typename Element, typename Convert>
void tile_rows(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
               std::byte* device, float* scales, const Convert& convert) {
    assert(compile::packed_bytes(layout.precision, 1) == sizeof(Element));
    assert(first + x.rows <= layout.rows && k <= layout.channels);
    std::vector<Element> converted(layout.channels);
    for (std::uint32_t row = 0; row < x.rows; ++row) {
        scales[row] = convert(x.data + row * x.stride, k, converted.data());
        for (std::uint32_t channel = 0; channel < layout.channels; ++channel) {
            std::memcpy(device + layout.offset(first + row, channel), &converted[channel], sizeof(Element));
        }
    }
}

template <typename Sum, typename Load>
void untile_rows(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                 const float* row_scales, const float* kernel_scales, TargetView y, const Load& load_partial) {
    assert(first + count <= results.layout.rows && n <= results.layout.channels);
    for (std::uint32_t m = first; m < first + count; ++m) {
        for (std::uint32_t channel = 0; channel < n; ++channel) {
            Sum sum{0};
            for (const std::byte* tile : results.tiles) {
                sum += load_partial(tile + results.layout.offset(m, channel));
            }
            y.data[m * y.stride + channel] = static_cast<float>(sum) * row_scales[m] * kernel_scales[channel];
        }
    }
}

int weight_at(Precision precision, const WeightTile& tile, std::uint32_t n, std::uint32_t kernel,
              std::uint32_t channel) {
    if (precision == Precision::int8) {
        const compile::WeightLayout layout{precision, align_up(n, 32U), tile.channels};
        return load<std::int8_t>(tile.data + layout.offset(kernel, channel));
    }
    const std::size_t block = std::size_t{kernel / 64} * (tile.channels / 32) + channel / 32;
    const std::size_t nibble = (block * 64 + kernel % 64) * 32 + channel % 32;
    const auto byte = static_cast<unsigned>(tile.data[nibble / 2]);
    const auto value = static_cast<int>(nibble % 2 == 0 ? byte & 0xfU : byte >> 4);
    return value >= 8 ? value - 16 : value;
}

}  // namespace

void quantise_and_tile(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
                       std::byte* device, float* scales) {
    tile_rows<std::int8_t>(layout, x, first, k, device, scales, quantise_int8);
}

void tile_half(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
               std::byte* device, float* factors) {
    tile_rows<std::uint16_t>(layout, x, first, k, device, factors, convert_fp16);
}

void scale_and_untile(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                      const float* row_scales, const float* kernel_scales, TargetView y) {
    switch (results.layout.precision) {
        case Precision::int32:
            return untile_rows<std::int64_t>(results, first, count, n, row_scales, kernel_scales, y,
                                             load<std::int32_t>);
        case Precision::fp32:
            return untile_rows<float>(results, first, count, n, row_scales, kernel_scales, y, load<float>);
        case Precision::fp16:
            return untile_rows<float>(results, first, count, n, row_scales, kernel_scales, y,
                                      [](const std::byte* from) { return half_to_float(load<std::uint16_t>(from)); });
        default: assert(false && "results are int32, fp32 or fp16");
    }
}

void multiply_on_cpu(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                     TargetView y) {
    const std::uint32_t group = kernels_per_group(weights);
    const std::uint32_t end = std::min(weights.n, (first_group + groups) * group);
    for (std::uint32_t m = 0; m < x.rows; ++m) {
        for (std::uint32_t kernel = first_group * group; kernel < end; ++kernel) {
            std::int64_t sum = 0;
            for (const WeightTile& tile : weights.tiles) {
                const std::uint32_t channels = std::min(tile.channels, weights.k - tile.k0);
                for (std::uint32_t channel = 0; channel < channels; ++channel) {
                    sum += x.values[m * x.stride + tile.k0 + channel] *
                           weight_at(weights.precision, tile, weights.n, kernel, channel);
                }
            }
            y.data[m * y.stride + kernel] = static_cast<float>(sum) * x.scales[m] * weights.scales[kernel];
        }
    }
}

}  // namespace npu::gemm::portable
