#include "gemm/four_bits.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gemm/quantise.h"

namespace npu::gemm {

namespace {

std::byte half_byte(int value, std::size_t index) {
    return static_cast<std::byte>((static_cast<unsigned>(value) & 0xfU) << (index % 2 * 4));
}

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

int round_to(float value, int largest) {
    const auto bound = static_cast<float>(largest);
    return static_cast<int>(std::nearbyint(std::clamp(value, -bound, bound)));
}

}  // namespace

float quantise_int4(const float* row, std::size_t count, std::byte* destination) {
    const Scale scale = scale_for(row, count, largest_weight4);
    std::memset(destination, 0, (count + 1) / 2);
    for (std::size_t i = 0; i < count && scale.inverse != 0; ++i) {
        destination[i / 2] |= half_byte(round_to(row[i] * scale.inverse, largest_weight4), i);
    }
    return scale.scale;
}

float quantise_split(const float* row, std::size_t count, std::byte* high, std::byte* low) {
    const Scale scale = scale_for(row, count, largest_split);
    std::memset(high, 0, (count + 1) / 2);
    std::memset(low, 0, (count + 1) / 2);
    for (std::size_t i = 0; i < count && scale.inverse != 0; ++i) {
        const int value = round_to(row[i] * scale.inverse, largest_split);
        const int upper = (value + 8) >> 4;
        high[i / 2] |= half_byte(upper, i);
        low[i / 2] |= half_byte(value - 16 * upper, i);
    }
    return scale.scale;
}

}  // namespace npu::gemm
