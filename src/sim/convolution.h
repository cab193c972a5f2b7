// What a started CNA + CORE is asked to do, read from the registers. A window of kernel_width x kernel_height positions
// moves over a plane of width x height pixels of `channels` channels each; at every stop (output pixel) each of N kernels
// gives one sum of products. With a 1x1 window that is a matrix product of M = width * height rows, K = channels and N
// columns, which is all that a language model needs.
//
// Two modes. *Direct*: every kernel sees all channels. *Depthwise*: output channel c sees input channel c alone, and all
// weights count as one kernel. Output (y, x) of kernel n, with iy = y*stride_y - pad_top + ky*dilation_y and ix likewise:
//
//   direct     sum over c, ky, kx of feature(iy, ix, c) * weight(n, ky, kx, c)
//   depthwise  sum over ky, kx    of feature(iy, ix, n) * weight(ky, kx, n)
//
// A position outside the plane gives the pad value, on all four sides: how much is padded on the right and at the bottom
// follows from the output size. The array works on groups of kernels (G) and delivers whole groups. Kernels that a last
// group lacks are not in the weight stream; their sums are delivered as 0 and programs do not look at them. (Sources: an
// open driver for int8 convolutions, whose programs run on boards, rounds kernels up to 2 and output channels to 32; a
// hardware-tested int16 convolution has 8 kernels in a group of 16.)
//
// The registers say most numbers several times, once for each block; silicon hangs or corrupts when they disagree, so
// reading them is checking them.
#pragma once

#include <array>
#include <cstdint>

#include "rockchip/chip.h"
#include "rockchip/precision.h"
#include "sim/register_check.h"

namespace npu::sim {

// Changes inputs on their way into the buffer; bypassed in most programs. See input_converter.h.
struct InputConversion {
    bool bypassed = true;
    bool is_signed = true;           // of the values in memory
    bool adds_first = false;         // CVT_TYPE
    bool ties_half_up = false;       // ROUND_TYPE; else ties to even
    std::uint32_t channel_mask = 0;  // CNA.CVT_CON5: bit c % 32 converts channel c
    std::array<std::int16_t, 4> offset{};
    std::array<std::int16_t, 4> scale{};
    std::array<std::uint8_t, 4> truncate{};  // right shift
};

struct Convolution {
    rockchip::Precision input{};
    bool depthwise = false;

    // Features.
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::uint32_t channels = 0;  // K of one pixel, padding included
    std::uint64_t feature_address = 0;
    std::uint64_t line_atoms = 0;          // CNA.DMA_CON1, in 16-byte atoms
    std::int64_t surface_atoms = 0;        // CNA.DMA_CON2, signed
    bool lines_in_groups_of_four = false;  // GROUP_LINE_OFF = 0
    InputConversion conversion;

    // Window.
    std::uint32_t kernel_width = 1;
    std::uint32_t kernel_height = 1;
    std::uint32_t stride_x = 1;
    std::uint32_t stride_y = 1;
    std::uint32_t dilation_x = 1;  // distance of neighbouring positions; 1 is a dense window
    std::uint32_t dilation_y = 1;
    std::uint32_t pad_left = 0;
    std::uint32_t pad_top = 0;
    std::uint32_t pad_value = 0;  // CNA.PAD_CON1, all 32 bits; see padding.h

    // Weights.
    std::uint32_t kernels = 0;  // N that exist; 1 when depthwise
    std::uint64_t weight_address = 0;
    std::uint64_t weight_bytes = 0;         // dense size
    std::uint64_t weight_memory_bytes = 0;  // what is read: less when compressed
    bool compressed = false;
    std::array<std::uint32_t, 16> lane_blocks{};  // of compressed weights, in 16 bytes

    // On-chip buffer.
    std::uint32_t data_banks = 0;
    std::uint32_t weight_banks = 0;
    bool data_reuse = false;
    bool weight_reuse = false;

    // Results.
    std::uint32_t output_width = 0;
    std::uint32_t output_height = 0;
    std::uint32_t output_channels = 0;  // a multiple of kernels_per_group()
    std::uint32_t truncate_bits = 0;    // CORE.CLIP_TRUNCATE, applied to integer sums before they are delivered
    bool truncate_half_up = false;      // else ties to even
    // Set by who consumes the sums: the DPU's OW stage needs the sum of the inputs of each window.
    bool wants_window_sums = false;

    // Output pixels: M of a matrix product.
    [[nodiscard]] std::uint32_t rows() const { return output_width * output_height; }
    // A pixel of the features.
    [[nodiscard]] std::uint64_t row_bytes() const { return std::uint64_t{channels} * rockchip::info(input).bits / 8; }
    [[nodiscard]] std::uint64_t feature_bytes() const { return std::uint64_t{width} * height * row_bytes(); }
    [[nodiscard]] std::uint32_t positions() const { return kernel_width * kernel_height; }
    // One kernel; all weights when depthwise.
    [[nodiscard]] std::uint64_t kernel_bytes() const { return positions() * row_bytes(); }
    // G: channels that are delivered together. A depthwise group covers two atoms of 32 bytes of inputs.
    [[nodiscard]] std::uint32_t kernels_per_group() const {
        return depthwise ? 64 * 8 / rockchip::info(input).bits : rockchip::info(input).kernels_per_group;
    }
    [[nodiscard]] std::uint32_t groups() const { return output_channels / kernels_per_group(); }
    // Without padding and inserted zeros: what the array is busy with.
    [[nodiscard]] std::uint64_t macs() const {
        return std::uint64_t{rows()} * positions() * channels * (depthwise ? 1 : kernels);
    }
    // A plain matrix product: each output pixel reads the input pixel of the same number.
    [[nodiscard]] bool is_product() const {
        return positions() == 1 && stride_x == 1 && stride_y == 1 && pad_left == 0 && pad_top == 0 &&
               output_width == width && output_height == height && !depthwise;
    }
};

// The other readings of registers that no source explains.
struct CnaReadings {
    // Whether a dilation field holds the distance of two positions (0 and 1 both dense); else the gap between them, as
    // in the accelerator that this one descends from.
    bool dilation_is_distance = false;
};

// Fill the part of a convolution that the block holds. Afterwards the convolution can be run safely unless the judge was
// told to stop: sizes are bounded, and nothing is empty.
void read_cna(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution,
              const CnaReadings& readings = {});
void read_core(RegisterCheck& check, Convolution& convolution);

// Whether features and weights fit the on-chip buffer as CNA.CBUF_CON0 splits it.
void check_cbuf(RegisterCheck& check, const rockchip::ChipProfile& chip, const Convolution& convolution);

}  // namespace npu::sim
