#include "sim/convolver.h"

#include <algorithm>
#include <limits>

#include "base/integers.h"
#include "sim/addressing.h"
#include "sim/input_converter.h"
#include "sim/truncation.h"
#include "sim/window_sums.h"

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

std::size_t window_inputs(const Convolution& convolution) {
    return std::size_t{window_steps(convolution)} * step_channels(convolution);
}

std::size_t window_bytes(const Convolution& convolution) {
    return window_inputs(convolution) * rockchip::info(convolution.input).bits / 8;
}

bool is_floating(const Convolution& convolution) { return rockchip::info(convolution.input).floating; }

// Whether sums may leave 32 bits. int8 and int4 come near only with windows that no buffer holds; that they saturate
// then, as int16 was measured to do at the output, is our reading.
bool is_wide(const Convolution& convolution) {
    return convolution.input == Precision::int16 || window_inputs(convolution) >= std::size_t{1} << 17;
}

}  // namespace

// The features of the task as a dense plane.
Plane Convolver::load_plane(const Convolution& convolution, const std::byte* features) {
    std::byte* pixels = scratch(pixels_, convolution.feature_bytes());
    gather_features(convolution, features, pixels);
    if (!convolution.conversion.bypassed) {
        convert_inputs(convolution, pixels);
    }
    std::byte* padding = scratch(padding_, convolution.row_bytes());
    if (!convolution.is_product()) {
        fill_padding(convolution, options_.direct_padding, padding);
    }
    return {pixels, padding};
}

void Convolver::prepare_float(const Convolution& convolution, const std::byte* windows, std::uint32_t rows) {
    const std::size_t inputs = window_inputs(convolution);
    const std::size_t groups = ceil_div<std::size_t>(inputs, products_per_rounding);
    const std::size_t element = float_format(convolution.input).bytes;
    double* values = scratch(float_features_, groups * rows * products_per_rounding);
    std::uint8_t* spread = scratch(spread_, groups * rows);
    for (std::uint32_t m = 0; m < rows; ++m) {
        const std::byte* row = windows + m * inputs * element;
        for (std::size_t g = 0; g < groups; ++g) {
            const std::size_t first = g * products_per_rounding;
            const std::size_t count = std::min<std::size_t>(products_per_rounding, inputs - first);
            double* group = values + (g * rows + m) * products_per_rounding;
            kernels_->decode(convolution.input, row + first * element, count, group);
            std::fill(group + count, group + products_per_rounding, 0.0);
            spread[g * rows + m] = kernels_->spread(convolution.input, row + first * element, count);
        }
    }
}

// Decodes the windows of some output pixels.
void Convolver::prepare(const Convolution& convolution, const Plane& plane, Rows rows) {
    const std::byte* windows = plane.pixels + rows.first * convolution.row_bytes();
    if (!plane_is_rows(convolution)) {
        std::byte* gathered = scratch(windows_, rows.count * window_bytes(convolution));
        gather_windows(convolution, plane, rows.first, rows.count, gathered);
        windows = gathered;
    }
    if (is_floating(convolution)) {
        prepare_float(convolution, windows, rows.count);
    } else {
        const std::size_t count = rows.count * window_inputs(convolution);
        decode_integers(convolution.input, windows, count, scratch(integer_features_, count));
    }
}

void Convolver::multiply_float(const Convolution& convolution, const std::byte* weights, Rows rows) {
    const std::uint32_t steps = window_steps(convolution);
    const auto groups =
        static_cast<std::uint32_t>(ceil_div<std::size_t>(window_inputs(convolution), products_per_rounding));
    const FloatGroup group{{float_features_.data(), spread_.data(), rows.count, groups},
                           convolution.input,
                           weights,
                           steps,
                           float_sums_.data() + std::size_t{rows.first} * float_kernels};
    kernels_->multiply_float(group);
    if (options_.lane0_deviation && convolution.input == Precision::fp16) {
        deviate_lane_0(group);
    }
}

void Convolver::multiply_integer(const Convolution& convolution, const std::byte* weights, Rows rows) {
    const std::uint32_t kernels = convolution.kernels_per_group();
    const std::uint32_t steps = window_steps(convolution);
    const std::size_t count = window_inputs(convolution) * kernels;
    const std::size_t first_sum = std::size_t{rows.first} * kernels;
    if (is_wide(convolution)) {
        std::int16_t* decoded = scratch(wide_weights_, count);
        decode_integers(convolution.input, weights, count, decoded);
        kernels_->multiply_wide(
            {integer_features_.data(), decoded, rows.count, steps, kernels, wide_sums_.data() + first_sum});
        return;
    }
    const auto* bytes = reinterpret_cast<const std::int8_t*>(weights);
    if (convolution.input == Precision::int4) {
        std::int8_t* decoded = scratch(narrow_, count);
        decode_int4(weights, count, decoded);
        bytes = decoded;
    }
    kernels_->multiply_integer(
        {integer_features_.data(), bytes, rows.count, steps, kernels, integer_sums_.data() + first_sum});
}

void Convolver::deliver(const Convolution& convolution, std::uint32_t group, AccumulatorSink& sink) {
    const std::size_t count = std::size_t{convolution.rows()} * convolution.kernels_per_group();
    Accumulators delivered;
    delivered.pixels = convolution.rows();
    delivered.first_channel = group * convolution.kernels_per_group();
    delivered.channels = convolution.kernels_per_group();
    if (is_floating(convolution)) {
        delivered.floats = float_sums_.data();
    } else if (convolution.input == Precision::int16) {
        truncate_sums(convolution, wide_sums_.data(), count);
        delivered.wide = wide_sums_.data();
    } else {
        if (is_wide(convolution)) {
            using Limits = std::numeric_limits<std::int32_t>;
            std::transform(
                wide_sums_.begin(), wide_sums_.begin() + static_cast<std::ptrdiff_t>(count), integer_sums_.begin(),
                [](std::int64_t sum) {
                    return static_cast<std::int32_t>(std::clamp<std::int64_t>(sum, Limits::min(), Limits::max()));
                });
        }
        truncate_sums(convolution, integer_sums_.data(), count);
        delivered.integers = integer_sums_.data();
    }
    if (convolution.wants_window_sums && !is_floating(convolution)) {
        delivered.window_sums = window_sums_.data();
    }
    sink.take(delivered);
}

void Convolver::run_direct(const Convolution& convolution, const Plane& plane, const std::byte* weights,
                           AccumulatorSink& sink) {
    const bool floating = is_floating(convolution);
    const std::size_t sums = std::size_t{convolution.rows()} * convolution.kernels_per_group();
    if (floating) {
        scratch(float_sums_, sums);
    } else {
        scratch(integer_sums_, sums);
        scratch(wide_sums_, is_wide(convolution) ? sums : 0);
    }
    if (convolution.wants_window_sums && !floating) {
        sum_windows(convolution, plane, window_sums_);
    }
    const std::size_t prepared_bytes =
        window_inputs(convolution) * (floating ? sizeof(double) : sizeof(std::int16_t)) + window_bytes(convolution);
    const auto piece = static_cast<std::uint32_t>(
        std::clamp<std::size_t>(options_.most_prepared_bytes / prepared_bytes, 1, std::max(convolution.rows(), 1U)));
    weights_.begin(convolution, weights);
    for (std::uint32_t group = 0; group < convolution.groups(); ++group) {
        const std::byte* group_weights = weights_.next();
        for (std::uint32_t first = 0; first < convolution.rows(); first += piece) {
            const Rows rows{first, std::min(piece, convolution.rows() - first)};
            if (group == 0 || piece < convolution.rows()) {
                prepare(convolution, plane, rows);
            }
            if (floating) {
                multiply_float(convolution, group_weights, rows);
            } else {
                multiply_integer(convolution, group_weights, rows);
            }
        }
        deliver(convolution, group, sink);
    }
}

void Convolver::run(const Convolution& convolution, const ConvolutionMemory& memory, AccumulatorSink& sink) {
    const Plane plane = load_plane(convolution, memory.features);
    if (convolution.depthwise) {
        depthwise_.run(convolution, plane, memory.weights, sink);
    } else {
        run_direct(convolution, plane, memory.weights, sink);
    }
}

}  // namespace npu::sim
