// What a started CNA + CORE is asked to do, read from the registers: a 1x1 direct convolution of a W x H plane
// of K channels with N kernels, which is a matrix product of M = W*H rows. The registers say most numbers several
// times, once for each block; silicon hangs or corrupts when they disagree, so reading them is checking them.
//
// Refused with the register that asks for it: spatial kernels, strides, padding, depthwise, the input converter,
// compressed weights.
#pragma once

#include <cstdint>

#include "rockchip/chip.h"
#include "rockchip/precision.h"
#include "sim/register_check.h"

namespace npu::sim {

struct Convolution {
    rockchip::Precision input{};
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

    [[nodiscard]] std::uint32_t rows() const { return width * height; }
    [[nodiscard]] std::uint64_t row_bytes() const { return std::uint64_t{channels} * rockchip::info(input).bits / 8; }
    [[nodiscard]] std::uint64_t feature_bytes() const { return rows() * row_bytes(); }
    [[nodiscard]] std::uint32_t kernels_per_group() const { return rockchip::info(input).kernels_per_group; }
    [[nodiscard]] std::uint32_t groups() const { return kernels / kernels_per_group(); }
};

// Fill the part of a convolution that the block holds.
void read_cna(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution);
void read_core(RegisterCheck& check, Convolution& convolution);

// Whether features and weights fit the on-chip buffer as CNA.CBUF_CON0 splits it.
void check_cbuf(RegisterCheck& check, const rockchip::ChipProfile& chip, const Convolution& convolution);

}  // namespace npu::sim
