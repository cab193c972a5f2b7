// The float formats that the NPU reads and writes, as bit patterns in integers: half (1-5-10), bfloat (1-8-7)
// and tf32 (1-8-10 in a 32-bit word). Conversions to the narrow formats round to nearest, ties to even, as
// IEEE 754 asks; overflow gives infinity; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace npu {

constexpr float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
    const std::uint32_t exponent = (half >> 10) & 0x1fU;
    const std::uint32_t mantissa = half & 0x3ffU;
    if (exponent == 31) {  // infinity, NaN
        return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
    }
    if (exponent == 0) {  // zero, subnormal: mantissa * 2^-24 is exact in float
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

constexpr std::uint16_t float_to_half(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) {
        return static_cast<std::uint16_t>(sign | 0x7e00U);
    }
    if (magnitude >= 0x477ff000U) {  // 65520 and above round to infinity
        return static_cast<std::uint16_t>(sign | 0x7c00U);
    }
    if (magnitude < 0x38800000U) {  // below 2^-14: subnormal; adding 0.5 aligns the mantissa and rounds
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t rebased = magnitude - 0x38000000U;
    const std::uint32_t rounded = rebased + 0xfffU + ((rebased >> 13) & 1U);
    return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

constexpr float bfloat_to_float(std::uint16_t bfloat) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat) << 16);
}

constexpr std::uint16_t float_to_bfloat(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
        return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
    }
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// tf32 operands lose their low 13 mantissa bits by truncation, as measured on the chip (not by rounding).
constexpr float truncate_to_tf32(float value) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffffe000U);
}

}  // namespace npu
