// The stages between the array and the element-wise stage: the weight zero point (CPEND), which adds an operand times
// the sum of the input window, and the two scaling stages BS and BN, each an ALU, a multiplier and a ReLU. Their
// operands come from registers, or one per channel from memory: BRDMA feeds CPEND and BS, NRDMA feeds BN. A stage that
// waits for an operand nobody sends never ends. Internal to the checker.
#pragma once

#include <vector>

#include "rockchip/checker_output.h"

namespace npu::rockchip::check {

// Adds the operands that the stages read from memory.
void check_stages(const Reader& reader, const Pipeline& pipeline, std::vector<Operand>& operands);

}  // namespace npu::rockchip::check
