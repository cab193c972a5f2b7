#include "plugin/executor.h"

#include <algorithm>
#include <chrono>

#include "plugin/host.h"
#include "plugin/host_team.h"
#include "plugin/route.h"
#include "plugin/tensors.h"

namespace npu::plugin {

namespace {

constexpr std::size_t kept_schedules = 8;  // of a prompt, of a token, and of the batches of several users

ggml_status failed(const Error& error) {
    GGML_LOG_ERROR("ggml-npu: %s\n", error.message.c_str());
    return error.code == ErrorCode::out_of_memory ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
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
    Schedule& schedule = schedule_for(graph);
    if (const auto ready = schedule.refresh(); !ready) {
        return failed(ready.error());
    }
    for (const Step& step : schedule.steps()) {
        if (step.kind == Step::Kind::host) {
            if (const ggml_status status = compute_on_cpu(graph, step); status != GGML_STATUS_SUCCESS) {
                return status;
            }
            continue;
        }
        if (const auto done = run(step); !done) {
            return failed(done.error());
        }
    }
    if (const auto done = schedule.stand_in_results(); !done) {
        return failed(done.error());
    }
    count(schedule);
    return GGML_STATUS_SUCCESS;
}

// ggml numbers its graphs, and one that comes again with its number is the same. 0 is no number.
Schedule& Executor::schedule_for(const ggml_cgraph* graph) {
    const auto found = std::ranges::find_if(
        schedules_, [&](const KeptSchedule& kept) { return graph->uid != 0 && kept.uid == graph->uid; });
    if (found != schedules_.end()) {
        schedules_.splice(schedules_.begin(), schedules_, found);
    } else {
        schedules_.push_front({graph->uid, std::make_unique<Schedule>(graph, context_.multiplier())});
        if (schedules_.size() > kept_schedules) {
            schedules_.pop_back();
        }
    }
    return *schedules_.front().schedule;
}

ggml_status Executor::compute_on_cpu(ggml_cgraph* graph, const Step& step) {
    ggml_cgraph range = ggml_graph_view(graph, 0, 0);
    range.nodes = const_cast<ggml_tensor**>(step.nodes.data());  // ggml's interface; it does not write there
    range.n_nodes = static_cast<int>(step.nodes.size());
    Profile& profile = context_.statistics().profile();
    if (!profile.on()) {
        return ggml_backend_graph_compute(cpu_, &range);
    }
    const auto start = std::chrono::steady_clock::now();
    const ggml_status status = ggml_backend_graph_compute(cpu_, &range);
    profile.add_cpu_range(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return status;
}

void Executor::count(const Schedule& schedule) {
    context_.statistics().count_npu_matmuls(schedule.npu_matmuls());
    for (const auto& [reason, matmuls] : schedule.cpu_matmuls()) {
        context_.statistics().count_cpu_matmuls(reason, matmuls);
    }
    if (!threshold_said_ && schedule.largest_threshold() > 1) {
        threshold_said_ = true;
        GGML_LOG_INFO(
            "ggml-npu: matmuls go to the NPU from %u rows on (largest weights) to %u (smallest), by predicted time: "
            "for fewer, a job costs more than the CPU takes, which has the same weights (GGML_NPU_MIN_BATCH)\n",
            schedule.smallest_threshold(), schedule.largest_threshold());
    }
}

Result<void> Executor::run(const Step& step) {
    switch (step.kind) {
        case Step::Kind::npu: return multiply(step.group);
        case Step::Kind::experts: {
            NPU_ASSIGN(const ExpertCounts counts, step.experts->multiply());
            context_.statistics().count_npu_matmuls(counts.npu);
            if (counts.cpu != 0) {
                context_.statistics().count_cpu_matmuls("so few rows of an expert are faster on the CPU", counts.cpu);
            }
            return {};
        }
        default: return multiply_transient(step.nodes.front());
    }
}

Result<void> Executor::multiply(const MatmulGroup& group) {
    NPU_ASSIGN(std::vector<TensorProduct> products, products_of(group));
    const ggml_tensor* activations = group.front()->src[1];
    for (std::int64_t i3 = 0; i3 < activations->ne[3]; ++i3) {
        for (std::int64_t i2 = 0; i2 < activations->ne[2]; ++i2) {
            for (std::size_t i = 0; i < products.size(); ++i) {
                products[i].y = plane_of(group[i], i2, i3);
            }
            const gemm::RowsView x{float_rows(activations, i2, i3), static_cast<std::size_t>(activations->ne[0]),
                                   static_cast<std::uint32_t>(activations->ne[1])};
            NPU_TRY(context_.multiplier().multiply(products, x));
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
                            NPU_TRY(multiply(x, plane_of(node, i2, i3)));
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
