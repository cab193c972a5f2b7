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
                .clock_hz = 1e9,         // vendor driver, devfreq at its top
                .boot_clock_hz = 200e6,  // published: mainline has no devfreq
                .patched_clock_hz = 600e6,
                .memory_hz = 2112e6,  // published with the bandwidths: 64 bits, 33.8 GB/s peak
                // Published: weights read by one core. Other projects: 10.5 as a lower bound, 10.9 for the largest
                // weights of a series; the device times of fp16 chains follow from it within 6 %.
                .core_bytes_per_second = 11.1e9,
                .port_bytes_per_cycle = 16,       // an atom a cycle: our inference. It bounds a core below 700 MHz, and
                                                  // published times at 600 and 200 MHz agree
                .shared_bytes_per_second = 26e9,  // published: 23.2, 24.7 (a lower bound) and 26.6-28.6, three cores
                .task_start_seconds = 1e-6,       // published: int4 chains of 7.9 us per task, 7 of them for its bytes
                .rknpu_submit_seconds = 55e-6,    // published: int8 tasks of 80-105 us, less the 25-45 us of the task
                .rknpu_unpinned_submit_seconds = 167e-6,     // published: typical round trip of the ioctl
                .rocket_submit_seconds = 52e-6,              // published: 51-53 us for a job of 8x64x16
                .rocket_big_core_submit_seconds = 33.5e-6,   // published, the same job
                .rocket_same_core_submit_seconds = 27.5e-6,  // published, the same job: 27-28 us
                .sync_start_seconds = 1.1e-6,                // published for the RK3576, each way
                .sync_bytes_per_second = 10.6e9,             // published for the RK3576, each way
                .host_bytes_per_second = 13.4e9,             // published: memcpy; another project read weights at 9.4
            },
    };
    return profile;
}

}  // namespace npu::rockchip
