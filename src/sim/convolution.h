// What a started CNA + CORE + DPU is asked to do, read from the registers: a 1x1 direct convolution of a W x H plane
// of K channels with N kernels, which is a matrix product of M = W*H rows. The registers say most numbers several
// times, once for each block; silicon hangs or corrupts when they disagree, so reading them is checking them.
//
// Modelled: every stage between the array and the writer bypassed, except the output converter to int8. Everything
// else is refused with the register that asks for it: spatial kernels, strides, padding, depthwise, the input
// converter, BS/BN/EW, look-up tables, flying mode, compressed weights.
#pragma once

#include <cstdint>
#include <optional>

#include "rockchip/chip.h"
#include "rockchip/precision.h"
#include "sim/finding.h"
#include "sim/register_state.h"

namespace npu::sim {

// The output converter: y = saturate(round((x * scale) >> shift) + offset). Used for int8 outputs only.
struct OutputConversion {
    std::int32_t scale = 1;
    std::int32_t offset = 0;
    std::uint32_t shift = 0;
    bool ties_away = false;  // else ties to even
};

struct Convolution {
    rockchip::Precision input{};
    rockchip::Precision output{};
    std::uint32_t width = 0;     // W
    std::uint32_t height = 0;    // H
    std::uint32_t channels = 0;  // K
    std::uint32_t kernels = 0;   // N

    std::uint64_t feature_address = 0;
    std::uint64_t line_atoms = 0;          // CNA.DMA_CON1, in 16-byte atoms
    std::int64_t surface_atoms = 0;        // CNA.DMA_CON2, signed
    bool lines_in_groups_of_four = false;  // GROUP_LINE_OFF = 0

    std::uint64_t weight_address = 0;
    std::uint64_t weight_bytes = 0;

    std::uint32_t data_banks = 0;
    std::uint32_t weight_banks = 0;
    bool data_reuse = false;
    bool weight_reuse = false;

    std::uint64_t output_address = 0;
    std::uint64_t output_surface_bytes = 0;  // DPU.DST_SURF_STRIDE
    std::uint64_t output_group_bytes = 0;    // DPU.SURFACE_ADD
    std::uint64_t output_notch_atoms = 0;    // gap between lines
    OutputConversion conversion;

    [[nodiscard]] std::uint32_t rows() const { return width * height; }
    [[nodiscard]] std::uint64_t row_bytes() const { return std::uint64_t{channels} * rockchip::info(input).bits / 8; }
    [[nodiscard]] std::uint64_t feature_bytes() const { return rows() * row_bytes(); }
    [[nodiscard]] std::uint32_t kernels_per_group() const { return rockchip::info(input).kernels_per_group; }
    [[nodiscard]] std::uint32_t groups() const { return kernels / kernels_per_group(); }
    // 16-byte surfaces that one kernel group fills in the output.
    [[nodiscard]] std::uint32_t surfaces_per_group() const {
        return kernels_per_group() * rockchip::info(output).bits / 8 / rockchip::atom_bytes;
    }
    [[nodiscard]] std::uint64_t output_bytes() const {
        return std::uint64_t{rows()} * kernels * rockchip::info(output).bits / 8;
    }
};

// Reads the groups that a start with `enable` would run. Empty when the task must not run; `judge` then says why.
// A register that was never written is reported first and alone, since its value is noise.
std::optional<Convolution> read_convolution(const RegisterState& state, std::uint32_t enable,
                                            const rockchip::ChipProfile& chip, Judge& judge);

}  // namespace npu::sim
