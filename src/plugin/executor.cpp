#include "plugin/executor.h"

#include <algorithm>

#include "base/options.h"
#include "gemm/cpu_path.h"
#include "plugin/host.h"
#include "plugin/host_team.h"
#include "plugin/route.h"
#include "plugin/tensors.h"

namespace npu::plugin {

namespace {

bool is_computed(const ggml_tensor* node) { return (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0; }

ggml_status failed(const ggml_tensor* node, const Error& error) {
    GGML_LOG_ERROR("ggml-npu: %s: %s\n", node->name, error.message.c_str());
    return error.code == ErrorCode::out_of_memory ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
}

float* plane_of(const ggml_tensor* tensor, std::int64_t i2, std::int64_t i3) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(tensor->data) + i2 * tensor->nb[2] + i3 * tensor->nb[3]);
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(DeviceContext& context) {
    NPU_ASSIGN(ggml_backend_dev_t device, cpu_device());
    ggml_backend_t cpu = ggml_backend_dev_init(device, nullptr);
    if (cpu == nullptr) {
        return make_error(ErrorCode::device_failure, "the host's CPU backend could not be initialised");
    }
    return std::unique_ptr<Executor>(new Executor(context, cpu));
}

Executor::~Executor() { ggml_backend_free(cpu_); }

void Executor::set_n_threads(int threads) {
    threads_ = threads;
    if (const auto function = cpu_set_n_threads(); function != nullptr) {
        function(cpu_, threads);
    }
}

void Executor::set_abort_callback(ggml_abort_callback callback, void* data) {
    if (const auto function = cpu_set_abort_callback(); function != nullptr) {
        function(cpu_, callback, data);
    }
}

ggml_status Executor::compute(ggml_cgraph* graph) {
    set_team_size(threads_);
    int cpu_first = 0;  // nodes [cpu_first, i) wait for the CPU
    for (int i = 0; i < graph->n_nodes; ++i) {
        const ggml_tensor* node = graph->nodes[i];
        if (!is_matmul(node) || !is_computed(node) || ggml_is_empty(node)) {
            continue;
        }
        const Decision decision = route_matmul(node, context_.multiplier());
        if (decision.route == Route::cpu) {
            context_.statistics().count_cpu_matmul(decision.reason);
            continue;
        }
        if (const ggml_status status = compute_on_cpu(graph, cpu_first, i); status != GGML_STATUS_SUCCESS) {
            return status;
        }
        if (decision.route == Route::transient) {
            if (const auto done = multiply_transient(node); !done) {
                return failed(node, done.error());
            }
            context_.statistics().count_npu_matmul();
            cpu_first = i + 1;
            continue;
        }
        const Group group = group_at(graph, i);
        if (const auto done = multiply(group); !done) {
            return failed(node, done.error());
        }
        i = group.last;
        cpu_first = i + 1;
    }
    say_threshold();
    return compute_on_cpu(graph, cpu_first, graph->n_nodes);
}

// Once, after the first graph.
void Executor::say_threshold() {
    if (!threshold_said_ && largest_threshold_ > 1) {
        threshold_said_ = true;
        GGML_LOG_INFO(
            "ggml-npu: matmuls go to the NPU from %u rows on (largest weights) to %u (smallest), by predicted time: "
            "for "
            "fewer, a job costs more than the CPU takes; it multiplies from the same weights (GGML_NPU_MIN_BATCH)\n",
            smallest_threshold_, largest_threshold_);
    }
}

ggml_status Executor::compute_on_cpu(ggml_cgraph* graph, int first, int last) {
    const auto has_work = [&] {
        for (int i = first; i < last; ++i) {
            const ggml_tensor* node = graph->nodes[i];
            if (!is_view(node) && is_computed(node) && !ggml_is_empty(node)) {
                return true;
            }
        }
        return false;
    };
    if (!has_work()) {
        return GGML_STATUS_SUCCESS;
    }
    ggml_cgraph range = ggml_graph_view(graph, first, last);
    return ggml_backend_graph_compute(cpu_, &range);
}

// The matmul at `first` and those behind it that share its activations and its way of multiplying.
Executor::Group Executor::group_at(const ggml_cgraph* graph, int first) const {
    Group group{{graph->nodes[first]}, first};
    const gemm::WeightsShape shape = weights_shape(graph->nodes[first]->src[0]);
    for (int i = first + 1; i < graph->n_nodes; ++i) {
        const ggml_tensor* node = graph->nodes[i];
        if (is_view(node)) {
            continue;
        }
        if (!is_matmul(node) || !is_computed(node) || node->src[1] != graph->nodes[first]->src[1] ||
            route_matmul(node, context_.multiplier()).route != Route::resident) {
            break;
        }
        const gemm::WeightsShape other = weights_shape(node->src[0]);
        if (other.pipeline != shape.pipeline || other.rotated != shape.rotated) {
            break;
        }
        group.nodes.push_back(node);
        group.last = i;
    }
    return group;
}

// Why the CPU multiplies so few rows, from the same weights; nullptr: the NPU does.
const char* Executor::reason_for_cpu(std::span<const TensorProduct> products, std::int64_t rows) {
    const std::int64_t least = options() ? options()->min_batch : 1;
    if (least == 0) {
        const std::uint32_t fewest = context_.multiplier().fewest_rows(products);
        smallest_threshold_ = std::min(smallest_threshold_, fewest);
        largest_threshold_ = std::max(largest_threshold_, fewest);
        return rows < fewest ? "so few rows are predicted to be faster on the CPU" : nullptr;
    }
    return rows < least && gemm::runs_on_cpu(products.front().tensor->shape().pipeline)
               ? "fewer rows than GGML_NPU_MIN_BATCH"
               : nullptr;
}

Result<void> Executor::multiply(const Group& group) {
    const ggml_tensor* activations = group.nodes.front()->src[1];
    std::vector<TensorProduct> products(group.nodes.size());
    for (std::size_t i = 0; i < products.size(); ++i) {
        const ggml_tensor* weights = group.nodes[i]->src[0];
        products[i].tensor = resident_tensor(weights);
        if (products[i].tensor == nullptr) {
            return make_error(ErrorCode::invalid_argument, "the weights %s were never written to the NPU",
                              weights->name);
        }
    }
    const char* reason = reason_for_cpu(products, activations->ne[1]);
    for (std::int64_t i3 = 0; i3 < activations->ne[3]; ++i3) {
        for (std::int64_t i2 = 0; i2 < activations->ne[2]; ++i2) {
            for (std::size_t i = 0; i < products.size(); ++i) {
                const ggml_tensor* node = group.nodes[i];
                products[i].y = {plane_of(node, i2, i3), static_cast<std::size_t>(node->ne[0])};
            }
            const gemm::RowsView x{float_rows(activations, i2, i3), static_cast<std::size_t>(activations->ne[0]),
                                   static_cast<std::uint32_t>(activations->ne[1])};
            NPU_TRY(reason != nullptr ? context_.multiplier().multiply_on_cpu(products, x)
                                      : context_.multiplier().multiply(products, x));
        }
    }
    for (std::size_t i = 0; i < products.size(); ++i) {
        if (reason != nullptr) {
            context_.statistics().count_cpu_matmul(reason);
        } else {
            context_.statistics().count_npu_matmul();
        }
    }
    return {};
}

Result<void> Executor::multiply_transient(const ggml_tensor* node) {
    const ggml_tensor* weights = node->src[0];
    const ggml_tensor* activations = node->src[1];
    const gemm::WeightsShape shape = weights_shape(weights);
    const std::int64_t share2 = activations->ne[2] / weights->ne[2];  // planes of activations per plane of weights
    const std::int64_t share3 = activations->ne[3] / weights->ne[3];
    const auto n = static_cast<std::size_t>(node->ne[0]);
    for (std::int64_t w3 = 0; w3 < weights->ne[3]; ++w3) {
        for (std::int64_t w2 = 0; w2 < weights->ne[2]; ++w2) {
            const auto* plane =
                static_cast<const std::byte*>(weights->data) + w2 * weights->nb[2] + w3 * weights->nb[3];
            const auto read = [&](std::uint32_t row, float* destination) {
                read_row(weights, plane + row * weights->nb[1], destination);
            };
            NPU_TRY(context_.multiplier().with_transient(
                shape, read, [&](const Multiplier::Multiply& multiply) -> Result<void> {
                    for (std::int64_t i3 = w3 * share3; i3 < (w3 + 1) * share3; ++i3) {
                        for (std::int64_t i2 = w2 * share2; i2 < (w2 + 1) * share2; ++i2) {
                            const gemm::RowsView x{float_rows(activations, i2, i3),
                                                   static_cast<std::size_t>(activations->ne[0]),
                                                   static_cast<std::uint32_t>(activations->ne[1])};
                            NPU_TRY(multiply(x, {plane_of(node, i2, i3), n}));
                        }
                    }
                    return {};
                }));
        }
    }
    return {};
}

const float* Executor::float_rows(const ggml_tensor* tensor, std::int64_t i2, std::int64_t i3) {
    const auto* plane = static_cast<const std::byte*>(tensor->data) + i2 * tensor->nb[2] + i3 * tensor->nb[3];
    const auto k = static_cast<std::size_t>(tensor->ne[0]);
    if (tensor->type == GGML_TYPE_F32 && tensor->nb[1] == k * sizeof(float)) {
        return reinterpret_cast<const float*>(plane);
    }
    rows_.resize(k * static_cast<std::size_t>(tensor->ne[1]));
    for (std::int64_t row = 0; row < tensor->ne[1]; ++row) {
        read_row(tensor, plane + row * tensor->nb[1], rows_.data() + row * k);
    }
    return rows_.data();
}

}  // namespace npu::plugin
