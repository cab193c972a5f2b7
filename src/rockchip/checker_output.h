// The DPU as a whole: what comes in, in which format, what goes out, in which format, and where it is written. Its stages
// (BS, BN, EW) stand in files of their own. Internal to the checker.
//
// The writer cuts the output channels into 16-byte surfaces and these into groups; a convolution's groups are the
// channels that the array makes together, so SIZE_E must say how many surfaces they fill. Element-wise tasks have groups
// of one surface. Sources: register manual, captured programs, published measurements of the converter.
#pragma once

#include <cstdint>
#include <optional>

#include "rockchip/checker_task.h"

namespace npu::rockchip::check {

// What the DPU works on. `convolution` is nullptr in flying mode, where data comes from memory.
struct Pipeline {
    const Convolution* convolution = nullptr;
    Precision input = Precision::int8;  // of the array, or of the main operand
    Precision output = Precision::int8;
    std::uint32_t width = 0, height = 0;  // of the output
    std::uint32_t channels = 0;           // with padding
    [[nodiscard]] bool flying() const { return convolution == nullptr; }
    [[nodiscard]] bool floating() const { return info(input).floating; }
    [[nodiscard]] std::uint32_t pixels() const { return width * height; }
};

// Formats and sizes. Empty when they mean nothing, so that the other rules would only echo it.
std::optional<Pipeline> read_pipeline(const Reader& reader, const Convolution* convolution);

// Output converter: the last stage before the writer.
void check_converter(const Reader& reader, const Pipeline& pipeline);

Writer read_writer(const Reader& reader, const Pipeline& pipeline);

}  // namespace npu::rockchip::check
