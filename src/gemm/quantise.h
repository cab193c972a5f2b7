// Turning float rows into what the array multiplies. Two pipelines:
//
//  fp16  each value rounds to half. A row whose largest magnitude lies outside a comfortable range is first scaled
//        by a power of two, which is exact and undone on the result; ordinary rows are left alone, so that they are
//        bit for bit what a CPU that converts to half would multiply.
//  int8  symmetric: scale = largest magnitude / 127, value = round(x / scale), ties to even, saturated.
//
// One scale per row of activations and one per output channel of weights: a result is
// accumulator * activation scale * weight scale. A row that holds an infinity or a NaN gets the scale NaN in the int8
// pipeline, so that the damage shows in the result instead of being clipped away.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::gemm {

enum class Pipeline { fp16, int8 };

const char* pipeline_name(Pipeline pipeline);

// Largest magnitude of `count` floats; NaN when one of them is NaN.
float largest_magnitude(const float* row, std::size_t count);

// Quantises `count` floats to int8 and returns the scale (0 for a row of zeros).
float quantise_int8(const float* row, std::size_t count, std::int8_t* destination);

// Converts `count` floats to half and returns the factor that the result has to be multiplied with: a power of two,
// 1 for ordinary rows.
float convert_fp16(const float* row, std::size_t count, std::uint16_t* destination);

// Either of the two: writes `count` elements of the pipeline's input format and returns what the result is multiplied
// with.
float quantise_row(Pipeline pipeline, const float* row, std::size_t count, std::byte* destination);

}  // namespace npu::gemm
