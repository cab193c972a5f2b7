// 4-bit numbers, two to a byte, the even one in the low half. The array multiplies int4 by int4 and its sums saturate at 16
// bits without a trace (measured), so how long a K tile may be follows from the largest operands: no sum of a tile can get
// there. Two uses:
//
//  W4A8  weights of 4 bits, activations of nearly 8: a value a = 16 h + l goes to the array as two rows, h and l, and the host
//        adds 16 times the first result to the second. With a from -119 to 119, h lies in -7..7 and l in -8..7.
//  int4  activations of 4 bits as well, -8..7 (opt-in: they lose much).
//
// Weights have a scale per output channel and K tile, since partial sums of tiles are added on the host anyway. A shorter tile
// follows the weights better and writes more partial sums: 256 channels halve what 576, the most, would lose.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gemm/block_rows.h"

namespace npu::gemm {

inline constexpr int largest_number4 = 8;  // numbers are -8..7
inline constexpr int largest_split = 119;  // 16 * 7 + 7

// Channels of a K tile.
inline constexpr std::uint32_t tile_k_4bit = 256;
static_assert(tile_k_4bit * largest_number4 * largest_number4 <= 32767, "no sum leaves 16 bits");

// Quantises `count` floats to -8..7 and returns the scale: 0 for a row of zeros, NaN for one with an infinity or a NaN (its
// numbers are 0 then). The value of largest magnitude becomes -8, so that all sixteen numbers are used; the scale is
// negative where that value is positive. Ties to even. `destination` gets (count + 1) / 2 bytes; the unused half of the last one is 0.
float quantise_int4(const float* row, std::size_t count, std::byte* destination);

// The same for a row of blocks; `count` is a multiple of 16.
float quantise_int4(BlockRow row, std::size_t count, std::byte* destination);

// The same as one byte each.
float quantise_to_four_bits(const float* row, std::size_t count, std::int8_t* values);

// Activations: quantises to -119..119 and splits each value into h and l; two rows as above.
float quantise_split(const float* row, std::size_t count, std::byte* high, std::byte* low);

// The i-th number of a packed row.
inline int nibble(const std::byte* row, std::size_t i) {
    const unsigned bits = std::to_integer<unsigned>(row[i / 2]) >> (i % 2 * 4) & 0xfU;
    return static_cast<int>(bits ^ 8U) - 8;
}

}  // namespace npu::gemm
