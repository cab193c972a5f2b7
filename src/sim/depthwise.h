// Depthwise convolution: output channel c sees input channel c alone. The array takes a group of 64 channels of int8 or
// 32 of 16-bit formats at once (two atoms of 32 bytes), and its weights are stored [group][position][channel], only
// channels that exist. All weights together count as one kernel. Source: an open driver's int8 programs, of which one was
// captured with its tensors, and published layouts for fp16.
//
// Floats: each position of the window is a step, so a sum grows in fp32, position by position, line by line; products
// are exact. That is our reading of mac.h for this mode; no source tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/accumulators.h"
#include "sim/convolution.h"
#include "sim/windows.h"

namespace npu::sim {

class DepthwiseArray {
  public:
    // Delivers group after group; channels that have no input deliver 0. `weights` is the mapped memory at
    // weight_extent().begin.
    void run(const Convolution& convolution, const Plane& plane, const std::byte* weights, AccumulatorSink& sink);

  private:
    std::vector<std::int32_t> integer_sums_;
    std::vector<std::int64_t> wide_sums_;
    std::vector<float> float_sums_;
    std::vector<std::int64_t> window_sums_;
};

}  // namespace npu::sim
