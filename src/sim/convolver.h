// Runs one checked convolution on memory: gathers the features, passes the weight stream through the array group by
// group, and delivers the sums. Memory it takes is bounded: where all windows of a plane would need too much of it, the
// output pixels are worked off in pieces. Keeps its buffers, so that a decode loop with one row per task allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/accumulators.h"
#include "sim/convolution.h"
#include "sim/depthwise.h"
#include "sim/mac.h"
#include "sim/padding.h"
#include "sim/weight_stream.h"
#include "sim/windows.h"

namespace npu::sim {

// Memory of a task: each pointer is at the beginning of the extent of the same name in addressing.h.
struct ConvolutionMemory {
    const std::byte* features = nullptr;
    const std::byte* weights = nullptr;
};

class Convolver {
  public:
    // What silicon does where sources leave a choice.
    struct Options {
        bool lane0_deviation = false;  // see deviate_lane_0
        DirectPadding direct_padding = DirectPadding::low_byte;
        std::size_t most_prepared_bytes = std::size_t{32} << 20;  // decoded windows that are held at once
    };

    explicit Convolver(const MacKernels& kernels = best_kernels()) : Convolver(kernels, Options{}) {}
    Convolver(const MacKernels& kernels, const Options& options) : kernels_(&kernels), options_(options) {}

    // The convolution has been checked: read_task accepted it and the memory is mapped.
    void run(const Convolution& convolution, const ConvolutionMemory& memory, AccumulatorSink& sink);

  private:
    // Output pixels whose windows are decoded at the moment.
    struct Rows {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
    };

    Plane load_plane(const Convolution& convolution, const std::byte* features);
    void run_direct(const Convolution& convolution, const Plane& plane, const std::byte* weights,
                    AccumulatorSink& sink);
    void prepare(const Convolution& convolution, const Plane& plane, Rows rows);
    void prepare_float(const Convolution& convolution, const std::byte* windows, std::uint32_t rows);
    void multiply_float(const Convolution& convolution, const std::byte* weights, Rows rows);
    void multiply_integer(const Convolution& convolution, const std::byte* weights, Rows rows);
    void deliver(const Convolution& convolution, std::uint32_t group, AccumulatorSink& sink);

    const MacKernels* kernels_;
    Options options_;
    WeightStream weights_;
    DepthwiseArray depthwise_;
    std::vector<std::byte> pixels_;  // gathered features, memory format
    std::vector<std::byte> padding_;
    std::vector<std::byte> windows_;
    std::vector<double> float_features_;
    std::vector<std::uint8_t> spread_;
    std::vector<std::int16_t> integer_features_;
    std::vector<std::int8_t> narrow_;         // decoded int4 weights
    std::vector<std::int16_t> wide_weights_;  // decoded weights of sums that need 64 bits
    std::vector<float> float_sums_;
    std::vector<std::int32_t> integer_sums_;
    std::vector<std::int64_t> wide_sums_;
    std::vector<std::int64_t> window_sums_;
};

}  // namespace npu::sim
