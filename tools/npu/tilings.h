// How others cut a matmul, as far as they published it, so that the same model can price it beside ours.
#pragma once

#include <span>
#include <vector>

#include "compile/tiling.h"
#include "rockchip/timing.h"

namespace npu::tools {

struct Tiling {
    const char* name;
    const char* rule;
    std::uint32_t tasks_per_kick;  // 0: all
    // The tasks of each core.
    std::vector<std::vector<rockchip::TaskWork>> (*cut)(const compile::MatmulShape& shape,
                                                        const rockchip::ChipProfile& chip);
};

std::span<const Tiling> published_tilings();

}  // namespace npu::tools
