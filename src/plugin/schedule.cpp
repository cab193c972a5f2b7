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

// Rows of floats one after another, which every thread can read as they are.
bool has_plain_rows(const ggml_tensor* tensor) {
    return tensor->type == GGML_TYPE_F32 && tensor->nb[1] == static_cast<std::size_t>(tensor->ne[0]) * sizeof(float);
}

const char* too_few_rows() {
    return options() && options()->min_batch != 0 ? "fewer rows than GGML_NPU_MIN_BATCH"
                                                  : "so few rows are predicted to be faster on the CPU";
}

// GGML_NPU_LOG=ops: one line for each matmul of a new graph.
void say(const ggml_tensor* node, const char* where, const char* why) {
    if (options() && options()->log == "ops") {
        const ggml_tensor* weights = node->src[0];
        const auto pipeline = pipeline_for(weights);
        GGML_LOG_INFO("ggml-npu: %s: %s %lld x %lld -> %lld, %s as %s: %s%s%s\n", node->name, ggml_op_name(node->op),
                      static_cast<long long>(ggml_nrows(node)), static_cast<long long>(weights->ne[0]),
                      static_cast<long long>(weights->ne[1]), ggml_type_name(weights->type),
                      pipeline ? gemm::pipeline_name(*pipeline) : "it is", where, *why == '\0' ? "" : ": ", why);
    }
}

}  // namespace

// --- a group on the CPU -------------------------------------------------------------------------------------------

Result<void> HostGroup::refresh() {
    NPU_ASSIGN(products_, products_of(group_));
    stand_in_ = make_stand_in(group_.front(), compute_share, this);
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
                steps_.push_back({Step::Kind::transient, {node}, {}, nullptr});
                break;
            case Route::resident: {
                MatmulGroup group = group_at(graph, i, multiplier, i);
                if (node->op == GGML_OP_MUL_MAT_ID) {
                    add_experts(std::move(group));
                } else {
                    add_group(std::move(group));
                }
                break;
            }
        }
    }
    std::erase_if(steps_, [](const Step& step) {
        return step.kind == Step::Kind::host && std::ranges::none_of(step.nodes, is_work);
    });
}

void Schedule::add_to_range(ggml_tensor* node) {
    if (steps_.empty() || steps_.back().kind != Step::Kind::host) {
        steps_.push_back({Step::Kind::host, {}, {}, nullptr});
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
        steps_.push_back({Step::Kind::npu, {}, std::move(group), nullptr});
        return;
    }
    cpu_matmuls_[reason] += group.size();
    HostGroup& host = host_groups_.emplace_back(multiplier_, group);
    *host.stand_in() = *group.front();  // until the first refresh
    add_to_range(host.stand_in());
}

// A token chooses an expert once, so an expert has at most as many rows as there are tokens.
void Schedule::add_experts(MatmulGroup group) {
    const bool cpu_can = multiplier_.runs_on_cpu(weights_shape(group.front()->src[0]).pipeline);
    const std::uint32_t fewest = cpu_can ? fewest_rows(group) : 0;
    const bool on_cpu = group.front()->ne[2] < fewest;
    for (const ggml_tensor* node : group) {
        say(node, on_cpu ? "CPU, from the weights in NPU memory" : "NPU",
            on_cpu    ? too_few_rows()
            : cpu_can ? "experts of few rows on the CPU, from the same weights"
                      : "");
    }
    ExpertGroup& experts = expert_groups_.emplace_back(multiplier_, group, fewest);
    if (on_cpu) {
        const auto rows = static_cast<std::size_t>(group.front()->ne[1] * group.front()->ne[2]);
        cpu_matmuls_[too_few_rows()] += group.size() * rows;
        *experts.stand_in() = *group.front();  // until the first refresh
        add_to_range(experts.stand_in());
    } else {
        steps_.push_back({Step::Kind::experts, {}, {}, &experts});
    }
}

// From how many rows on the NPU multiplies a group that the CPU could multiply, too.
std::uint32_t Schedule::fewest_rows(const MatmulGroup& group) {
    if (const std::int64_t least = options() ? options()->min_batch : 1; least != 0) {
        return static_cast<std::uint32_t>(least);
    }
    std::vector<gemm::WeightsShape> shapes;
    std::ranges::transform(group, std::back_inserter(shapes),
                           [](const ggml_tensor* node) { return weights_shape(node->src[0]); });
    const std::uint32_t fewest = multiplier_.fewest_rows(shapes);
    smallest_threshold_ = smallest_threshold_ == 0 ? fewest : std::min(smallest_threshold_, fewest);
    largest_threshold_ = std::max(largest_threshold_, fewest);
    return fewest;
}

// Why the CPU multiplies so few rows, from the same weights; nullptr: the NPU does.
const char* Schedule::reason_for_cpu(const MatmulGroup& group) {
    const ggml_tensor* activations = group.front()->src[1];
    if (!multiplier_.runs_on_cpu(weights_shape(group.front()->src[0]).pipeline) || !has_plain_rows(activations)) {
        return nullptr;
    }
    return activations->ne[1] < fewest_rows(group) ? too_few_rows() : nullptr;
}

Result<void> Schedule::refresh() {
    for (HostGroup& group : host_groups_) {
        NPU_TRY(group.refresh());
    }
    for (ExpertGroup& group : expert_groups_) {
        NPU_TRY(group.refresh());
    }
    return {};
}

Result<void> Schedule::stand_in_results() const {
    for (const ExpertGroup& group : expert_groups_) {
        NPU_TRY(group.stand_in_result());
    }
    return {};
}

}  // namespace npu::plugin
