#include <algorithm>
#include <bit>
#include <cstring>

#include "base/float_bits.h"
#include "sim/exact_sum.h"
#include "sim/mac.h"

namespace npu::sim {

namespace {

using rockchip::Precision;

constexpr std::uint32_t kernels = 16;  // of a float group

template <typename Word>
Word load(const std::byte* source, std::size_t index) {
    Word word;
    std::memcpy(&word, source + index * sizeof word, sizeof word);
    return word;
}

void decode(Precision precision, const std::byte* source, std::size_t count, float* values) {
    for (std::size_t i = 0; i < count; ++i) {
        switch (precision) {
            case Precision::fp16: values[i] = half_to_float(load<std::uint16_t>(source, i)); break;
            case Precision::bf16: values[i] = bfloat_to_float(load<std::uint16_t>(source, i)); break;
            default: values[i] = truncate_to_tf32(std::bit_cast<float>(load<std::uint32_t>(source, i))); break;
        }
    }
}

void multiply_float(const FloatGroup& group) {
    const FloatFeatures& features = group.features;
    const std::uint32_t groups = (features.channels + products_per_rounding - 1) / products_per_rounding;
    const std::size_t element = float_format(group.precision).bytes;
    std::fill_n(group.sums, std::size_t{features.rows} * kernels, 0.0F);
    for (std::uint32_t g = 0; g < groups; ++g) {
        float weights[kernels][products_per_rounding] = {};
        std::uint8_t spread[kernels] = {};
        const std::uint32_t pieces = pieces_per_group(group.precision);
        for (std::uint32_t n = 0; n < kernels; ++n) {
            std::byte raw[products_per_rounding * sizeof(float)] = {};
            for (std::uint32_t piece = 0; piece < pieces; ++piece) {
                const WeightPiece place = weight_piece(group.precision, g * pieces + piece, n);
                if ((g * pieces + piece) * place.count < features.channels) {
                    std::memcpy(raw + piece * place.count * element, group.weights + place.offset * element,
                                place.count * element);
                }
            }
            decode(group.precision, raw, products_per_rounding, weights[n]);
            spread[n] = float_spread(group.precision, raw, products_per_rounding);
        }
        for (std::uint32_t m = 0; m < features.rows; ++m) {
            const std::size_t at = std::size_t{g} * features.rows + m;
            for (std::uint32_t n = 0; n < kernels; ++n) {
                group.sums[std::size_t{m} * kernels + n] +=
                    group_sum(features.values + at * products_per_rounding, weights[n], features.spread[at], spread[n]);
            }
        }
    }
}

void multiply_integer(const IntegerGroup& group) {
    constexpr std::uint32_t block = 32;
    std::fill_n(group.sums, std::size_t{group.rows} * group.kernels, 0);
    for (std::uint32_t b = 0; b < group.channels / block; ++b) {
        for (std::uint32_t m = 0; m < group.rows; ++m) {
            const std::int16_t* features = group.features + std::size_t{m} * group.channels + std::size_t{b} * block;
            for (std::uint32_t n = 0; n < group.kernels; ++n) {
                const std::int8_t* weights = group.weights + (std::size_t{b} * group.kernels + n) * block;
                std::int32_t sum = 0;  // cannot overflow: K <= 8192 and |product| <= 2^14
                for (std::uint32_t i = 0; i < block; ++i) {
                    sum += features[i] * weights[i];
                }
                group.sums[std::size_t{m} * group.kernels + n] += sum;
            }
        }
    }
}

}  // namespace

FloatFormat float_format(Precision precision) {
    switch (precision) {
        case Precision::fp16: return {2, 10, 10, 31, 0x7fff};
        case Precision::bf16: return {2, 7, 7, 255, 0x7fff};
        default: return {4, 10, 23, 255, 0x7fffe000};  // tf32
    }
}

std::uint8_t float_spread(Precision precision, const std::byte* source, std::size_t count) {
    const FloatFormat format = float_format(precision);
    std::uint32_t highest = 0;
    std::uint32_t lowest = format.exponent_mask;
    bool any = false;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t word = format.bytes == 2 ? load<std::uint16_t>(source, i) : load<std::uint32_t>(source, i);
        const std::uint32_t magnitude = word & format.magnitude_mask;
        if (magnitude != 0) {
            any = true;
            const std::uint32_t exponent = std::max(magnitude >> format.exponent_shift, 1U);  // subnormals as 1
            highest = std::max(highest, exponent);
            lowest = std::min(lowest, exponent);
        }
    }
    if (!any) {
        return 0;
    }
    if (highest == format.exponent_mask) {
        return spread_not_finite;
    }
    return static_cast<std::uint8_t>(std::min(highest - lowest + format.mantissa_bits, std::uint32_t{spread_wide}));
}

float group_sum(const float* a, const float* b, std::uint32_t spread_a, std::uint32_t spread_b) {
    const bool finite = spread_a != spread_not_finite && spread_b != spread_not_finite;
    if (finite && spread_a + spread_b > exact_double_spread) {
        ExactSum sum;
        for (std::uint32_t i = 0; i < products_per_rounding; ++i) {
            sum.add_product(a[i], b[i]);
        }
        return sum.rounded();
    }
    // Exact in double; or not finite, where the sum is an infinity or NaN whatever the order of the rest.
    double partial[4] = {};
    for (std::uint32_t i = 0; i < products_per_rounding; i += 4) {
        for (std::uint32_t lane = 0; lane < 4; ++lane) {
            partial[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
        }
    }
    return static_cast<float>((partial[0] + partial[1]) + (partial[2] + partial[3]));
}

void decode_int4(const std::byte* source, std::size_t count, std::int8_t* values) {
    for (std::size_t i = 0; i < count / 2; ++i) {
        const auto pair = static_cast<std::uint8_t>(source[i]);
        values[2 * i] = static_cast<std::int8_t>(static_cast<std::int8_t>(pair << 4) >> 4);
        values[2 * i + 1] = static_cast<std::int8_t>(static_cast<std::int8_t>(pair) >> 4);
    }
}

const MacKernels& portable_kernels() {
    static constexpr MacKernels table{"portable", decode, multiply_float, multiply_integer};
    return table;
}

const MacKernels& best_kernels() {
    static const MacKernels& chosen = avx2_kernels() != nullptr ? *avx2_kernels() : portable_kernels();
    return chosen;
}

}  // namespace npu::sim
