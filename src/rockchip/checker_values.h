// Which registers a matmul must write, and which values are the same in every one. Internal to the checker.
#pragma once

#include <cstdint>

#include "rockchip/checker_findings.h"

namespace npu::rockchip::check {

// Registers survive jobs and processes. One that this chain did not write, in the group that the task uses, holds a
// stranger's value: refused when it acts, warned about when the stage that reads it is bypassed. False when a
// register that acts is missing.
bool check_written(const RegisterFile& file, std::uint32_t enable, Findings& findings);

// Stages and modes that no matmul uses: bypassed or zero, as every captured and generated program has them.
void check_fixed_values(const RegisterFile& file, std::uint32_t enable, Findings& findings);

}  // namespace npu::rockchip::check
