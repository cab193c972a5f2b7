// The multiplication on the host's own cores, from the weights as they lie in device memory, so that they exist once. For a
// handful of rows (a decoder has one) the NPU is no faster than reading all weights takes, and starting it costs more.
// Results are the NPU's, bit for bit: sums of integers are exact, and they are scaled in the same order.
//
// Threads share the kernel groups of all matrices and convert the activations each for itself: that is a small part of the
// work, and nobody has to wait for anybody.
#pragma once

#include <span>

#include "base/team.h"
#include "gemm/product.h"

namespace npu::gemm {

// int8, w4a8 and int4. The others round on the chip as no CPU does.
bool runs_on_cpu(Pipeline pipeline);

// The share of thread `index` of `count`: part of the columns of every row of the results. Device memory is only read. The
// pipeline is one that runs on the CPU.
void multiply_share_on_cpu(std::span<const Product> products, RowsView x, unsigned index, unsigned count);

// All of it, with the threads of the team. Error: unsupported for a pipeline that does not run on the CPU.
Result<void> multiply_resident_on_cpu(std::span<const Product> products, RowsView x, const Team& team);

}  // namespace npu::gemm
