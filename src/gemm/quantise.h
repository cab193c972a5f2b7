// Turning float rows into what the array multiplies:
//
//  fp16  each value rounds to half. A row whose largest magnitude lies outside a comfortable range is first scaled
//        by a power of two, which is exact and undone on the result; ordinary rows are left alone, so that they are
//        bit for bit what a CPU that converts to half would multiply.
//  bf16  each value rounds to bfloat.
//  int8  symmetric: scale = largest magnitude / 127, value = round(x / scale), ties to even, saturated.
//
// One scale per row of activations and one per output channel of weights: a result is
// accumulator * activation scale * weight scale. A row that holds an infinity or a NaN gets the scale NaN in the int8
// pipeline, so that the damage shows in the result instead of being clipped away.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rockchip/precision.h"

namespace npu::gemm {

// Largest magnitude of `count` floats; NaN when one of them is NaN.
float largest_magnitude(const float* row, std::size_t count);

// How a row with this largest magnitude becomes whole numbers of at most `bound`: values are multiplied with `inverse`, and
// results with `scale`. Both are 0 for a row of zeros; for a row that holds an infinity or a NaN the inverse is 0 and the
// scale NaN.
struct Scaling {
    float inverse = 0;
    float scale = 0;
};
Scaling scaling_to(int bound, float largest);

// Multiplies `count` values with `inverse` and rounds them to whole numbers, ties to even, saturated at +-bound.
void round_to_bound(int bound, const float* row, std::size_t count, float inverse, std::int8_t* values);

inline constexpr int largest_int8 = 127;

// Power of two that a row with this largest magnitude is divided by before it becomes half; 1 for ordinary rows and those
// that hold an infinity or a NaN.
float fp16_factor(float largest);

// Quantises `count` floats to int8 and returns the scale (0 for a row of zeros).
float quantise_int8(const float* row, std::size_t count, std::int8_t* destination);

// Converts `count` floats to half and returns the factor that the result has to be multiplied with: a power of two,
// 1 for ordinary rows.
float convert_fp16(const float* row, std::size_t count, std::uint16_t* destination);

// fp16, bf16 or int8: writes `count` elements and returns what the result is multiplied with (1 for bf16).
float quantise_row(rockchip::Precision precision, const float* row, std::size_t count, std::byte* destination);

}  // namespace npu::gemm
