// Runs one checked convolution on memory: gathers the features, passes the weight stream through the array group by
// group, and delivers the sums. Keeps its buffers, so that a decode loop with one row per task
// allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/accumulators.h"
#include "sim/convolution.h"
#include "sim/mac.h"

namespace npu::sim {

// Memory of a task: each pointer is at the beginning of the extent of the same name in addressing.h.
struct ConvolutionMemory {
    const std::byte* features = nullptr;
    const std::byte* weights = nullptr;
};

class Convolver {
  public:
    explicit Convolver(const MacKernels& kernels = best_kernels()) : kernels_(&kernels) {}

    // The convolution has been checked: read_task accepted it and the memory is mapped.
    void run(const Convolution& convolution, const ConvolutionMemory& memory, AccumulatorSink& sink);

  private:
    void prepare_float(const Convolution& convolution);
    void prepare_integer(const Convolution& convolution);

    const MacKernels* kernels_;
    std::vector<std::byte> rows_;  // gathered features, memory format
    std::vector<float> float_features_;
    std::vector<std::uint8_t> spread_;
    std::vector<std::int16_t> integer_features_;
    std::vector<std::int8_t> narrow_;  // decoded int4
    std::vector<float> float_sums_;
    std::vector<std::int32_t> integer_sums_;
};

}  // namespace npu::sim
