#include "plugin/arrange.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "plugin/route.h"
#include "plugin/tensors.h"

namespace npu::plugin {

namespace {

// The tensor whose memory this one lies in.
const ggml_tensor* memory_of(const ggml_tensor* tensor) {
    return tensor->view_src != nullptr ? tensor->view_src : tensor;
}

bool writes_into_others(const ggml_tensor* node) { return node->view_src != nullptr && !is_view(node); }

bool is_resident_matmul(const ggml_tensor* node, const Multiplier& multiplier) {
    return is_matmul(node) && route_matmul(node, multiplier).route == Route::resident;
}

}  // namespace

void gather_matmuls(ggml_cgraph* graph, const Multiplier& multiplier) {
    std::vector<std::vector<ggml_tensor*>> groups;  // in the new order; most are of one node
    groups.reserve(static_cast<std::size_t>(graph->n_nodes));
    // Activations, ids of experts or nothing, and what the activations are converted to.
    using Kind = std::tuple<const ggml_tensor*, const ggml_tensor*, gemm::Pipeline, bool>;
    std::map<Kind, std::size_t> open;  // groups
    for (int i = 0; i < graph->n_nodes; ++i) {
        ggml_tensor* node = graph->nodes[i];
        if (is_resident_matmul(node, multiplier)) {
            const gemm::WeightsShape shape = weights_shape(node->src[0]);
            const auto [group, is_first] =
                open.try_emplace({node->src[1], node->src[2], shape.pipeline, shape.rotated}, groups.size());
            if (!is_first) {
                groups[group->second].push_back(node);
                continue;
            }
        } else if (writes_into_others(node)) {
            std::erase_if(open, [&](const auto& entry) {
                const auto& [activations, ids, pipeline, rotated] = entry.first;
                return memory_of(activations) == memory_of(node) ||
                       (ids != nullptr && memory_of(ids) == memory_of(node));
            });
        }
        groups.push_back({node});
    }
    ggml_tensor** to = graph->nodes;
    for (const std::vector<ggml_tensor*>& group : groups) {
        to = std::ranges::copy(group, to).out;
    }
}

}  // namespace npu::plugin
