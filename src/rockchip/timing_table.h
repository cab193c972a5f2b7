// The comparison of timing_measurements.h as a Markdown table: what `npu timing` prints and docs/timing-model.md holds.
#pragma once

#include <string>

#include "rockchip/timing_measurements.h"

namespace npu::rockchip {

// "fit": one of our constants was set by this row; "check": none was. With the star of the reference.
std::string row_role(const Measurement& row);

// Tasks of all calls on all cores.
std::size_t task_count(const Measurement& row);

// How the work is cut and started: "512 of 256x128x512, 64 a kick".
std::string task_summary(const Measurement& row);

// The constants that the rows exercise, with their values.
std::string constants_table(const ChipProfile& chip);

// The rows and, below them, their number, median and worst error.
std::string measurement_table(const ChipProfile& chip);

// Both tables; what docs/timing-model.md holds between its markers. Ends with a newline.
std::string timing_report(const ChipProfile& chip);

}  // namespace npu::rockchip
