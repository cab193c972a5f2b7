// A model of time that tests of the kernels can compute by themselves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "sim/sim.h"

namespace npu::sim::test {

// So many seconds for each multiplication of the busiest core.
inline SubmissionModel seconds_by_macs(double seconds) {
    return [seconds](std::span<const rockchip::CoreWork> cores, std::uint32_t) {
        std::uint64_t most = 0;
        for (const rockchip::CoreWork& tasks : cores) {
            std::uint64_t macs = 0;
            for (const TaskWork& work : tasks) {
                macs += work.macs;
            }
            most = std::max(most, macs);
        }
        return static_cast<double>(most) * seconds;
    };
}

}  // namespace npu::sim::test
