#include "gemm/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float_bits.h"

namespace npu::gemm {

namespace {

constexpr float largest_half = 65504.0F;
constexpr float smallest_comfortable = 0x1p-10F;  // below, values of half start to lose bits to subnormals

}  // namespace

float largest_magnitude(const float* row, std::size_t count) {
    // Magnitudes of floats order like their bit patterns, and NaN is above infinity: an integer maximum keeps it.
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
        largest = std::max(largest, std::bit_cast<std::uint32_t>(row[i]) & 0x7fffffffU);
    }
    return std::bit_cast<float>(largest);
}

Scaling scaling_to(int bound, float largest) {
    if (largest == 0.0F || !std::isfinite(largest)) {
        return {0.0F, largest == 0.0F ? 0.0F : std::numeric_limits<float>::quiet_NaN()};
    }
    // Divide in double: a denormal maximum has no finite reciprocal in float.
    const auto inverse = static_cast<float>(std::min(bound / double{largest}, double{0x1p126F}));
    return {inverse, static_cast<float>(1.0 / inverse)};
}

void round_to_bound(int bound, const float* row, std::size_t count, float inverse, std::int8_t* values) {
    constexpr float round_to_even = 12582912.0F;  // 1.5 * 2^23: adding it leaves no bits for a fraction
    const auto most = static_cast<float>(bound);
    for (std::size_t i = 0; i < count; ++i) {
        const float clamped = std::clamp(row[i] * inverse, -most, most);
        values[i] = static_cast<std::int8_t>((clamped + round_to_even) - round_to_even);
    }
}

float fp16_factor(float largest) {
    if (std::isfinite(largest) && largest != 0.0F && (largest > largest_half || largest < smallest_comfortable)) {
        return std::ldexp(1.0F, std::clamp(std::ilogb(largest), -125, 125));
    }
    return 1.0F;
}

float quantise_int8(const float* row, std::size_t count, std::int8_t* destination) {
    const auto [inverse, scale] = scaling_to(largest_int8, largest_magnitude(row, count));
    if (inverse == 0.0F) {
        std::memset(destination, 0, count);
    } else {
        round_to_bound(largest_int8, row, count, inverse, destination);
    }
    return scale;
}

float convert_fp16(const float* row, std::size_t count, std::uint16_t* destination) {
    const float factor = fp16_factor(largest_magnitude(row, count));
    const float inverse = 1.0F / factor;  // exact: a power of two
    for (std::size_t i = 0; i < count; ++i) {
        destination[i] = float_to_half(row[i] * inverse);
    }
    return factor;
}

float quantise_row(rockchip::Precision precision, const float* row, std::size_t count, std::byte* destination) {
    switch (precision) {
        case rockchip::Precision::fp16: return convert_fp16(row, count, reinterpret_cast<std::uint16_t*>(destination));
        case rockchip::Precision::bf16: {
            auto* codes = reinterpret_cast<std::uint16_t*>(destination);
            std::transform(row, row + count, codes, float_to_bfloat);
            return 1.0F;
        }
        default: return quantise_int8(row, count, reinterpret_cast<std::int8_t*>(destination));
    }
}

}  // namespace npu::gemm
