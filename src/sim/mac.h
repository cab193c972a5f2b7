// The multiply-accumulate array. What it computes, per output: with integers the exact sum over K; with floats, each
// aligned group of 32 consecutive products is summed exactly and rounded once to fp32, and the groups are added in K
// order in fp32, starting from 0. (fp16 measured so on silicon; for bf16 and tf32 the group length is not published
// and 32 is assumed. One measured exception, output lanes n % 16 == 0 sometimes low by 2^-16, is not modelled.)
//
// Exact sums are slow, so the kernels use double arithmetic where it is exact too. Let `top` be the exponent of the
// largest and `low` that of the lowest mantissa bit in 32 values: all partial sums of 32 products are multiples of
// 2^(lowA + lowB) below 2^(topA + topB + 7), and a double holds those exactly, in any order, if
// (topA - lowA) + (topB - lowB) <= 46. The *spread* top - low of each group is therefore computed beforehand; values
// of one magnitude class, as in real models, nearly always pass. What does not pass goes through ExactSum.
//
// Two sets of kernels do the same: `portable_kernels` is the specification, `avx2_kernels` is fast.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rockchip/precision.h"

namespace npu::sim {

inline constexpr std::uint32_t products_per_rounding = 32;
inline constexpr std::uint32_t exact_double_spread = 46;
inline constexpr std::uint8_t spread_not_finite = 255;  // the group holds an infinity or a NaN
inline constexpr std::uint8_t spread_wide = 200;        // never exact in double

// Bits of a float format in memory.
struct FloatFormat {
    std::uint32_t bytes;
    std::uint32_t mantissa_bits;  // that the array looks at
    std::uint32_t exponent_shift;
    std::uint32_t exponent_mask;
    std::uint32_t magnitude_mask;  // all bits that count, without the sign
};
FloatFormat float_format(rockchip::Precision precision);

// Features of a float task, decoded once: values[(g * rows + m) * 32 + i] is channel 32 * g + i of row m, and
// spread[g * rows + m] belongs to those 32 values. A last group with fewer channels is filled with zeros.
struct FloatFeatures {
    const float* values;
    const std::uint8_t* spread;
    std::uint32_t rows;
    std::uint32_t channels;
};

// One kernel group of a float task: 16 kernels, in the order of the weight stream.
struct FloatGroup {
    FloatFeatures features;
    rockchip::Precision precision;
    const std::byte* weights;  // 16 * channels values
    float* sums;               // out: [rows][16]
};

// One kernel group of an integer task.
struct IntegerGroup {
    const std::int16_t* features;  // [rows][channels]
    const std::int8_t* weights;    // [channels / 32][kernels][32]
    std::uint32_t rows;
    std::uint32_t channels;
    std::uint32_t kernels;  // of the group: 32 or 64
    std::int32_t* sums;     // out: [rows][kernels]
};

struct MacKernels {
    const char* name;
    // Decodes `count` values; tf32 operands are truncated.
    void (*decode)(rockchip::Precision precision, const std::byte* source, std::size_t count, float* values);
    void (*multiply_float)(const FloatGroup& group);
    void (*multiply_integer)(const IntegerGroup& group);
};

const MacKernels& portable_kernels();

// nullptr where this machine or this build does not have AVX2, FMA and F16C.
const MacKernels* avx2_kernels();

// The fastest set that runs here.
const MacKernels& best_kernels();

// The spread of `count` values in memory format: 0 for zeros only, spread_not_finite, spread_wide, or top - low.
std::uint8_t float_spread(rockchip::Precision precision, const std::byte* source, std::size_t count);

// Sum of 32 products, rounded as the array rounds; `spread` is the sum of both spreads. Any values.
float group_sum(const float* a, const float* b, std::uint32_t spread_a, std::uint32_t spread_b);

// Where the 32 weights of kernel n and group g start in the stream of a kernel group, and how many there are. tf32
// blocks are 16 channels long, so that a group is two pieces there.
struct WeightPiece {
    std::size_t offset;  // values
    std::uint32_t count;
};
inline std::uint32_t pieces_per_group(rockchip::Precision precision) {
    return products_per_rounding / rockchip::info(precision).channels_per_block;
}
inline WeightPiece weight_piece(rockchip::Precision precision, std::uint32_t block, std::uint32_t n) {
    const rockchip::PrecisionInfo& info = rockchip::info(precision);
    return {(std::size_t{block} * info.kernels_per_group + n) * info.channels_per_block, info.channels_per_block};
}

// Signed nibbles, even index in the low half, to bytes: `count` values from count / 2 bytes.
void decode_int4(const std::byte* source, std::size_t count, std::int8_t* values);

}  // namespace npu::sim
