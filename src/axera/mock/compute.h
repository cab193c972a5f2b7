// What a run of a model writes into its outputs on the mock.
//
// Matmul models are recognised by what they take and give: x[M, K] and y[N, K] of int8 or int16, r[M, N] of float32.
// Their result is x times y transposed, each sum exact and rounded once to float32. (How the NPU adds int16 products
// beyond 32 bits is not known; int8 sums fit.) What other models compute is not known: their outputs are numbers made
// from all their inputs, always the same for the same inputs, finite and small.
#pragma once

#include <span>
#include <vector>

#include "axera/model_file.h"

namespace npu::axera::mock {

struct Run {
    const ModelFile& model;
    std::size_t group = 0;
    std::vector<Bytes> inputs;                     // as the group's inputs, with their sizes
    std::vector<std::span<std::uint8_t>> outputs;  // likewise
};

// Whether the group multiplies two matrices.
bool is_matmul(const ShapeGroup& group);

void compute(const Run& run);

}  // namespace npu::axera::mock
