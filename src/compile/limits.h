// How fast a matmul could be at best: no plan beats the array that multiplies everything in every cycle, nor the memory that
// each matrix crosses once. Padding does not count: it is the plan's business.
#pragma once

#include "compile/tiling.h"
#include "rockchip/timing.h"

namespace npu::compile {

struct Limits {
    double mac_seconds = 0;     // all multiply-accumulates on `cores` cores at their peak rate
    double memory_seconds = 0;  // operands and result once, at the bandwidth that all cores reach together
    [[nodiscard]] double seconds() const { return mac_seconds > memory_seconds ? mac_seconds : memory_seconds; }
};

Limits limits(const MatmulShape& shape, std::uint32_t cores, const ChipProfile& chip,
              const rockchip::Conditions& conditions);

}  // namespace npu::compile
