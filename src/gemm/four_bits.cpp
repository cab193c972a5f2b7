#include "gemm/four_bits.h"

#include <algorithm>
#include <cstring>

#include "gemm/quantise.h"

namespace npu::gemm {

namespace {

constexpr std::size_t piece = 256;  // values that are converted together, so that the compiler uses vectors

// Low halves of `count` values, two to a byte; an odd last one leaves the upper half 0.
void pack_halves(const std::int8_t* values, std::size_t count, std::byte* packed) {
    for (std::size_t i = 0; i < count / 2; ++i) {
        packed[i] = static_cast<std::byte>((values[2 * i] & 0xf) | (values[2 * i + 1] & 0xf) << 4);
    }
    if (count % 2 != 0) {
        packed[count / 2] = static_cast<std::byte>(values[count - 1] & 0xf);
    }
}

}  // namespace

float quantise_int4(const float* row, std::size_t count, std::byte* destination) {
    const Scaling scaling = scaling_to(largest_weight4, largest_magnitude(row, count));
    if (scaling.inverse == 0) {
        std::memset(destination, 0, (count + 1) / 2);
        return scaling.scale;
    }
    std::int8_t values[piece];
    for (std::size_t at = 0; at < count; at += piece) {
        const std::size_t some = std::min(piece, count - at);
        round_to_bound(largest_weight4, row + at, some, scaling.inverse, values);
        pack_halves(values, some, destination + at / 2);
    }
    return scaling.scale;
}

float quantise_split(const float* row, std::size_t count, std::byte* high, std::byte* low) {
    const Scaling scaling = scaling_to(largest_split, largest_magnitude(row, count));
    if (scaling.inverse == 0) {
        std::memset(high, 0, (count + 1) / 2);
        std::memset(low, 0, (count + 1) / 2);
        return scaling.scale;
    }
    std::int8_t values[piece];
    std::int8_t upper[piece];
    for (std::size_t at = 0; at < count; at += piece) {
        const std::size_t some = std::min(piece, count - at);
        round_to_bound(largest_split, row + at, some, scaling.inverse, values);
        for (std::size_t i = 0; i < some; ++i) {
            upper[i] = static_cast<std::int8_t>((values[i] + 8) >> 4);
        }
        pack_halves(upper, some, high + at / 2);
        pack_halves(values, some, low + at / 2);  // v - 16 h has the low half of v
    }
    return scaling.scale;
}

}  // namespace npu::gemm
