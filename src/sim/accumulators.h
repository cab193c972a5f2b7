// What CORE hands to the DPU: sums, not yet in any output format. The array works on one group of kernels after the
// other; of each it delivers the sums of all output pixels. This is the border between the convolution (convolver.h)
// and what happens to its results (dpu.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::sim {

// Nothing is owned; valid during the call that hands it over. Value of pixel p and channel c of the group: [p * channels + c].
struct Accumulators {
    std::uint32_t pixels = 0;         // output width * height, line by line
    std::uint32_t first_channel = 0;  // of the output cube
    std::uint32_t channels = 0;       // in this group
    // Exactly one of these: fp32 for float inputs, 32 bits for int8 and int4, 64 bits for int16 (measured to be wider
    // than 32 bits inside).
    const float* floats = nullptr;
    const std::int32_t* integers = nullptr;
    const std::int64_t* wide = nullptr;
    // Sum of the inputs under the kernel's window, padding included, which the DPU's OW stage multiplies with the
    // weights' zero point: one per pixel, or one per pixel and channel in depthwise mode. Null unless asked for.
    const std::int64_t* window_sums = nullptr;
    bool window_sums_per_channel = false;
};

class AccumulatorSink {
  public:
    virtual ~AccumulatorSink() = default;
    virtual void take(const Accumulators& sums) = 0;
};

}  // namespace npu::sim
