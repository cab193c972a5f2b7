// What the host's own cores do around a multiplication: from float rows to the array's order of atoms, from its results
// to float rows, and, for a handful of rows, the multiplication itself. None of it computes much; all of it moves as
// many bytes as a copy would, so the measure of each kernel is memcpy.
//
//  activations  A row is read twice, for its largest magnitude and for its values; an atom (16 bytes) leaves for its
//               place in [K/C2][M][C2] as soon as it is converted. Atoms of four rows make a cache line there, so rows
//               go together and lines are written whole.
//  results      [N/c2][M][c2], once per K tile: the tiles' atoms are added, scaled and stored as floats in one pass.
//  small M      A decoder multiplies one row. The NPU would read all weights for it, as would the CPU, which needs no
//               submission; and it reads the same resident tiles, so that weights exist once. A whole group of kernels
//               is contiguous, one K tile after the other.
//
// Each kernel exists twice. namespace portable holds plain loops over the index functions of compile/layout.h: they are
// the specification. The ones outside it are written with Highway, compiled for several instruction sets and chosen at
// run time, and give the same bits for every input (NaN stays NaN; its payload is not specified).
//
// Pure functions, thread-safe on disjoint ranges of rows or kernel groups; pointers need no alignment. Dimensions that do
// not fit a layout are the caller's mistake and are asserted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compile/layout.h"
#include "gemm/rows.h"

namespace npu::gemm {

// Quantises rows to int8 as quantise_int8 does and writes them as rows [first, first + x.rows) of `layout` (int8), whose
// channels beyond K become zero. `device` is the start of the layout; scales gets x.rows entries.
void quantise_and_tile(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
                       std::byte* device, float* scales);

// The same for fp16, as convert_fp16 does.
void tile_half(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
               std::byte* device, float* factors);

// Partial results of one multiplication: a result of `layout` for each K tile.
struct PartialResults {
    compile::OutputLayout layout;               // int32, fp32 or fp16
    std::span<const std::byte* const> tiles{};  // start of the layout, one per K tile
    std::uint32_t k = 0;                        // input channels of all tiles together
};

// Rows [first, first + count): y[m][n] = float(sum of the tiles' [m][n]) * row_scales[m] * kernel_scales[n], in this
// order, for n < N. int32 sums are exact, in 64 bits, until they become float; fp32 and fp16 ones are added in float in
// the order of the tiles, to zero. `y`, row_scales and kernel_scales begin at row 0 and channel 0.
void scale_and_untile(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                      const float* row_scales, const float* kernel_scales, TargetView y);

// Up to this many channels a sum of int8 products fits int32 whatever the operands are: K * 2^14 <= 2^31 - 1. Results of
// no more channels are added in 32 bits, which is the same number.
inline constexpr std::uint32_t most_channels_in_int32 = 131071;

// One K tile of resident weights: channels [k0, k0 + channels) in the order of WeightLayout, all groups of kernels.
struct WeightTile {
    const std::byte* data = nullptr;
    std::uint32_t k0 = 0;
    std::uint32_t channels = 0;  // a multiple of 32; those beyond K are zero
};

// Resident weights as the CPU sees them. int4: 64 kernels to a group, blocks of 32 channels, two channels to a byte, the
// even one in the low nibble (two open generators whose results match the chip bit for bit write it so; a third swaps
// the nibbles of both operands, which no product can tell).
struct WeightTiles {
    compile::Precision precision = compile::Precision::int8;  // or int4
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    std::span<const WeightTile> tiles{};
    const float* scales = nullptr;  // one per kernel
};

// Rows of int8 that were quantised from floats: row r begins at values + r * stride, K values.
struct QuantisedRows {
    const std::int8_t* values = nullptr;
    std::size_t stride = 0;
    std::uint32_t rows = 0;
    const float* scales = nullptr;  // one per row
};

// Kernels per group (G): the unit in which threads share multiply_on_cpu.
std::uint32_t kernels_per_group(const WeightTiles& weights);

// y[m][n] = float(sum over k of x[m][k] * w[n][k]) * x.scales[m] * weights.scales[n] for the kernels of `groups` groups
// from `first_group` on; `y` begins at kernel 0. Sums are exact, so the result is the array's, bit for bit. Meant for up
// to 8 rows: any number is right, but each 8 read the weights again.
void multiply_on_cpu(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                     TargetView y);

// Instruction set that the kernels run with on this machine, as Highway names it.
const char* kernel_instruction_set();

namespace portable {

void quantise_and_tile(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
                       std::byte* device, float* scales);
void tile_half(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
               std::byte* device, float* factors);
void scale_and_untile(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                      const float* row_scales, const float* kernel_scales, TargetView y);
void multiply_on_cpu(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                     TargetView y);

}  // namespace portable

}  // namespace npu::gemm
