// Where a matmul runs, and why. The decision looks at operation, types and shape, at which kind of memory the
// operands are in, at what the engine computes, and at nothing else: never at names or pointers, never at anything that
// changes over time. The same function answers ggml's question "do you support this?" and the executor's "who computes this
// node?", so the two can not disagree.
#pragma once

#include <optional>

#include "gemm/weights.h"
#include "plugin/ggml_host.h"
#include "plugin/multiplier.h"

namespace npu::plugin {

enum class Route {
    resident,   // NPU, weights already in its memory
    transient,  // NPU, weights are a stored matrix in host memory and are uploaded for this call
    cpu,        // the host's CPU backend
};

struct Decision {
    Route route = Route::cpu;
    const char* reason = "";  // why the CPU; a string literal
};

// For a GGML_OP_MUL_MAT or GGML_OP_MUL_MAT_ID node.
Decision route_matmul(const ggml_tensor* node, const Multiplier& multiplier);

// Pipeline for weights of this type and shape, or nothing when the NPU has none for the type. Depends on GGML_NPU_PRECISION.
std::optional<gemm::Pipeline> pipeline_for(const ggml_tensor* weights);

// How a weight matrix (each one of a stack) of a type that has a pipeline lies on the device.
gemm::WeightsShape weights_shape(const ggml_tensor* weights);

// Whether a tensor of this type and shape can live in the NPU's weight buffers as a matmul operand: a matrix, or one of each
// expert.
bool is_weight_matrix(const ggml_tensor* tensor, const Multiplier& multiplier);

}  // namespace npu::plugin
