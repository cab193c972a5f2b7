// Rotates rows by a block-Hadamard matrix. A product of two rows does not change when both are rotated, but outliers are
// spread over their block, so that one large value does not take the resolution of all others: int8 and 4-bit
// quantisation get better. The block is the largest power of two that divides K; the matrix is orthogonal (scaled by one over
// the root of the block), and its own inverse.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::gemm {

// 1 for odd K, where there is nothing to rotate.
std::uint32_t hadamard_block(std::uint32_t k);

// Rotates `count` floats in place, in blocks of `block` (a power of two that divides count). Takes count * log2(block)
// additions. The portable version is the specification: the other one gives the same bits.
void rotate(float* row, std::size_t count, std::uint32_t block);

namespace portable {
void rotate(float* row, std::size_t count, std::uint32_t block);
}

}  // namespace npu::gemm
