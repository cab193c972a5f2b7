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
    double clock_hz;                        // NPU clock under the vendor driver
    double boot_clock_hz;                   // NPU clock that mainline leaves it at
    double patched_clock_hz;                // and that patched mainline kernels set
    double memory_hz;                       // memory clock at which the bandwidths were measured
    double core_bytes_per_second;           // bandwidth that one core reaches, whatever its clock
    double port_bytes_per_cycle;            // width of a core's memory port: bounds it at low clocks
    double shared_bytes_per_second;         // bandwidth that all cores reach together
    double task_start_seconds;              // switch of the register group between two tasks of a chain
    double rknpu_submit_seconds;            // one kick: system call, interrupt, wake-up; see KernelSetup
    double rknpu_unpinned_submit_seconds;   //
    double rocket_submit_seconds;           //
    double rocket_big_core_submit_seconds;  //
    double rocket_same_core_submit_seconds;
    double sync_start_seconds;     // cache synchronisation of one buffer: fixed part
    double sync_bytes_per_second;  // and the rate over its bytes
    double host_bytes_per_second;  // at which one thread of the host reads what lies in memory
};

// How the registers of a chip lie. Addresses and blocks are the same across the family, the fields inside them are not.
enum class RegisterMap : std::uint8_t {
    rk3588,  // registers.def
    rv1106,  // what sim/rv1106.h reads: enough to run four published programs, not to build one
};

struct ChipProfile {
    std::string_view name;  // "RK3588"
    RegisterMap registers = RegisterMap::rk3588;
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

// The limits are those of the published programs that the simulated machine replays; nothing larger is proven. Programs
// are not built for it.
const ChipProfile& rv1106();

// The profile of a chip by name, upper or lower case, the names of the same silicon included: "rk3588s", "RV1103". The
// profile lives forever. Error `unsupported` for a family member that cannot be simulated: it says what is known of the
// chip and what is missing. Error `invalid_argument` for a name that means nothing: it lists the names.
Result<const ChipProfile*> find_chip(std::string_view name);

}  // namespace npu::rockchip
