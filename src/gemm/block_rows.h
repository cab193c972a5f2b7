// Rows of weights as files of quantised models hold them: blocks of small whole numbers, and for each block a scale and
// perhaps an offset. Converting such a row needs no floats in memory: a value is
//
//     scale * number + offset
//
// and a format qualifies when the product is exact in float (a half, times a scale of up to eight bits, times a number of few
// bits, has at most 24). Then it does not matter whether a processor rounds once or twice, and every value is the float that
// the format's own conversion gives, bit for bit.
//
// A scale and an offset stand for 16 numbers here, the smallest block of the common formats; those of larger blocks are
// repeated. Views own nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace npu::gemm {

inline constexpr std::size_t numbers_per_scale = 16;

// Numbers [0, count) of a row, a multiple of 16, with count / 16 scales and offsets.
struct BlockRow {
    const std::int8_t* numbers = nullptr;
    const float* scales = nullptr;
    const float* offsets = nullptr;

    // The row from this number on, a multiple of 16.
    [[nodiscard]] BlockRow from(std::size_t number) const {
        return {numbers + number, scales + number / numbers_per_scale, offsets + number / numbers_per_scale};
    }
    [[nodiscard]] float value(std::size_t i) const {
        return scales[i / numbers_per_scale] * static_cast<float>(numbers[i]) + offsets[i / numbers_per_scale];
    }
};

struct BlockTarget {
    std::int8_t* numbers = nullptr;
    float* scales = nullptr;
    float* offsets = nullptr;
};

// Delivers one output channel: K numbers, K / 16 scales and as many offsets (K is a multiple of 16).
using BlockReader = std::function<void(std::uint32_t row, BlockTarget target)>;

}  // namespace npu::gemm
