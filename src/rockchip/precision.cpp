#include "rockchip/precision.h"

#include <array>
#include <cstdlib>

namespace npu::rockchip {

namespace {

// tf32 leaves the MAC array as fp32: the DPU knows no tf32 (a DPU format of 7 writes nothing).
constexpr std::array table{
    PrecisionInfo{Precision::int8, "int8", 0, 8, 32, 32, false},
    PrecisionInfo{Precision::int16, "int16", 1, 16, 16, 32, false},
    PrecisionInfo{Precision::fp16, "fp16", 2, 16, 16, 32, true},
    PrecisionInfo{Precision::bf16, "bf16", 3, 16, 16, 32, true},
    PrecisionInfo{Precision::int4, "int4", 6, 4, 64, 32, false},
    PrecisionInfo{Precision::tf32, "tf32", 5, 32, 16, 16, true},
    PrecisionInfo{Precision::int32, "int32", 4, 32, 0, 0, false},
    PrecisionInfo{Precision::fp32, "fp32", 5, 32, 0, 0, true},
};

}  // namespace

const PrecisionInfo& info(Precision precision) {
    for (const PrecisionInfo& entry : table) {
        if (entry.precision == precision) {
            return entry;
        }
    }
    std::abort();
}

std::optional<Precision> precision_from_cna_code(std::uint32_t code) {
    for (const PrecisionInfo& entry : table) {
        if (entry.kernels_per_group != 0 && static_cast<std::uint32_t>(entry.precision) == code) {
            return entry.precision;
        }
    }
    return std::nullopt;
}

std::optional<Precision> precision_from_dpu_code(std::uint32_t code) {
    for (const PrecisionInfo& entry : table) {
        if (entry.precision != Precision::tf32 && entry.dpu_code == code) {
            return entry.precision;
        }
    }
    return std::nullopt;
}

}  // namespace npu::rockchip
