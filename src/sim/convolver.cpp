#include "sim/convolver.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/float_bits.h"
#include "sim/addressing.h"

namespace npu::sim {

namespace {

using rockchip::Precision;

// Grows only: the content of a scratch buffer does not matter.
template <typename T>
T* scratch(std::vector<T>& buffer, std::size_t count) {
    if (buffer.size() < count) {
        buffer.resize(count);
    }
    return buffer.data();
}

template <typename T>
T saturate(std::int64_t value) {
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(std::clamp<std::int64_t>(value, Limits::min(), Limits::max()));
}

// round(value >> shift): ties to even, or away from zero.
std::int64_t shift_round(std::int64_t value, std::uint32_t shift, bool ties_away) {
    if (shift == 0) {
        return value;
    }
    const std::int64_t whole = value >> shift;  // toward minus infinity
    const std::int64_t rest = value - (whole << shift);
    const std::int64_t half = std::int64_t{1} << (shift - 1);
    const bool up = rest > half || (rest == half && (ties_away ? value >= 0 : (whole & 1) != 0));
    return whole + (up ? 1 : 0);
}

}  // namespace

void convert_outputs(const Convolution& convolution, const float* sums, std::size_t count, std::byte* outputs) {
    if (convolution.output == Precision::fp32) {
        std::memcpy(outputs, sums, count * sizeof *sums);
        return;
    }
    auto* halves = reinterpret_cast<std::uint16_t*>(outputs);
    for (std::size_t i = 0; i < count; ++i) {
        halves[i] = float_to_half(sums[i]);
    }
}

void convert_outputs(const Convolution& convolution, const std::int32_t* sums, std::size_t count, std::byte* outputs) {
    switch (convolution.output) {
        case Precision::fp32: {
            auto* values = reinterpret_cast<float*>(outputs);
            for (std::size_t i = 0; i < count; ++i) {
                values[i] = static_cast<float>(sums[i]);
            }
            return;
        }
        case Precision::int16: {
            auto* values = reinterpret_cast<std::int16_t*>(outputs);
            for (std::size_t i = 0; i < count; ++i) {
                values[i] = saturate<std::int16_t>(sums[i]);
            }
            return;
        }
        case Precision::int8: {
            const OutputConversion& how = convolution.conversion;
            auto* values = reinterpret_cast<std::int8_t*>(outputs);
            for (std::size_t i = 0; i < count; ++i) {
                const std::int64_t scaled = std::int64_t{sums[i]} * how.scale;
                values[i] = saturate<std::int8_t>(shift_round(scaled, how.shift, how.ties_away) + how.offset);
            }
            return;
        }
        default: std::memcpy(outputs, sums, count * sizeof *sums); return;  // int32
    }
}

void Convolver::prepare_float(const Convolution& convolution) {
    const std::uint32_t rows = convolution.rows();
    const std::uint32_t groups = (convolution.channels + products_per_rounding - 1) / products_per_rounding;
    const std::size_t element = float_format(convolution.input).bytes;
    float* values = scratch(float_features_, std::size_t{groups} * rows * products_per_rounding);
    std::uint8_t* spread = scratch(spread_, std::size_t{groups} * rows);
    for (std::uint32_t m = 0; m < rows; ++m) {
        const std::byte* row = rows_.data() + m * convolution.row_bytes();
        for (std::uint32_t g = 0; g < groups; ++g) {
            const std::size_t at = std::size_t{g} * rows + m;
            const std::uint32_t first = g * products_per_rounding;
            const std::uint32_t count = std::min(products_per_rounding, convolution.channels - first);
            float* group = values + at * products_per_rounding;
            kernels_->decode(convolution.input, row + first * element, count, group);
            std::fill(group + count, group + products_per_rounding, 0.0F);
            spread[at] = float_spread(convolution.input, row + first * element, count);
        }
    }
}

void Convolver::prepare_integer(const Convolution& convolution) {
    const std::size_t count = std::size_t{convolution.rows()} * convolution.channels;
    const auto* bytes = reinterpret_cast<const std::int8_t*>(rows_.data());
    if (convolution.input == Precision::int4) {
        std::int8_t* decoded = scratch(narrow_, count);
        decode_int4(rows_.data(), count, decoded);
        bytes = decoded;
    }
    std::copy_n(bytes, count, scratch(integer_features_, count));
}

void Convolver::run(const Convolution& convolution, const ConvolutionMemory& memory) {
    gather_features(convolution, memory.features, scratch(rows_, convolution.feature_bytes()));
    const bool floating = rockchip::info(convolution.input).floating;
    if (floating) {
        prepare_float(convolution);
    } else {
        prepare_integer(convolution);
    }
    const std::uint32_t group_kernels = convolution.kernels_per_group();
    const std::size_t group_sums = std::size_t{convolution.rows()} * group_kernels;
    const std::size_t group_bytes = convolution.row_bytes() * group_kernels;
    std::byte* outputs = scratch(outputs_, group_sums * rockchip::info(convolution.output).bits / 8);
    for (std::uint32_t group = 0; group < convolution.groups(); ++group) {
        const std::byte* weights = memory.weights + group * group_bytes;
        if (floating) {
            float* sums = scratch(float_sums_, group_sums);
            const FloatFeatures features{float_features_.data(), spread_.data(), convolution.rows(),
                                         convolution.channels};
            kernels_->multiply_float({features, convolution.input, weights, sums});
            convert_outputs(convolution, sums, group_sums, outputs);
        } else {
            const auto* bytes = reinterpret_cast<const std::int8_t*>(weights);
            if (convolution.input == Precision::int4) {
                const std::size_t count = std::size_t{group_kernels} * convolution.channels;
                std::int8_t* decoded = scratch(narrow_, count);
                decode_int4(weights, count, decoded);
                bytes = decoded;
            }
            std::int32_t* sums = scratch(integer_sums_, group_sums);
            kernels_->multiply_integer(
                {integer_features_.data(), bytes, convolution.rows(), convolution.channels, group_kernels, sums});
            convert_outputs(convolution, sums, group_sums, outputs);
        }
        scatter_group(convolution, group, outputs, memory.outputs);
    }
}

}  // namespace npu::sim
