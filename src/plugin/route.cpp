#include "plugin/route.h"

#include <string>

#include "base/options.h"
#include "plugin/precision_policy.h"
#include "plugin/weight_buffer.h"

namespace npu::plugin {

namespace {

// ggml stores requirements of a matmul as numbers in its op_params; see ggml_prec_set_src and ggml_prec_set_acc.
constexpr int hint_index = 1;
constexpr int source_precision_index = 3;

constexpr int smallest_resident_kernels = 2;  // a "matrix" with one output channel is a scale or a bias

bool is_host_float(ggml_type type) { return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16; }

// The least precision that the graph's author allows for the activations.
bool precision_allowed(const ggml_tensor* node, gemm::Pipeline pipeline) {
    const int least = ggml_get_op_params_i32(node, source_precision_index);
    if (least == GGML_PREC_UNDEFINED) {
        return true;
    }
    switch (pipeline) {
        case gemm::Pipeline::fp16: return least >= GGML_PREC_F16;
        case gemm::Pipeline::bf16: return least >= GGML_PREC_BF16;
        case gemm::Pipeline::int4: return least >= GGML_PREC_Q4;
        case gemm::Pipeline::w4a8: return least >= GGML_PREC_Q4;  // not quite eight bits
        default: return least >= GGML_PREC_Q8;
    }
}

// The projection to a vocabulary keeps 8 bits where the others have 4, as it does in quantised files: its errors go straight into
// the predicted distribution.
gemm::Pipeline chosen_pipeline(const ggml_tensor* weights, bool quantised) {
    const PrecisionChoice choice = precision_policy() ? (*precision_policy())(weights) : PrecisionChoice();
    const gemm::Pipeline chosen = choice.pipeline.value_or(gemm::Pipeline::int8);
    if (choice.by_rule) {
        return chosen;
    }
    const bool floating = rockchip::info(info(chosen).input).floating;
    if (!quantised) {
        return floating ? chosen : gemm::Pipeline::fp16;
    }
    if (chosen == gemm::Pipeline::bf16 || (chosen == gemm::Pipeline::w4a8 && is_head(weights))) {
        return gemm::Pipeline::int8;
    }
    return chosen;
}

// See GGML_NPU_ROTATE.
bool is_rotated(const ggml_tensor* weights, gemm::Pipeline pipeline) {
    if (!options() || options()->rotate == "0" || rockchip::info(info(pipeline).input).floating) {
        return false;
    }
    const std::size_t file_bits =
        8 * ggml_type_size(weights->type) / static_cast<std::size_t>(ggml_blck_size(weights->type));
    return options()->rotate == "1" || pipeline == gemm::Pipeline::int4 || file_bits >= 8;
}

}  // namespace

std::optional<gemm::Pipeline> pipeline_for(const ggml_tensor* weights) {
    const bool quantised = ggml_is_quantized(weights->type) && ggml_get_type_traits(weights->type)->to_float != nullptr;
    return is_host_float(weights->type) || quantised ? std::optional(chosen_pipeline(weights, quantised))
                                                     : std::nullopt;
}

gemm::WeightsShape weights_shape(const ggml_tensor* weights) {
    gemm::WeightsShape shape{static_cast<std::uint32_t>(weights->ne[1]), static_cast<std::uint32_t>(weights->ne[0]),
                             *pipeline_for(weights)};
    shape.rotated = is_rotated(weights, shape.pipeline);
    return shape;
}

bool is_weight_matrix(const ggml_tensor* tensor, const Multiplier& multiplier) {
    const auto pipeline = pipeline_for(tensor);
    return pipeline && multiplier.has(*pipeline) && tensor->ne[0] > 0 && tensor->ne[1] >= smallest_resident_kernels &&
           tensor->ne[2] >= 1 && tensor->ne[3] == 1 && ggml_is_contiguous(tensor);
}

Decision route_matmul(const ggml_tensor* node, const Multiplier& multiplier) {
    const auto cpu = [](const char* reason) { return Decision{Route::cpu, reason}; };
    const ggml_tensor* weights = node->src[0];
    const ggml_tensor* activations = node->src[1];
    const bool selects = node->op == GGML_OP_MUL_MAT_ID;
    for (int i = selects ? 3 : 2; i < GGML_MAX_SRC; ++i) {
        if (node->src[i] != nullptr) {
            return cpu("unknown additional operand");
        }
    }
    if (node->type != GGML_TYPE_F32 || !is_host_float(activations->type)) {
        return cpu("activation type has no NPU path");
    }
    if (selects && (activations->type != GGML_TYPE_F32 || node->src[2]->type != GGML_TYPE_I32)) {
        return cpu("activation type has no NPU path");
    }
    if (activations->nb[0] != ggml_type_size(activations->type)) {
        return cpu("the values of an activation row are apart in memory");
    }
    if (ggml_get_op_params_i32(node, hint_index) != GGML_HINT_NONE) {
        return cpu("a Hadamard rotation is cheaper on the CPU");
    }
    const auto pipeline = pipeline_for(weights);
    if (!pipeline) {
        return cpu("weight type has no NPU path");
    }
    if (!multiplier.has(*pipeline)) {
        return cpu("librknnrt does not compute this precision here");
    }
    if (!precision_allowed(node, *pipeline)) {
        return cpu("the graph asks for more precise activations");
    }
    if (weights->buffer != nullptr && is_weight_buffer(weights->buffer)) {
        // Uploaded, or not yet (the loader is asking). A view into a weight has no address of its own.
        if (weights->view_src != nullptr || !is_weight_matrix(weights, multiplier)) {
            return cpu("a view of NPU weights");
        }
        return selects || weights->ne[2] == 1 ? Decision{Route::resident, ""} : cpu("a stack of NPU weights");
    }
    if (weights->op != GGML_OP_NONE || weights->view_src != nullptr) {
        return cpu("both operands are computed at run time (attention)");
    }
    if (weights->buffer != nullptr &&
        ggml_backend_buffer_get_usage(weights->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS) {
        return cpu("the weights were kept in host memory (-ngl, -ot, or too small a matrix)");
    }
    return selects ? cpu("experts in host memory") : Decision{Route::transient, ""};
}

}  // namespace npu::plugin
