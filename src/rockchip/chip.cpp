#include "rockchip/chip.h"

namespace npu::rockchip {

std::uint32_t ChipProfile::macs_per_cycle(Precision precision) const {
    switch (precision) {  // register manual, same for all members of the family that we know
        case Precision::int4: return 2048;
        case Precision::int8: return 1024;
        case Precision::int16:
        case Precision::fp16:
        case Precision::bf16: return 512;
        case Precision::tf32: return 256;
        case Precision::int32:
        case Precision::fp32: return 0;
    }
    return 0;
}

const ChipProfile& rk3588() {
    static constexpr ChipProfile profile{
        .name = "RK3588",
        .cores = 3,        // register manual
        .cbuf_banks = 12,  // register manual: 384 KiB per core
        .cbuf_bank_bytes = 32768,
        .max_data_banks = 11,
        .min_weight_banks = 2,  // published: one bank hung until power-cycle (fp16, narrow N, K=1024)
        .max_k = 8192,          // published by three independent projects
        .hazard_k_low = 3072,   // published by two: failures for 3072 < K < 4096 with M > 4
        .hazard_k_high = 4096,
        .max_n = 8192,                  // published: 16384 is silently wrong
        .max_extent = 2047,             // 11-bit fields of CNA.DATA_SIZE0
        .max_tasks_per_submit = 4095,   // kernel source: 12-bit task counter
        .max_bytes_per_kernel = 32768,  // enforced by a hardware-tested generator; the field has 19 bits
        .timing =
            {
                .clock_hz = 1e9,                  // vendor driver, devfreq at its top
                .mac_efficiency = 0.73,           // published: 42-45 us per task against 30.7-32.8 ideal
                .core_bytes_per_second = 8.7e9,   // published: weight streaming, one task, one core
                .shared_bytes_per_second = 20e9,  // published: six chained streams
                .task_seconds = 2e-6,             // our estimate; published rows only bound it
                .submit_seconds = 90e-6,          // published: warm submission floor 80-100 us
            },
    };
    return profile;
}

}  // namespace npu::rockchip
