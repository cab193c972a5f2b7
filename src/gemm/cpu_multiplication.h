// What multiply_on_cpu does around its inner kernel, whatever instructions that uses: activations are brought into the
// form that the kernel reads (elements of X), every group is summed K tile by K tile, and the exact totals are scaled.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/integers.h"
#include "gemm/kernels.h"

namespace npu::gemm {

inline constexpr std::uint32_t channels_per_block = 32;
inline constexpr std::uint32_t most_rows_at_once = 8;
inline constexpr std::uint32_t largest_group = 64;

// Copies the channels that the tiles cover, tile after tile, with zeros beyond K; for int4 the even channels of a block
// before the odd ones, as the nibbles deliver them.
template <typename X>
void prepare_row(const WeightTiles& weights, const std::int8_t* row, X* prepared) {
    for (const WeightTile& tile : weights.tiles) {
        for (std::uint32_t i = 0; i < tile.channels; ++i) {
            const std::uint32_t in_block = i % channels_per_block;
            const std::uint32_t place = weights.precision == compile::Precision::int8
                                            ? in_block
                                            : in_block / 2 + in_block % 2 * (channels_per_block / 2);
            const std::uint32_t channel = tile.k0 + i;
            prepared[i - in_block + place] = channel < weights.k ? row[channel] : X{0};
        }
        prepared += tile.channels;
    }
}

// `group_sums(group, blocks, x, x_stride, rows, sums)` writes sums[row][kernel] of one group in one K tile, exactly:
// `group` holds `blocks` blocks of 1024 bytes, and row r of x, prepared, begins at x + r * x_stride.
template <typename X, typename GroupSums>
void multiply_with(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                   TargetView y, const GroupSums& group_sums) {
    const std::uint32_t group = kernels_per_group(weights);
    constexpr std::size_t block_bytes = 1024;  // of a whole group: 32 x 32 bytes or 64 x 32 nibbles
    std::size_t channels = 0;
    for (const WeightTile& tile : weights.tiles) {
        assert(tile.channels % channels_per_block == 0 && tile.channels <= most_channels_in_int32);
        channels += tile.channels;
    }
    // Rows begin on cache lines, so that no load straddles two; and some lines apart beyond their length, because rows a power
    // of two apart would all want the same places of the nearest cache.
    constexpr std::size_t line = 64 / sizeof(X);
    const std::size_t stride = align_up(channels, line) + 5 * line;
    std::vector<X> memory(stride * x.rows + line);
    const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
    X* prepared = memory.data() + (misplaced == 0 ? 0 : (64 - misplaced) / sizeof(X));
    for (std::uint32_t row = 0; row < x.rows; ++row) {
        prepare_row(weights, x.values + row * x.stride, prepared + row * stride);
    }
    for (std::uint32_t g = first_group; g < first_group + groups; ++g) {
        std::int64_t totals[most_rows_at_once][largest_group] = {};
        std::size_t tile_start = 0;
        for (const WeightTile& tile : weights.tiles) {
            std::int32_t sums[most_rows_at_once * largest_group];
            const std::size_t blocks = tile.channels / channels_per_block;
            group_sums(tile.data + g * blocks * block_bytes, blocks, prepared + tile_start, stride, x.rows, sums);
            for (std::uint32_t row = 0; row < x.rows; ++row) {
                for (std::uint32_t kernel = 0; kernel < group; ++kernel) {
                    totals[row][kernel] += sums[row * group + kernel];
                }
            }
            tile_start += tile.channels;
        }
        const std::uint32_t first = g * group;
        const std::uint32_t kernels = first < weights.n ? std::min(group, weights.n - first) : 0;
        for (std::uint32_t row = 0; row < x.rows; ++row) {
            for (std::uint32_t kernel = 0; kernel < kernels; ++kernel) {
                y.data[row * y.stride + first + kernel] =
                    static_cast<float>(totals[row][kernel]) * x.scales[row] * weights.scales[first + kernel];
            }
        }
    }
}

}  // namespace npu::gemm
