// The element-wise stage (EW): one operation with a second operand, from registers or from memory (ERDMA), which passes
// a converter first; and behind it the lookup tables. Whether the converter must be live depends on the operation, and
// the wrong choice is one of the quiet ways to lose an operand. All rules here are published measurements. Internal to
// the checker.
#pragma once

#include "rockchip/checker_output.h"

namespace npu::rockchip::check {

struct ElementWise {
    bool operand_from_memory = false;
    bool multiplies = false;
};

ElementWise check_element_wise(const Reader& reader, const Pipeline& pipeline);

}  // namespace npu::rockchip::check
