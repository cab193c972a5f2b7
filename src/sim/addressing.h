// Where features are read, from register values alone. Memory is counted in atoms of 16 bytes: one atom is one pixel of a
// few channels (a "surface" is the plane of such atoms). With h, w the pixel and s the surface,
//
//   features, GROUP_LINE_OFF = 1:  A + 16 * ( h*line + s*(W + surf) + w )
//   features, GROUP_LINE_OFF = 0:  A + 16 * ( (h>>2)*line + s*(4*W + surf) + (h&3)*W + w )      surf is signed
//
// Weights are a plain stream and need no formula here. Source: derived from captured programs and hardware-tested
// generators; agrees with all of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/convolution.h"
#include "sim/extent.h"

namespace npu::sim {

// Lowest to highest byte that the features or the weights of a task touch.
Extent feature_extent(const Convolution& convolution);
Extent weight_extent(const Convolution& convolution);

// Copies the features of all pixels, line by line: pixel h*W + w holds its K channels in order. `memory` starts at
// feature_extent().begin; `pixels` has feature_bytes() bytes.
void gather_features(const Convolution& convolution, const std::byte* memory, std::byte* pixels);

}  // namespace npu::sim
