// The limits that are published failures rather than facts of the silicon. Each has a name and can be taken away, for an
// experiment on a board: `npu plan --without NAME`, or GGML_NPU_WITHOUT in the plugin. A limit that a register field sets (13
// bits of output channels, 11 of width and height) is no constraint of this kind.
#pragma once

#include <span>
#include <string_view>

#include "compile/tiling.h"

namespace npu::compile {

struct Constraint {
    std::string_view name;  // "int8-slack-bank"
    std::string_view rule;
    std::string_view source;
    bool PlanOptions::*active;
};

std::span<const Constraint> constraints();

// Takes away the constraints named in a list separated by commas. Errors: invalid_argument for a name that there is not, with
// all that there are.
Result<void> take_away(std::string_view names, PlanOptions& options);

// The chip as it is when these options do not limit K: how K is cut is decided from the chip alone, so that weights lie the
// same for every plan (gemm/weights.h). Whoever opens a device with this profile has plans, programs and their checker agree.
rockchip::ChipProfile with_limits_of_k(rockchip::ChipProfile chip, const PlanOptions& options);

}  // namespace npu::compile
