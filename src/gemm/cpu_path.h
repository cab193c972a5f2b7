// The multiplication on the host's own cores, from the weights as they lie in device memory, so that they exist once. For a
// handful of rows (a decoder has one) the NPU is no faster than reading all weights takes, and starting it costs more.
// Results are the NPU's, bit for bit: sums of integers are exact, and they are scaled in the same order.
#pragma once

#include "base/team.h"
#include "gemm/rows.h"
#include "gemm/weights.h"

namespace npu::gemm {

// int8, w4a8 and int4. The others round on the chip as no CPU does.
bool runs_on_cpu(Pipeline pipeline);

// Writes x.rows rows of N floats; meant for up to 8. The threads of the team share the kernel groups. Device memory is only
// read. Error: unsupported for a pipeline that does not run on the CPU.
Result<void> multiply_resident_on_cpu(const ResidentWeights& weights, RowsView x, TargetView y,
                                      const rockchip::ChipProfile& chip, const Team& team);

}  // namespace npu::gemm
