// Right shifts with rounding, to even or half up. The array shifts its integer sums so before they leave it
// (CORE.CLIP_TRUNCATE; register manual; no known program does, so how it rounds is not measured), and so does the input
// converter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/convolution.h"

namespace npu::sim {

// value / 2^bits, rounded. At most 62 bits.
inline std::int64_t shift_round(std::int64_t value, unsigned bits, bool half_up) {
    if (bits == 0) {
        return value;
    }
    const std::int64_t whole = value >> bits;
    const std::int64_t rest = value - whole * (std::int64_t{1} << bits);
    const std::int64_t half = std::int64_t{1} << (bits - 1);
    return whole + (rest > half || (rest == half && (half_up || (whole & 1) != 0)) ? 1 : 0);
}

template <typename Sum>
void truncate_sums(const Convolution& convolution, Sum* sums, std::size_t count) {
    if (convolution.truncate_bits == 0) {
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        sums[i] = static_cast<Sum>(shift_round(sums[i], convolution.truncate_bits, convolution.truncate_half_up));
    }
}

}  // namespace npu::sim
