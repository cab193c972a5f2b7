// The front of a convolution (CNA and CORE): which plane of which pixels meets which kernels, and what the result's
// plane must then be. A matmul is the 1x1 case whose pixels are the M rows.
//
// The registers give padding on the left and on top only; how much there is on the right and at the bottom follows from
// the output size, which may thus lie between what fits in the input and what up to a kernel minus one of padding adds.
// Strides are literal. Sources: register manual; captured 1x1 convolutions; programs of an open driver and of a
// hardware-tested generator for spatial kernels and depthwise convolutions. Internal to the checker.
#pragma once

#include <cstdint>
#include <optional>

#include "rockchip/checker_findings.h"
#include "rockchip/precision.h"

namespace npu::rockchip::check {

struct Convolution {
    Precision input = Precision::int8;
    bool depthwise = false;
    std::uint32_t width = 0, height = 0;  // input plane
    std::uint32_t channels = 0;           // input channels with padding: K
    std::uint32_t output_width = 0, output_height = 0;
    std::uint32_t kernels = 0;          // N; 1 in a depthwise convolution
    std::uint32_t group = 0;            // output channels that the array makes together
    std::uint32_t output_channels = 0;  // whole groups
    bool single_line = false;           // GROUP_LINE_OFF: lines addressed one by one, not in groups of four
    std::int64_t line_stride = 0;       // feature lines, atoms
    std::int64_t surface_stride = 0;    // feature surfaces, atoms, signed
    std::uint32_t feature_address = 0, weight_address = 0;
    std::uint64_t feature_bytes = 0;        // dense, without strides
    std::uint64_t kernel_bytes = 0;         // of one kernel
    std::uint64_t weight_bytes = 0;         // of all, as the array sees them
    std::uint64_t stored_weight_bytes = 0;  // in memory; differs when compressed
    std::uint32_t cbuf_con0 = 0, cbuf_con1 = 0;
};

// Empty when so much is wrong, or not understood, that the other rules would only echo it.
std::optional<Convolution> read_convolution(const Reader& reader);

// Weights, and their number; fills in the rest of `task`. (checker_kernels.cpp)
void read_kernels(const Reader& reader, Convolution& task);

}  // namespace npu::rockchip::check
