#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/float_bits.h"
#include "sim/exact_sum.h"
#include "sim/mac.h"

namespace npu::sim {

namespace {

using rockchip::Precision;

constexpr std::size_t most_raw_bytes = products_per_rounding * sizeof(float);

template <typename Word>
Word load(const std::byte* source, std::size_t index) {
    Word word;
    std::memcpy(&word, source + index * sizeof word, sizeof word);
    return word;
}

void decode(Precision precision, const std::byte* source, std::size_t count, double* values) {
    for (std::size_t i = 0; i < count; ++i) {
        switch (precision) {
            case Precision::fp16: values[i] = half_to_float(load<std::uint16_t>(source, i)); break;
            case Precision::bf16: values[i] = bfloat_to_float(load<std::uint16_t>(source, i)); break;
            default: values[i] = truncate_to_tf32(std::bit_cast<float>(load<std::uint32_t>(source, i))); break;
        }
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

void multiply_float(const FloatGroup& group) {
    const FloatFeatures& features = group.features;
    std::fill_n(group.sums, std::size_t{features.rows} * float_kernels, 0.0F);
    for (std::uint32_t g = 0; g < features.groups; ++g) {
        double weights[float_kernels][products_per_rounding];
        std::uint8_t spread[float_kernels];
        for (std::uint32_t n = 0; n < float_kernels; ++n) {
            std::byte raw[most_raw_bytes];
            group_weights(group, g, n, raw);
            decode(group.precision, raw, products_per_rounding, weights[n]);
            spread[n] = float_spread(group.precision, raw, products_per_rounding);
        }
        for (std::uint32_t m = 0; m < features.rows; ++m) {
            const std::size_t at = std::size_t{g} * features.rows + m;
            for (std::uint32_t n = 0; n < float_kernels; ++n) {
                group.sums[std::size_t{m} * float_kernels + n] +=
                    group_sum(features.values + at * products_per_rounding, weights[n], features.spread[at], spread[n]);
            }
        }
    }
}

// Sums of each step in the type of a product, then in that of the result.
template <typename Group, typename Step>
void multiply(const Group& group) {
    constexpr std::uint32_t block = 32;
    std::fill_n(group.sums, std::size_t{group.rows} * group.kernels, 0);
    for (std::uint32_t step = 0; step < group.steps; ++step) {
        for (std::uint32_t m = 0; m < group.rows; ++m) {
            const std::int16_t* features = group.features + (std::size_t{m} * group.steps + step) * block;
            for (std::uint32_t n = 0; n < group.kernels; ++n) {
                const auto* weights = group.weights + (std::size_t{step} * group.kernels + n) * block;
                Step sum = 0;
                for (std::uint32_t i = 0; i < block; ++i) {
                    sum += std::int32_t{features[i]} * weights[i];
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

float group_sum(const double* a, const double* b, std::uint32_t spread_a, std::uint32_t spread_b) {
    const bool finite = spread_a != spread_not_finite && spread_b != spread_not_finite;
    if (finite && spread_a + spread_b > exact_double_spread) {
        ExactSum sum;
        for (std::uint32_t i = 0; i < products_per_rounding; ++i) {
            sum.add_product(static_cast<float>(a[i]), static_cast<float>(b[i]));
        }
        return sum.rounded();
    }
    // Exact in double; or not finite, where the sum is an infinity or NaN whatever the order of the rest.
    double partial[4] = {};
    for (std::uint32_t i = 0; i < products_per_rounding; i += 4) {
        for (std::uint32_t lane = 0; lane < 4; ++lane) {
            partial[lane] += a[i + lane] * b[i + lane];
        }
    }
    return static_cast<float>((partial[0] + partial[1]) + (partial[2] + partial[3]));
}

void group_weights(const FloatGroup& group, std::uint32_t g, std::uint32_t n, std::byte* raw) {
    const std::uint32_t channels = rockchip::info(group.precision).channels_per_block;
    const std::uint32_t pieces = products_per_rounding / channels;
    const std::size_t piece_bytes = std::size_t{channels} * float_format(group.precision).bytes;
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
        const std::uint32_t step = g * pieces + piece;
        std::byte* to = raw + piece * piece_bytes;
        if (step < group.steps) {
            std::memcpy(to, group.weights + (std::size_t{step} * float_kernels + n) * piece_bytes, piece_bytes);
        } else {
            std::memset(to, 0, piece_bytes);
        }
    }
}

void deviate_lane_0(const FloatGroup& group) {
    const FloatFeatures& features = group.features;
    for (std::uint32_t m = 0; m < features.rows; ++m) {
        float& total = group.sums[std::size_t{m} * float_kernels];
        total = 0;
        for (std::uint32_t g = 0; g < features.groups; ++g) {
            std::byte raw[most_raw_bytes];
            double weights[products_per_rounding];
            group_weights(group, g, 0, raw);
            decode(group.precision, raw, products_per_rounding, weights);
            const std::size_t at = std::size_t{g} * features.rows + m;
            const double* values = features.values + at * products_per_rounding;
            ExactSum sum;
            double largest = 0;
            bool all = true;
            for (std::uint32_t i = 0; i < products_per_rounding; ++i) {
                const double product = std::abs(values[i] * weights[i]);
                all = all && product > 0 && std::isfinite(product);
                largest = std::max(largest, product);
            }
            if (!all) {
                total += group_sum(values, weights, features.spread[at],
                                   float_spread(group.precision, raw, products_per_rounding));
                continue;
            }
            for (std::uint32_t i = 0; i < products_per_rounding; ++i) {
                sum.add_product(static_cast<float>(values[i]), static_cast<float>(weights[i]));
            }
            const int above = std::max(std::ilogb(largest) + 28, 0);
            sum.add_product(-1.0F, std::ldexp(1.0F, above / 4 * 4 - 44));
            total += sum.rounded();
        }
    }
}

void decode_int4(const std::byte* source, std::size_t count, std::int8_t* values) {
    for (std::size_t i = 0; i < count / 2; ++i) {
        const auto pair = static_cast<std::uint8_t>(source[i]);
        values[2 * i] = static_cast<std::int8_t>(static_cast<std::int8_t>(pair << 4) >> 4);
        values[2 * i + 1] = static_cast<std::int8_t>(static_cast<std::int8_t>(pair) >> 4);
    }
}

void decode_integers(Precision precision, const std::byte* source, std::size_t count, std::int16_t* values) {
    switch (precision) {
        case Precision::int4:
            for (std::size_t i = 0; i < count / 2; ++i) {
                std::int8_t pair[2];
                decode_int4(source + i, 2, pair);
                values[2 * i] = pair[0];
                values[2 * i + 1] = pair[1];
            }
            return;
        case Precision::int8: std::copy_n(reinterpret_cast<const std::int8_t*>(source), count, values); return;
        default: std::memcpy(values, source, count * sizeof *values); return;
    }
}

const MacKernels& portable_kernels() {
    static constexpr MacKernels table{"portable",
                                      decode,
                                      float_spread,
                                      multiply_float,
                                      multiply<IntegerGroup, std::int32_t>,
                                      multiply<WideGroup, std::int64_t>};
    return table;
}

const MacKernels& best_kernels() {
    static const MacKernels& chosen = avx2_kernels() != nullptr ? *avx2_kernels() : portable_kernels();
    return chosen;
}

}  // namespace npu::sim
