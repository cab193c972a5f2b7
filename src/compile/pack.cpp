#include "compile/pack.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace npu::compile {

using rockchip::atom_bytes;
using rockchip::info;

namespace {

const std::byte* row_of(SourceRows rows, std::size_t row) {
    return static_cast<const std::byte*>(rows.data) + row * rows.stride_bytes;
}

std::byte* row_of(TargetRows rows, std::size_t row) {
    return static_cast<std::byte*>(rows.data) + row * rows.stride_bytes;
}

// Copies what there is of a piece that begins `at` bytes into a row of `row_bytes`, and fills the rest with zeros.
// A constant piece size lets the compiler turn a whole piece into a few vector moves.
template <std::size_t piece_bytes>
void copy_padded(std::byte* target, const std::byte* row, std::size_t at, std::size_t row_bytes) {
    if (at + piece_bytes <= row_bytes) {
        std::memcpy(target, row + at, piece_bytes);
        return;
    }
    const std::size_t present = at < row_bytes ? row_bytes - at : 0;
    if (present != 0) {
        std::memcpy(target, row + at, present);
    }
    std::memset(target + present, 0, piece_bytes - present);
}

template <std::size_t piece_bytes>
void copy_clipped(std::byte* row, const std::byte* source, std::size_t at, std::size_t row_bytes) {
    if (at + piece_bytes <= row_bytes) {
        std::memcpy(row + at, source, piece_bytes);
    } else if (at < row_bytes) {
        std::memcpy(row + at, source, row_bytes - at);
    }
}

// A piece is one kernel's channel block: KB elements.
template <std::size_t piece_bytes>
void pack_kernels(const WeightLayout& layout, SourceRows source, std::uint32_t first, std::uint32_t count,
                  std::size_t row_bytes, std::byte* device) {
    const std::uint32_t group = info(layout.precision).kernels_per_group;
    const std::size_t padded_bytes = packed_bytes(layout.precision, layout.channels);
    std::byte* target = device + layout.offset(first, 0);
    for (std::uint32_t done = 0; done < count; done += group) {
        const std::uint32_t present = std::min(group, count - done);
        for (std::size_t at = 0; at < padded_bytes; at += piece_bytes) {
            for (std::uint32_t kernel = 0; kernel < present; ++kernel, target += piece_bytes) {
                copy_padded<piece_bytes>(target, row_of(source, std::size_t{done} + kernel), at, row_bytes);
            }
            std::memset(target, 0, (group - present) * piece_bytes);
            target += (group - present) * piece_bytes;
        }
    }
}

template <std::size_t piece_bytes>
void unpack_kernels(const WeightLayout& layout, const std::byte* device, std::uint32_t first, std::uint32_t count,
                    std::size_t row_bytes, TargetRows target) {
    const std::size_t next_piece = std::size_t{info(layout.precision).kernels_per_group} * piece_bytes;
    for (std::uint32_t kernel = 0; kernel < count; ++kernel) {
        const std::byte* source = device + layout.offset(first + kernel, 0);
        std::byte* row = row_of(target, kernel);
        for (std::size_t at = 0; at < row_bytes; at += piece_bytes, source += next_piece) {
            copy_clipped<piece_bytes>(row, source, at, row_bytes);
        }
    }
}

// Rows that are handled together, so that their cache lines are used up before they are left.
constexpr std::uint32_t rows_together = 32;

}  // namespace

void pack_weights(const WeightLayout& layout, SourceRows source, std::uint32_t first, std::uint32_t count,
                  std::uint32_t k, void* device) {
    [[maybe_unused]] const std::uint32_t group = info(layout.precision).kernels_per_group;
    assert(first % group == 0 && first + align_up(count, group) <= layout.kernels && k <= layout.channels);
    const std::size_t row_bytes = packed_bytes(layout.precision, k);
    auto* target = static_cast<std::byte*>(device);
    switch (packed_bytes(layout.precision, info(layout.precision).channels_per_block)) {
        case 16: return pack_kernels<16>(layout, source, first, count, row_bytes, target);
        case 32: return pack_kernels<32>(layout, source, first, count, row_bytes, target);
        default: return pack_kernels<64>(layout, source, first, count, row_bytes, target);
    }
}

void unpack_weights(const WeightLayout& layout, const void* device, std::uint32_t first, std::uint32_t count,
                    std::uint32_t k, TargetRows target) {
    assert(first + count <= layout.kernels && k <= layout.channels);
    const std::size_t row_bytes = packed_bytes(layout.precision, k);
    const auto* source = static_cast<const std::byte*>(device);
    switch (packed_bytes(layout.precision, info(layout.precision).channels_per_block)) {
        case 16: return unpack_kernels<16>(layout, source, first, count, row_bytes, target);
        case 32: return unpack_kernels<32>(layout, source, first, count, row_bytes, target);
        default: return unpack_kernels<64>(layout, source, first, count, row_bytes, target);
    }
}

void pack_features(const FeatureLayout& layout, SourceRows source, std::uint32_t first, std::uint32_t count,
                   std::uint32_t k, void* device) {
    assert(first + count <= layout.rows && k <= layout.channels);
    const std::size_t row_bytes = packed_bytes(layout.precision, k);
    const std::size_t padded_bytes = packed_bytes(layout.precision, layout.channels);
    auto* target = static_cast<std::byte*>(device);
    if (layout.arrangement == Arrangement::row_major) {
        for (std::uint32_t row = 0; row < count; ++row) {
            std::byte* packed = target + layout.offset(first + row, 0);
            if (row_bytes != 0) {
                std::memcpy(packed, row_of(source, row), row_bytes);
            }
            std::memset(packed + row_bytes, 0, padded_bytes - row_bytes);
        }
        return;
    }
    for (std::uint32_t row = 0; row < count; row += rows_together) {
        const std::uint32_t rows = std::min(rows_together, count - row);
        std::byte* surface = target + layout.offset(first + row, 0);
        for (std::size_t at = 0; at < padded_bytes; at += atom_bytes) {
            for (std::uint32_t i = 0; i < rows; ++i) {
                copy_padded<atom_bytes>(surface + std::size_t{i} * atom_bytes, row_of(source, std::size_t{row} + i), at,
                                        row_bytes);
            }
            surface += std::size_t{layout.rows} * atom_bytes;
        }
    }
}

void unpack_output(const OutputLayout& layout, const void* device, std::uint32_t first, std::uint32_t count,
                   std::uint32_t n, TargetRows target) {
    assert(first + count <= layout.rows && n <= layout.channels);
    const std::size_t row_bytes = packed_bytes(layout.precision, n);
    const auto* source = static_cast<const std::byte*>(device);
    if (layout.arrangement == Arrangement::row_major) {
        for (std::uint32_t row = 0; row < count && row_bytes != 0; ++row) {
            std::memcpy(row_of(target, row), source + layout.offset(first + row, 0), row_bytes);
        }
        return;
    }
    for (std::uint32_t row = 0; row < count; row += rows_together) {
        const std::uint32_t rows = std::min(rows_together, count - row);
        const std::byte* surface = source + layout.offset(first + row, 0);
        for (std::size_t at = 0; at < row_bytes; at += atom_bytes) {
            for (std::uint32_t i = 0; i < rows; ++i) {
                copy_clipped<atom_bytes>(row_of(target, std::size_t{row} + i), surface + std::size_t{i} * atom_bytes,
                                         at, row_bytes);
            }
            surface += std::size_t{layout.rows} * atom_bytes;
        }
    }
}

}  // namespace npu::compile
