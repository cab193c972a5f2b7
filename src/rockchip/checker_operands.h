// DPU_RDMA: the readers that bring operands from memory to the DPU. MRDMA reads the main operand of a flying task; ERDMA
// reads the operand of the element-wise stage; beside the array, both together read one element-wise operand, MRDMA its
// even and ERDMA its odd surfaces (COMB_USE 5). A reader that is enabled and has no taker, or a taker without a reader,
// stops the task for good. Addresses (W x H plane, one atom = 16 bytes):
//   MRDMA  SRC_BASE + s * (16 * H * (W + LINE_NOTCH) + SURF_NOTCH) + 16 * (h * (W + LINE_NOTCH) + w)
//   ERDMA  EW_BASE + s * (EW_SURF_STRIDE + EW_SURF_NOTCH) + 16 * (h * (W + EW_LINE_NOTCH) + w)
// with s counting the surfaces that the reader reads. Sources: published programs that ran on hardware, from which the
// formulas are inferred, and published measurements. Internal to the checker.
#pragma once

#include <vector>

#include "rockchip/checker_elementwise.h"

namespace npu::rockchip::check {

// For tasks that fire DPU_RDMA. Adds the operands that MRDMA and ERDMA read.
void check_operand_readers(const Reader& reader, const Pipeline& pipeline, const ElementWise& element_wise,
                           std::vector<Operand>& operands);

}  // namespace npu::rockchip::check
