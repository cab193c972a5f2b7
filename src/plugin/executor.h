// Runs a graph. Nodes that the NPU does are multiplied here, in order; every range of nodes between them is handed to
// an internal instance of the host's CPU backend, which works on the same host memory. So a whole model is one split
// of the scheduler, and every matmul of the graph is seen and counted, whoever computes it.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "plugin/context.h"
#include "plugin/ggml_host.h"
#include "plugin/schedule.h"

namespace npu::plugin {

class Executor {
  public:
    // Opens the host's CPU backend. Error: not_found when the host has none.
    static Result<std::unique_ptr<Executor>> create(DeviceContext& context);
    ~Executor();
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    void set_n_threads(int threads);
    void set_abort_callback(ggml_abort_callback callback, void* data);
    ggml_status compute(ggml_cgraph* graph);

  private:
    Executor(DeviceContext& context, ggml_backend_t cpu) : context_(context), cpu_(cpu) {}

    struct KeptSchedule {
        std::uint64_t uid = 0;
        std::unique_ptr<Schedule> schedule;
    };

    Schedule& schedule_for(const ggml_cgraph* graph);
    ggml_status compute_on_cpu(ggml_cgraph* graph, const Step& step);
    void count(const Schedule& schedule);
    Result<void> run(const Step& step);  // not one of the host's
    Result<void> multiply(const MatmulGroup& group);
    Result<void> multiply_transient(const ggml_tensor* node);
    const float* float_rows(const ggml_tensor* tensor, std::int64_t i2, std::int64_t i3);

    DeviceContext& context_;
    ggml_backend_t cpu_;
    int threads_ = GGML_DEFAULT_N_THREADS;  // as the CPU backend starts
    std::list<KeptSchedule> schedules_;     // most recently used first
    bool threshold_said_ = false;
    std::vector<float> rows_;  // activations that are no floats, or whose rows lie apart
};

}  // namespace npu::plugin
