// What a task of the RV1106 is asked to do, read from its registers; see rv1106.h for what is known.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/finding.h"
#include "sim/rv1106.h"

namespace npu::sim {

struct Rv1106Task {
    bool image = false;  // packed unsigned bytes; else int8 features of 16 lanes
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::uint32_t line_bytes = 0;    // of the input
    std::uint32_t pixel_bytes = 0;   // of the input: 3 or 16
    std::int32_t input_zero = 0;     // subtracted by the converter; 0 for features
    std::uint32_t kernels = 0;       // at most four: one group of the channel table
    std::uint32_t kernel_bytes = 0;  // 4 or 16
    bool relu = false;

    std::uint64_t features = 0;  // addresses
    std::uint64_t weights = 0;
    std::uint64_t channel_table = 0;
    std::uint64_t outputs = 0;

    std::int32_t multiplier = 0;
    std::uint32_t shift = 0;
    std::int32_t zero_point = 0;

    [[nodiscard]] std::uint64_t pixels() const { return std::uint64_t{width} * height; }
    [[nodiscard]] std::uint64_t feature_bytes() const { return std::uint64_t{line_bytes} * height; }
    [[nodiscard]] std::uint64_t weight_bytes() const { return std::uint64_t{kernels} * kernel_bytes; }
    // First byte to the last lane of the last pixel.
    [[nodiscard]] std::uint64_t output_bytes() const { return pixels() * 16; }
};

// Empty when the task must not run.
std::optional<Rv1106Task> read_rv1106_task(const Rv1106Registers& registers, std::uint32_t enable, Judge& judge);

}  // namespace npu::sim
