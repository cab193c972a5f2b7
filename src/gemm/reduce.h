// From the array's partial sums to float results: the K tiles of each output are added, and the sum is multiplied with
// the row's and the channel's scale. int8 sums are exact (64-bit integers) until that one multiplication; fp16 sums
// are added in float in the order of the tiles.
#pragma once

#include <cstddef>
#include <span>

#include "compile/plan.h"
#include "gemm/engine.h"

namespace npu::gemm {

// Rows [first, first + count) of the result. `output` holds plan.output_bytes() bytes as the device wrote them;
// kernel_scales has N entries, row_scales M; y is the whole result.
void reduce(const compile::Plan& plan, const std::byte* output, std::span<const float> kernel_scales,
            std::span<const float> row_scales, std::uint32_t first, std::uint32_t count, TargetView y);

}  // namespace npu::gemm
