#include "gemm/four_bits.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gemm/quantise.h"

namespace npu::gemm {

namespace {

struct Scale {
    float inverse = 0;  // 0: nothing to quantise
    float scale = 0;
};

Scale scale_for(const float* row, std::size_t count, int largest) {
    const float magnitude = largest_magnitude(row, count);
    if (magnitude == 0.0F) {
        return {};
    }
    if (!std::isfinite(magnitude)) {
        return {0, std::numeric_limits<float>::quiet_NaN()};
    }
    // In double: a denormal maximum has no finite reciprocal in float.
    const auto inverse = static_cast<float>(std::min(largest / double{magnitude}, double{0x1p126F}));
    return {inverse, static_cast<float>(1.0 / inverse)};
}

constexpr std::size_t piece = 256;  // values that are converted together, so that the compiler uses vectors

// Rounds values to whole numbers within +-largest, ties to even.
void round_values(const float* row, std::size_t count, float inverse, int largest, std::int8_t* values) {
    constexpr float round_to_even = 12582912.0F;  // 1.5 * 2^23: adding it leaves no bits for a fraction
    const auto bound = static_cast<float>(largest);
    for (std::size_t i = 0; i < count; ++i) {
        const float clamped = std::clamp(row[i] * inverse, -bound, bound);
        values[i] = static_cast<std::int8_t>((clamped + round_to_even) - round_to_even);
    }
}

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
    const Scale scale = scale_for(row, count, largest_weight4);
    if (scale.inverse == 0) {
        std::memset(destination, 0, (count + 1) / 2);
        return scale.scale;
    }
    std::int8_t values[piece];
    for (std::size_t at = 0; at < count; at += piece) {
        const std::size_t some = std::min(piece, count - at);
        round_values(row + at, some, scale.inverse, largest_weight4, values);
        pack_halves(values, some, destination + at / 2);
    }
    return scale.scale;
}

float quantise_split(const float* row, std::size_t count, std::byte* high, std::byte* low) {
    const Scale scale = scale_for(row, count, largest_split);
    if (scale.inverse == 0) {
        std::memset(high, 0, (count + 1) / 2);
        std::memset(low, 0, (count + 1) / 2);
        return scale.scale;
    }
    std::int8_t values[piece];
    std::int8_t upper[piece];
    for (std::size_t at = 0; at < count; at += piece) {
        const std::size_t some = std::min(piece, count - at);
        round_values(row + at, some, scale.inverse, largest_split, values);
        for (std::size_t i = 0; i < some; ++i) {
            upper[i] = static_cast<std::int8_t>((values[i] + 8) >> 4);
        }
        pack_halves(upper, some, high + at / 2);
        pack_halves(values, some, low + at / 2);  // v - 16 h has the low half of v
    }
    return scale.scale;
}

}  // namespace npu::gemm
