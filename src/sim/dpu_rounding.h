// Rounding and saturation of the DPU's integer stages. Every right shift rounds; ties go to even unless a register asks
// for the other way (published measurement, all shifts of BS and OUT_CVT: half to even, or half away from zero with
// OUT_CVT_SHIFT.CVT_ROUND).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace npu::sim {

template <typename T>
constexpr T saturate(std::int64_t value) {
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(std::clamp<std::int64_t>(value, Limits::min(), Limits::max()));
}

// round(value / 2^shift); shift is at most 63.
constexpr std::int64_t shift_round(std::int64_t value, std::uint32_t shift, bool ties_away = false) {
    if (shift == 0) {
        return value;
    }
    const std::int64_t whole = value >> shift;  // toward minus infinity
    const std::uint64_t rest = static_cast<std::uint64_t>(value) & ((std::uint64_t{1} << shift) - 1);
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    const bool up = rest > half || (rest == half && (ties_away ? value >= 0 : (whole & 1) != 0));
    return whole + (up ? 1 : 0);
}

}  // namespace npu::sim
