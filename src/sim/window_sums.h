// Sum of the inputs that a window covers, padding included. The DPU's OW stage multiplies it with a constant, which is how
// weights with a zero point become sums of unsigned ones: sum of x*(w + z) is sum of x*w plus z times this. That the
// padding counts is measured (a captured depthwise convolution is wrong on its borders without it).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/convolution.h"
#include "sim/windows.h"

namespace npu::sim {

// Direct: one sum per output pixel, over all channels. Integer formats.
void sum_windows(const Convolution& convolution, const Plane& plane, std::vector<std::int64_t>& sums);

}  // namespace npu::sim
