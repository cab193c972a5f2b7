// Activations on their way to the array: rotated where the weights are, converted to the pipeline's format, and written in the
// array's order. Each row is converted by itself, so a row's bytes are the same alone and in any batch.
#pragma once

#include "compile/layout.h"
#include "gemm/rows.h"
#include "gemm/weights.h"

namespace npu::gemm {

// Rows [first, first + count) of x. A pipeline with two array rows for each writes them as rows r and x.rows + r of the
// layout. `device` is the start of the layout; `scales` begins at row 0: what results of the row are multiplied with.
void write_activations(const WeightsShape& shape, const compile::FeatureLayout& layout, RowsView x, std::uint32_t first,
                       std::uint32_t count, std::byte* device, float* scales);

}  // namespace npu::gemm
