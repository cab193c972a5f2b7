// Results on their way back: the partial sums of the K tiles are added and multiplied with the scales of row and output
// channel. int8 sums are exact until that one multiplication; floats, and sums with a scale per tile, are added in the order
// of the tiles, so that a row's result never depends on the batch.
#pragma once

#include "compile/plan.h"
#include "gemm/rows.h"
#include "gemm/weights.h"

namespace npu::gemm {

// Rows [first, first + count) of the results of one slice. `output` holds plan.output_bytes() bytes as the device wrote them;
// kernel_scales and y begin at the slice's first channel, row_scales and y at row 0. With a scale per tile, those of the
// next tile follow shape.n entries on.
void read_results(const WeightsShape& shape, const compile::Plan& plan, const std::byte* output,
                  const float* kernel_scales, const float* row_scales, std::uint32_t first, std::uint32_t count,
                  TargetView y);

}  // namespace npu::gemm
