// Runs a graph. Nodes that the NPU does are multiplied here, in order; every range of nodes between them is handed to
// an internal instance of the host's CPU backend, which works on the same host memory. So a whole model is one split
// of the scheduler, and every matmul of the graph is seen and counted, whoever computes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "plugin/context.h"
#include "plugin/ggml_host.h"
#include "plugin/weight_buffer.h"

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

    ggml_status compute_on_cpu(ggml_cgraph* graph, int first, int last);
    using PlaneWork = std::function<Result<void>(const ResidentTensor& weights, gemm::RowsView x, gemm::TargetView y)>;

    Result<void> multiply(const ggml_tensor* node, bool resident);
    Result<void> multiply_small(const ggml_tensor* node);
    Result<void> for_each_plane(const ggml_tensor* node, const PlaneWork& work);
    Result<void> multiply_transient(const ggml_tensor* node);
    const float* float_rows(const ggml_tensor* tensor, std::int64_t i2, std::int64_t i3);

    DeviceContext& context_;
    ggml_backend_t cpu_;
    int threads_ = GGML_DEFAULT_N_THREADS;  // as the CPU backend starts
    std::vector<float> rows_;               // activations that are no floats, or whose rows lie apart
};

}  // namespace npu::plugin
