// The order of a graph's nodes. Models write q, k and v one after the other with norms and rotations between, but the three
// multiply the same activations: brought next to each other, they are converted once and go out as one job (gemm/engine.h).
// ggml asks for the order before it plans the graph's memory, so nothing is overwritten too early.
#pragma once

#include "plugin/ggml_host.h"
#include "plugin/multiplier.h"

namespace npu::plugin {

// Moves every matmul with resident weights up to the first one of the same activations, unless something between them
// writes into those. Keeps the order of everything else.
void gather_matmuls(ggml_cgraph* graph, const Multiplier& multiplier);

}  // namespace npu::plugin
