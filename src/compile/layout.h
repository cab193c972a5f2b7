// Where an element of a matrix lies in device memory. The array reads features and weights, and writes outputs,
// in 16-byte atoms, and each of the three matrices has its own order of atoms:
//
//   features, native     [K/C2][M][C2]        all rows of one atom-wide channel block, then the next block
//   features, row-major  [M][K]               as the host stores it
//   weights              [N/G][K/KB][G][KB]   kernel groups; inside, channel blocks; inside, whole kernels
//   outputs, native      [N/c2][M][c2]        c2 = elements of the *output* format in an atom
//   outputs, row-major   [M][N]
//
// C2, G and KB belong to the input precision (rockchip/precision.h). Each layout is an index function
// (row, channel) -> byte offset over dimensions already padded to whole blocks; the hardware does not mask, so
// padding must be zero. The index functions are the specification: pack.h is tested against them, and the plan
// takes every base address of a tile from them. Of two int4 elements in a byte, the one of the even channel is the low half
// (two generators agree on that; a third swaps features and weights alike, which gives the same products).
// Source: published layouts of four independent generators, which agree; they follow from the address formulas
// that reproduce every captured program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/integers.h"
#include "base/result.h"
#include "rockchip/precision.h"

namespace npu::compile {

using rockchip::Precision;

enum class Arrangement : std::uint8_t { native, row_major };

// K rounded up to whole channel blocks (KB) of an input precision.
inline std::uint32_t padded_channels(Precision input, std::uint32_t k) {
    return align_up<std::uint32_t>(k, rockchip::info(input).channels_per_block);
}

// N rounded up to whole kernel groups (G) of an input precision.
inline std::uint32_t padded_kernels(Precision input, std::uint32_t n) {
    return align_up<std::uint32_t>(n, rockchip::info(input).kernels_per_group);
}

// Bytes of a whole number of elements; two of int4 share a byte, and an odd one takes one of its own.
inline std::size_t packed_bytes(Precision precision, std::size_t elements) {
    return (elements * rockchip::info(precision).bits + 7) / 8;
}

// The activations: `rows` (M) by `channels` (K, a multiple of KB).
struct FeatureLayout {
    Precision precision = Precision::int8;
    Arrangement arrangement = Arrangement::native;
    std::uint32_t rows = 0;
    std::uint32_t channels = 0;

    [[nodiscard]] std::size_t offset(std::uint32_t row, std::uint32_t channel) const;
    [[nodiscard]] std::size_t bytes() const;
    friend bool operator==(const FeatureLayout&, const FeatureLayout&) = default;
};

// The weights of one K tile: `kernels` (N, a multiple of G) by `channels` (K of the tile, a multiple of KB).
struct WeightLayout {
    Precision precision = Precision::int8;
    std::uint32_t kernels = 0;
    std::uint32_t channels = 0;

    [[nodiscard]] std::size_t offset(std::uint32_t kernel, std::uint32_t channel) const;
    [[nodiscard]] std::size_t bytes() const;
    friend bool operator==(const WeightLayout&, const WeightLayout&) = default;
};

// The result of one K tile: `rows` (M) by `channels` (N, a multiple of G). `precision` is the output format.
struct OutputLayout {
    Precision precision = Precision::int32;
    Arrangement arrangement = Arrangement::native;
    std::uint32_t rows = 0;
    std::uint32_t channels = 0;

    [[nodiscard]] std::size_t offset(std::uint32_t row, std::uint32_t channel) const;
    [[nodiscard]] std::size_t bytes() const;
    friend bool operator==(const OutputLayout&, const OutputLayout&) = default;
};

// Walks every element and makes sure that offsets are aligned to elements, inside bytes(), and never shared (halves of a byte
// apart);
// since bytes() is exactly the elements' size, that makes the layout a bijection. Slow: for tests and tools.
// Errors: invalid_argument for dimensions that are not whole blocks
// and for any violation, naming the element.
Result<void> check_bijection(const FeatureLayout& layout);
Result<void> check_bijection(const WeightLayout& layout);
Result<void> check_bijection(const OutputLayout& layout);

}  // namespace npu::compile
