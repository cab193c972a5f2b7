// What one task computes, read from its registers, and the rules about their values: everything that two registers
// say twice must agree, every stage that a matmul does not use must be bypassed. Internal to the checker.
#pragma once

#include <cstdint>
#include <optional>

#include "rockchip/checker_findings.h"

namespace npu::rockchip::check {

// A 1x1 convolution as the registers state it. The plane of width x height pixels holds the M rows of a matmul.
struct Matmul {
    Precision input = Precision::int8;
    Precision output = Precision::int32;
    std::uint32_t width = 0, height = 0;
    std::uint32_t channels = 0;       // K
    std::uint32_t kernels = 0;        // N
    bool single_line = false;         // GROUP_LINE_OFF: lines addressed one by one, not in groups of four
    std::int64_t line_stride = 0;     // feature lines, atoms
    std::int64_t surface_stride = 0;  // feature surfaces, atoms, signed
    std::uint32_t feature_address = 0, weight_address = 0, output_address = 0;
    std::uint64_t feature_bytes = 0;  // dense, without strides
    std::uint64_t weight_bytes = 0;
    std::uint32_t output_surface_stride = 0;  // bytes between surfaces of a group
    std::uint32_t output_group_stride = 0;    // bytes between groups
    std::uint32_t output_notch = 0;           // atoms skipped per line
    std::uint32_t surfaces_per_group = 0;
    std::uint32_t cbuf_con0 = 0, cbuf_con1 = 0;
};

// Reads the task that `enable` fires. Empty when so much is wrong that the other rules would only echo it.
std::optional<Matmul> read_matmul(const RegisterFile& file, std::uint32_t enable, const ChipProfile& chip,
                                  Findings& findings);

// CBUF rules: banks, capacity, entries, reuse. `previous` is the task before it in the same chain, or nullptr.
void check_cbuf(const Matmul& task, const Matmul* previous, const ChipProfile& chip, Findings& findings);

}  // namespace npu::rockchip::check
