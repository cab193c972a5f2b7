// Integer arithmetic that cannot go wrong quietly: rounding up, and narrowing that is checked.
#pragma once

#include <cassert>
#include <concepts>
#include <cstdint>
#include <utility>

namespace npu {

// Smallest quotient q with q * unit >= value; both non-negative, unit positive.
template <std::integral T>
constexpr T ceil_div(T value, T unit) {
    return value / unit + (value % unit != 0 ? 1 : 0);  // value + unit - 1 could wrap
}

// Smallest multiple of `unit` that is >= value.
template <std::integral T>
constexpr T align_up(T value, T unit) {
    return ceil_div(value, unit) * unit;
}

template <std::integral To, std::integral From>
constexpr bool fits(From value) {
    return std::in_range<To>(value);
}

// Converts to a narrower type; a value that does not fit is our own mistake.
template <std::integral To, std::integral From>
constexpr To narrow(From value) {
    assert(fits<To>(value));
    return static_cast<To>(value);
}

}  // namespace npu
