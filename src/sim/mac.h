// The multiply-accumulate array. It works in *steps*: in one step it takes 32 channels (16 of tf32) at one position of
// the window and multiplies them with a whole group of kernels. The weight stream is in the order of the steps: block of
// channels after block of channels, and within a block position after position, line by line. That order is also the
// order in which sums are formed, what a matrix product calls "in K order".
//
// What it computes, per output: with integers the exact sum; with floats, 32 consecutive products (one step; two of tf32)
// are summed exactly and rounded once to fp32, and these are added in order in fp32, starting from 0. (fp16 in 1x1
// windows measured so on silicon, about 130 million elements bit for bit. For bf16 and tf32 the number of products per
// rounding is not published and 32 is assumed; that a step is the unit in larger windows, too, is our reading: a block
// of fewer than 32 channels takes a step of its own, filled with zeros.)
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
inline constexpr std::uint32_t float_kernels = 16;  // of a group, all float formats
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

// Features of a float task, decoded once: values[(g * rows + m) * 32 + i] is input 32 * g + i of row m, and
// spread[g * rows + m] belongs to those 32 values. A last group that is not full is filled with zeros.
struct FloatFeatures {
    const double* values;
    const std::uint8_t* spread;
    std::uint32_t rows;
    std::uint32_t groups;
};

// One kernel group of a float task.
struct FloatGroup {
    FloatFeatures features;
    rockchip::Precision precision;
    const std::byte* weights;  // [steps][16][channels of a step], memory format
    std::uint32_t steps;       // of tf32 two to a group of features, else one
    float* sums;               // out: [rows][16]
};

// One kernel group of an int8 or int4 task. Fewer than 2^17 inputs, so that no sum leaves 32 bits.
struct IntegerGroup {
    const std::int16_t* features;  // [rows][steps * 32]
    const std::int8_t* weights;    // [steps][kernels][32]
    std::uint32_t rows;
    std::uint32_t steps;
    std::uint32_t kernels;  // of the group: 32 or 64
    std::int32_t* sums;     // out: [rows][kernels]
};

// One kernel group where sums may need more than 32 bits: int16, and int8 and int4 of enormous windows.
struct WideGroup {
    const std::int16_t* features;  // [rows][steps * 32]
    const std::int16_t* weights;   // [steps][kernels][32]
    std::uint32_t rows;
    std::uint32_t steps;
    std::uint32_t kernels;
    std::int64_t* sums;  // out: [rows][kernels]
};

struct MacKernels {
    const char* name;
    // Decodes `count` values; tf32 operands are truncated.
    void (*decode)(rockchip::Precision precision, const std::byte* source, std::size_t count, double* values);
    // The spread of `count` values in memory format: 0 for zeros only, spread_not_finite, spread_wide, or top - low.
    std::uint8_t (*spread)(rockchip::Precision precision, const std::byte* source, std::size_t count);
    void (*multiply_float)(const FloatGroup& group);
    void (*multiply_integer)(const IntegerGroup& group);
    void (*multiply_wide)(const WideGroup& group);
};

const MacKernels& portable_kernels();

// nullptr where this machine or this build does not have AVX2, FMA and F16C.
const MacKernels* avx2_kernels();

// The fastest set that runs here.
const MacKernels& best_kernels();

// Sum of 32 products, rounded as the array rounds, given the spreads of both factors. The values are floats. Any values.
float group_sum(const double* a, const double* b, std::uint32_t spread_a, std::uint32_t spread_b);

// The 32 weights of kernel n that meet group g of the features, in memory format: `raw` has room for 128 bytes. Zeros
// where the stream ends.
void group_weights(const FloatGroup& group, std::uint32_t g, std::uint32_t n, std::byte* raw);

// A published deviation of fp16: output channels n % 16 == 0 are on some cores and for some data lower than the exact
// model by 2^(4*Cmax - 44), and only where all 32 products of a group are non-zero; for which data, nobody found out.
// Read here as: Cmax is the exponent of the largest product above 2^-28 (the smallest product of two normal numbers)
// divided by 4, which gives the published typical 2^-16 for products between 1 and 16; and each group that may deviate
// does. Computes channel 0 of all rows again, that way.
void deviate_lane_0(const FloatGroup& group);

// Signed nibbles, even index in the low half, to bytes: `count` values from count / 2 bytes. (Generators differ in the
// order, and a sum of products does not show it as long as features and weights agree.)
void decode_int4(const std::byte* source, std::size_t count, std::int8_t* values);

// int4, int8 or int16 in memory format to numbers. `count` is even for int4.
void decode_integers(rockchip::Precision precision, const std::byte* source, std::size_t count, std::int16_t* values);

}  // namespace npu::sim
