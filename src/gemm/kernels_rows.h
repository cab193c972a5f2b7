// Rows to whole numbers, without a layout: what becomes weights, and what the CPU multiplies. A row is read twice, for its
// largest magnitude and for its values; rows of blocks (block_rows.h) are small enough to stay in the nearest cache between.
//
// As in kernels.h each kernel exists twice: namespace portable is the specification, the ones outside give the same bits with
// the processor's best instructions (a scale of NaN stays NaN). Pure functions, thread-safe; pointers need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gemm/block_rows.h"

namespace npu::gemm {

// Quantises to -bound..bound, at most 127, as quantise_int8 does to 127: returns the scale, 0 for a row of zeros, and NaN for
// one that holds an infinity or a NaN, whose numbers are 0 then.
float quantise_values(int bound, const float* row, std::size_t count, std::int8_t* values);

// The same for a row of blocks; `count` is a multiple of 16.
float quantise_values(int bound, BlockRow row, std::size_t count, std::int8_t* values);

// The low four bits of each value, two to a byte, the even one in the low half: (count + 1) / 2 bytes. An odd last one
// leaves the upper half 0.
void pack_nibbles(const std::int8_t* values, std::size_t count, std::byte* packed);

// Makes values of -8..8 ones of -8..7: turned around where fewer are lost so, then cut off at 7. Returns whether they were
// turned.
bool fold_to_nibbles(std::int8_t* values, std::size_t count);

namespace portable {

float quantise_values(int bound, const float* row, std::size_t count, std::int8_t* values);
float quantise_values(int bound, BlockRow row, std::size_t count, std::int8_t* values);
void pack_nibbles(const std::int8_t* values, std::size_t count, std::byte* packed);
bool fold_to_nibbles(std::int8_t* values, std::size_t count);

}  // namespace portable

}  // namespace npu::gemm
