#include "plugin/schedule.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/options.h"
#include "plugin/route.h"
#include "plugin/tensors.h"
#include "plugin/weight_buffer.h"

namespace npu::plugin {

namespace {

bool is_work(const ggml_tensor* node) { return !is_view(node) && is_computed(node) && !ggml_is_empty(node); }

// Rows of floats one after another, which every thread can read as they are.
bool has_plain_rows(const ggml_tensor* tensor) {
    return tensor->type == GGML_TYPE_F32 && tensor->nb[1] == static_cast<std::size_t>(tensor->ne[0]) * sizeof(float);
}

// The matmul at `first` and those behind it that share its activations and its way of multiplying; `last` is the last one.
MatmulGroup group_at(const ggml_cgraph* graph, int first, const Multiplier& multiplier, int& last) {
    MatmulGroup group{graph->nodes[first]};
    last = first;
    const gemm::WeightsShape shape = weights_shape(graph->nodes[first]->src[0]);
    for (int i = first + 1; i < graph->n_nodes; ++i) {
        const ggml_tensor* node = graph->nodes[i];
        if (is_view(node)) {
            continue;
        }
        if (!is_matmul(node) || !is_work(node) || node->src[1] != graph->nodes[first]->src[1] ||
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

// GGML_NPU_LOG=ops: one line for each matmul of a new graph.
void say(const ggml_tensor* node, const char* where, const char* why) {
    if (options() && options()->log == "ops") {
        const ggml_tensor* weights = node->src[0];
        GGML_LOG_INFO("ggml-npu: %s: %s %lld x %lld -> %lld, %s: %s%s%s\n", node->name, ggml_op_name(node->op),
                      static_cast<long long>(node->src[1]->ne[1]), static_cast<long long>(weights->ne[0]),
                      static_cast<long long>(weights->ne[1]), ggml_type_name(weights->type), where,
                      *why == '\0' ? "" : ": ", why);
    }
}

}  // namespace

Result<std::vector<TensorProduct>> products_of(const MatmulGroup& group) {
    std::vector<TensorProduct> products;
    for (const ggml_tensor* node : group) {
        const ResidentTensor* weights = resident_tensor(node->src[0]);
        if (weights == nullptr) {
            return make_error(ErrorCode::invalid_argument, "the weights %s were never written to the NPU",
                              node->src[0]->name);
        }
        products.push_back({weights, plane_of(node, 0, 0)});
    }
    return products;
}

gemm::TargetView plane_of(const ggml_tensor* node, std::int64_t i2, std::int64_t i3) {
    return {reinterpret_cast<float*>(static_cast<std::byte*>(node->data) + i2 * node->nb[2] + i3 * node->nb[3]),
            static_cast<std::size_t>(node->ne[0])};
}

// --- a group on the CPU -------------------------------------------------------------------------------------------

Result<void> HostGroup::refresh() {
    NPU_ASSIGN(products_, products_of(group_));
    stand_in_ = *group_.front();
    stand_in_.op = GGML_OP_CUSTOM;
    std::fill(std::begin(stand_in_.src), std::end(stand_in_.src), nullptr);
    stand_in_.src[0] = group_.front()->src[1];
    const ggml_custom_op_params parameters{compute_share, GGML_N_TASKS_MAX, this};
    static_assert(sizeof(parameters) <= sizeof(stand_in_.op_params));
    std::memcpy(stand_in_.op_params, &parameters, sizeof(parameters));
    return {};
}

void HostGroup::compute_share(ggml_tensor*, int index, int count, void* group) {
    const HostGroup& self = *static_cast<HostGroup*>(group);
    const ggml_tensor* activations = self.group_.front()->src[1];
    std::vector<TensorProduct> products = self.products_;
    for (std::int64_t i3 = 0; i3 < activations->ne[3]; ++i3) {
        for (std::int64_t i2 = 0; i2 < activations->ne[2]; ++i2) {
            for (std::size_t i = 0; i < products.size(); ++i) {
                products[i].y = plane_of(self.group_[i], i2, i3);
            }
            const auto* plane =
                static_cast<const std::byte*>(activations->data) + i2 * activations->nb[2] + i3 * activations->nb[3];
            const gemm::RowsView x{reinterpret_cast<const float*>(plane), static_cast<std::size_t>(activations->ne[0]),
                                   static_cast<std::uint32_t>(activations->ne[1])};
            self.multiplier_.multiply_share_on_cpu(products, x, static_cast<unsigned>(index),
                                                   static_cast<unsigned>(count));
        }
    }
}

// --- the schedule -------------------------------------------------------------------------------------------------

Schedule::Schedule(const ggml_cgraph* graph, Multiplier& multiplier) : multiplier_(multiplier) {
    for (int i = 0; i < graph->n_nodes; ++i) {
        ggml_tensor* node = graph->nodes[i];
        if (!is_matmul(node) || !is_work(node)) {
            add_to_range(node);
            continue;
        }
        const Decision decision = route_matmul(node, multiplier);
        switch (decision.route) {
            case Route::cpu:
                ++cpu_matmuls_[decision.reason];
                say(node, "CPU", decision.reason);
                add_to_range(node);
                break;
            case Route::transient:
                ++npu_matmuls_;
                say(node, "NPU", "weights uploaded for the call");
                steps_.push_back({Step::Kind::transient, {node}, {}});
                break;
            case Route::resident: add_group(group_at(graph, i, multiplier, i)); break;
        }
    }
    std::erase_if(steps_, [](const Step& step) {
        return step.kind == Step::Kind::host && std::ranges::none_of(step.nodes, is_work);
    });
}

void Schedule::add_to_range(ggml_tensor* node) {
    if (steps_.empty() || steps_.back().kind != Step::Kind::host) {
        steps_.push_back({Step::Kind::host, {}, {}});
    }
    steps_.back().nodes.push_back(node);
}

void Schedule::add_group(MatmulGroup group) {
    const char* reason = reason_for_cpu(group);
    for (const ggml_tensor* node : group) {
        say(node, reason == nullptr ? "NPU" : "CPU, from the weights in NPU memory",
            reason != nullptr       ? reason
            : node == group.front() ? ""
                                    : "in the same job as the one before");
    }
    if (reason == nullptr) {
        npu_matmuls_ += group.size();
        steps_.push_back({Step::Kind::npu, {}, std::move(group)});
        return;
    }
    cpu_matmuls_[reason] += group.size();
    HostGroup& host = host_groups_.emplace_back(multiplier_, group);
    *host.stand_in() = *group.front();  // until the first refresh
    add_to_range(host.stand_in());
}

// Why the CPU multiplies so few rows, from the same weights; nullptr: the NPU does.
const char* Schedule::reason_for_cpu(const MatmulGroup& group) {
    const ggml_tensor* activations = group.front()->src[1];
    if (!multiplier_.runs_on_cpu(weights_shape(group.front()->src[0]).pipeline) || !has_plain_rows(activations)) {
        return nullptr;
    }
    const std::int64_t least = options() ? options()->min_batch : 1;
    if (least != 0) {
        return activations->ne[1] < least ? "fewer rows than GGML_NPU_MIN_BATCH" : nullptr;
    }
    std::vector<gemm::WeightsShape> shapes;
    std::ranges::transform(group, std::back_inserter(shapes),
                           [](const ggml_tensor* node) { return weights_shape(node->src[0]); });
    const std::uint32_t fewest = multiplier_.fewest_rows(shapes);
    smallest_threshold_ = smallest_threshold_ == 0 ? fewest : std::min(smallest_threshold_, fewest);
    largest_threshold_ = std::max(largest_threshold_, fewest);
    return activations->ne[1] < fewest ? "so few rows are predicted to be faster on the CPU" : nullptr;
}

Result<void> Schedule::refresh() {
    for (HostGroup& group : host_groups_) {
        NPU_TRY(group.refresh());
    }
    return {};
}

}  // namespace npu::plugin
