// What differs between NPUs of the family, as data. The rest of the code has no chip-dependent branches: it
// reads these numbers. Each number names its source in chip.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "rockchip/precision.h"

namespace npu::rockchip {

// Constants of the timing model; see timing.h for how they combine.
struct TimingConstants {
    double clock_hz;                 // NPU clock under the vendor driver
    double mac_efficiency;           // share of the MAC peak reached in a long chain
    double core_bytes_per_second;    // DDR bandwidth that one core reaches alone
    double shared_bytes_per_second;  // DDR bandwidth that all cores reach together
    double task_seconds;             // fetch and start of one chained task
    double submit_seconds;           // one submission: system call, interrupt, wake-up
};

struct ChipProfile {
    std::string_view name;  // "RK3588"
    std::uint32_t cores;
    std::uint32_t cbuf_banks;
    std::uint32_t cbuf_bank_bytes;
    std::uint32_t max_data_banks;    // at least one bank is left for weights
    std::uint32_t min_weight_banks;  // 1 hangs with narrow N (see hazards in docs/rk3588.md)
    std::uint32_t max_k;             // input channels of one task that several sources verified
    std::uint32_t hazard_k_low;      // K strictly between low and high failed on hardware for two sources
    std::uint32_t hazard_k_high;
    std::uint32_t max_n;       // output channels of one task: 13-bit DPU fields
    std::uint32_t max_extent;  // feature width or height: 11-bit CNA fields
    std::uint32_t max_tasks_per_submit;
    std::uint32_t max_bytes_per_kernel;
    TimingConstants timing;

    // Multiply-accumulates per cycle and core, 0 when the precision does not exist as an input.
    [[nodiscard]] std::uint32_t macs_per_cycle(Precision precision) const;
};

const ChipProfile& rk3588();

}  // namespace npu::rockchip
