#include "plugin/matmul_group.h"

#include <algorithm>
#include <cstring>

#include "plugin/route.h"
#include "plugin/tensors.h"
#include "plugin/weight_buffer.h"

namespace npu::plugin {

MatmulGroup group_at(const ggml_cgraph* graph, int first, const Multiplier& multiplier, int& last) {
    const ggml_tensor* leader = graph->nodes[first];
    MatmulGroup group{leader};
    last = first;
    const gemm::WeightsShape shape = weights_shape(leader->src[0]);
    for (int i = first + 1; i < graph->n_nodes; ++i) {
        const ggml_tensor* node = graph->nodes[i];
        if (is_view(node)) {
            continue;
        }
        if (node->op != leader->op || !is_work(node) || node->src[1] != leader->src[1] ||
            node->src[2] != leader->src[2] || node->src[0]->ne[2] != leader->src[0]->ne[2] ||
            route_matmul(node, multiplier).route != Route::resident) {
            break;
        }
        const gemm::WeightsShape other = weights_shape(node->src[0]);
        if (other.pipeline != shape.pipeline || other.rotated != shape.rotated) {
            break;
        }
        group.push_back(node);
        last = i;
    }
    return group;
}

Error never_written(const ggml_tensor* weights) {
    return make_error(ErrorCode::invalid_argument, "the weights %s were never written to the NPU", weights->name);
}

Result<std::vector<TensorProduct>> products_of(const MatmulGroup& group) {
    std::vector<TensorProduct> products;
    for (const ggml_tensor* node : group) {
        const auto weights = resident_matrices(node->src[0]);
        if (weights.empty()) {
            return never_written(node->src[0]);
        }
        products.push_back({&weights.front(), plane_of(node, 0, 0)});
    }
    return products;
}

gemm::TargetView plane_of(const ggml_tensor* node, std::int64_t i2, std::int64_t i3) {
    return {reinterpret_cast<float*>(static_cast<std::byte*>(node->data) + i2 * node->nb[2] + i3 * node->nb[3]),
            static_cast<std::size_t>(node->ne[0])};
}

ggml_tensor make_stand_in(const ggml_tensor* node, ggml_custom_op_t compute, void* user_data) {
    ggml_tensor stand_in = *node;
    stand_in.op = GGML_OP_CUSTOM;
    std::fill(std::begin(stand_in.src), std::end(stand_in.src), nullptr);
    stand_in.src[0] = node->src[1];
    const ggml_custom_op_params parameters{compute, GGML_N_TASKS_MAX, user_data};
    static_assert(sizeof(parameters) <= sizeof(stand_in.op_params));
    std::memcpy(stand_in.op_params, &parameters, sizeof(parameters));
    return stand_in;
}

}  // namespace npu::plugin
