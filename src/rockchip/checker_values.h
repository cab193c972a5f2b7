// Which registers a task must write, and which fields no source explains. Internal to the checker.
#pragma once

#include "rockchip/checker_findings.h"

namespace npu::rockchip::check {

// Registers survive jobs and processes. One that this chain did not write, in the group that the task uses, holds a
// stranger's value: refused when it acts, warned about when the stage that reads it is bypassed. False when a
// register that acts is missing.
bool check_written(const Reader& reader);

// Fields that are 0 in every program and that no source explains.
void check_unexplained(const Reader& reader);

}  // namespace npu::rockchip::check
