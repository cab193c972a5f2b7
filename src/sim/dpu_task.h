// What a started DPU (and DPU_RDMA) is asked to do, read from the registers: take sums from CORE, pass them through
// its stages and write them to memory.
//
// Modelled: every stage bypassed, except the output converter to int8.
#pragma once

#include <cstdint>

#include "rockchip/chip.h"
#include "rockchip/precision.h"
#include "sim/register_check.h"

namespace npu::sim {

struct Convolution;

// The output converter: y = saturate(round((x * scale) >> shift) + offset). Used for int8 outputs only.
struct OutputConversion {
    std::int32_t scale = 1;
    std::int32_t offset = 0;
    std::uint32_t shift = 0;
    bool ties_away = false;  // else ties to even
};

struct DpuTask {
    rockchip::Precision output{};
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::uint32_t channels = 0;        // N
    std::uint32_t group_channels = 0;  // channels of one group; the array delivers them together

    std::uint64_t output_address = 0;
    std::uint64_t output_surface_bytes = 0;  // DPU.DST_SURF_STRIDE
    std::uint64_t output_group_bytes = 0;    // DPU.SURFACE_ADD
    std::uint64_t output_notch_atoms = 0;    // gap between lines
    OutputConversion conversion;

    [[nodiscard]] std::uint32_t pixels() const { return width * height; }
    [[nodiscard]] std::uint32_t groups() const { return channels / group_channels; }
    // 16-byte surfaces that one group fills in the output.
    [[nodiscard]] std::uint32_t surfaces_per_group() const {
        return group_channels * rockchip::info(output).bits / 8 / rockchip::atom_bytes;
    }
    [[nodiscard]] std::uint64_t output_bytes() const {
        return std::uint64_t{pixels()} * channels * rockchip::info(output).bits / 8;
    }
};

// Reads DPU and, if it is started, DPU_RDMA. `convolution` is what CNA and CORE deliver; nullptr when the DPU runs alone
// on what its own DMA reads.
DpuTask read_dpu(RegisterCheck& check, std::uint32_t enable, const Convolution* convolution);

}  // namespace npu::sim
