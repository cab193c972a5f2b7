#include "sim/convolver.h"

#include <algorithm>
#include <cstring>

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

}  // namespace

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

void Convolver::run(const Convolution& convolution, const ConvolutionMemory& memory, AccumulatorSink& sink) {
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
    for (std::uint32_t group = 0; group < convolution.groups(); ++group) {
        const std::byte* weights = memory.weights + group * group_bytes;
        Accumulators delivered;
        delivered.pixels = convolution.rows();
        delivered.first_channel = group * group_kernels;
        delivered.channels = group_kernels;
        if (floating) {
            float* sums = scratch(float_sums_, group_sums);
            const FloatFeatures features{float_features_.data(), spread_.data(), convolution.rows(),
                                         convolution.channels};
            kernels_->multiply_float({features, convolution.input, weights, sums});
            delivered.floats = sums;
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
            delivered.integers = sums;
        }
        sink.take(delivered);
    }
}

}  // namespace npu::sim
