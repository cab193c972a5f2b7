// Tasks beyond the matmul for the tests of the checker: spatial and depthwise convolutions, element-wise tasks and
// pooling, written down register by register from published programs and recipes. A test takes a sound task, changes one
// thing and asks what the checker says.
#pragma once

#include <cstdint>

#include "rockchip/sample_program.h"

namespace npu::rockchip::test {

struct ConvolutionShape {
    Precision input = Precision::int8;
    Precision output = Precision::int8;
    std::uint32_t width = 14, height = 10, channels = 64, kernels = 64;
    std::uint32_t kernel_width = 3, kernel_height = 3;
    std::uint32_t stride_x = 1, stride_y = 1;
    std::uint32_t pad_left = 1, pad_right = 1, pad_top = 1, pad_bottom = 1;
    bool depthwise = false;
    bool bias = true;  // int32 per channel through BRDMA
    std::uint32_t feature_address = 0x00100000;
    std::uint32_t weight_address = 0x00800000;
    std::uint32_t bias_address = 0x00f00000;
    std::uint32_t output_address = 0x01800000;

    [[nodiscard]] std::uint32_t output_width() const;
    [[nodiscard]] std::uint32_t output_height() const;
};

// Fires CNA, CORE, DPU and DPU_RDMA, as the open drivers do.
SampleTask sample_convolution(const ConvolutionShape& shape);

struct ElementWiseShape {
    Precision input = Precision::int32;
    Precision output = Precision::int32;
    std::uint32_t width = 24, height = 1, channels = 64;
    std::uint32_t operation = 0x10c203c0;  // EW_CFG; default: add 32-bit integers
    bool operand = true;                   // a second operand through ERDMA
    std::uint32_t main_address = 0x00100000;
    std::uint32_t operand_address = 0x00200000;
    std::uint32_t output_address = 0x01800000;
};

// Fires DPU and DPU_RDMA. Dense planes: one surface of 16 bytes per pixel after the other.
SampleTask sample_element_wise(const ElementWiseShape& shape);

struct PoolingShape {
    std::uint32_t method = 1;  // 0 average, 1 maximum, 2 minimum
    std::uint32_t width = 12, height = 8, channels = 24;
    std::uint32_t window_width = 3, window_height = 2, stride_x = 2, stride_y = 1;
    std::uint32_t pad_left = 1, pad_right = 0, pad_top = 0, pad_bottom = 1;
    std::uint32_t input_address = 0x00100000;
    std::uint32_t output_address = 0x01800000;
};

// Fires PPU and PPU_RDMA.
SampleTask sample_pooling(const PoolingShape& shape);

// A program of one task; its interrupt mask is the one the task ends with.
SampleProgram sample(SampleTask task);

}  // namespace npu::rockchip::test
