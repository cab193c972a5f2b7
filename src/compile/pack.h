// Between host rows and device layouts. Packing cuts rows of a row-major matrix into the pieces that lie together
// on the device (an atom of 16 bytes for features and outputs, one kernel's channel block for weights) and copies
// piece by piece; nothing is converted. Every function writes the padding that belongs to what it packs, as zeros,
// because the array multiplies padding like everything else. All are pure copies: thread-safe on disjoint ranges,
// and a matrix may be packed by several threads, each with its own range of rows or kernels.
//
// Pointers need no alignment. Dimensions that do not fit the layout are the caller's mistake and are asserted.
// The index functions in layout.h are the specification of these kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compile/layout.h"

namespace npu::compile {

// Host rows, row-major: row r begins at data + r * stride_bytes.
struct SourceRows {
    const void* data = nullptr;
    std::size_t stride_bytes = 0;
};

struct TargetRows {
    void* data = nullptr;
    std::size_t stride_bytes = 0;
};

// Copies kernels [first, first + count) x K channels into `device` (layout.bytes() long, start of the layout).
// Row r of `source` is kernel first + r. `first` is a multiple of G; count runs to the end of a group or to the
// last kernel there is. Channels from k to layout.channels, and the kernels that fill the last group, become zero.
// To pack a whole tile: first = 0, count = N; kernels from N to layout.kernels become zero.
void pack_weights(const WeightLayout& layout, SourceRows source, std::uint32_t first, std::uint32_t count,
                  std::uint32_t k, void* device);

// The inverse: copies kernels [first, first + count) x K channels out of `device`. Any range.
void unpack_weights(const WeightLayout& layout, const void* device, std::uint32_t first, std::uint32_t count,
                    std::uint32_t k, TargetRows target);

// Copies rows [first, first + count) x K channels into `device`; row r of `source` is row first + r of the layout.
// Channels from k to layout.channels become zero. Rows outside the range are left alone.
void pack_features(const FeatureLayout& layout, SourceRows source, std::uint32_t first, std::uint32_t count,
                   std::uint32_t k, void* device);

// Copies rows [first, first + count) x N channels out of a result, unconverted (2- or 4-byte elements alike).
void unpack_output(const OutputLayout& layout, const void* device, std::uint32_t first, std::uint32_t count,
                   std::uint32_t n, TargetRows target);

}  // namespace npu::compile
