#include "sim/depthwise.h"

#include <algorithm>
#include <type_traits>

#include "sim/mac.h"
#include "sim/truncation.h"

namespace npu::sim {

namespace {

using rockchip::Precision;

struct Channels {
    std::uint32_t first;
    std::uint32_t count;  // that have an input
};

void decode(Precision precision, const std::byte* source, std::size_t count, std::int16_t* values) {
    decode_integers(precision, source, count, values);
}

void decode(Precision precision, const std::byte* source, std::size_t count, double* values) {
    portable_kernels().decode(precision, source, count, values);
}

// The channels of one group, decoded: all pixels of the plane, then one of padding.
template <typename Value>
std::vector<Value> decode_pixels(const Convolution& convolution, const Plane& plane, Channels channels) {
    const std::size_t pixel_count = std::size_t{convolution.width} * convolution.height;
    const std::size_t offset = channels.first * std::size_t{rockchip::info(convolution.input).bits / 8U};
    std::vector<Value> values((pixel_count + 1) * channels.count);
    for (std::size_t i = 0; i <= pixel_count; ++i) {
        const std::byte* pixel = i < pixel_count ? plane.pixels + i * convolution.row_bytes() : plane.padding;
        decode(convolution.input, pixel + offset, channels.count, &values[i * channels.count]);
    }
    return values;
}

// Sums of one group for all output pixels, and the sums of its windows if they are asked for.
template <typename Value, typename Sum>
void convolve(const Convolution& convolution, const Plane& plane, const std::byte* stored, Channels channels,
              std::vector<Sum>& sums, std::vector<std::int64_t>* window_sums) {
    const std::uint32_t group_channels = convolution.kernels_per_group();
    sums.assign(std::size_t{convolution.rows()} * group_channels, 0);
    if (window_sums != nullptr) {
        window_sums->assign(sums.size(), 0);
    }
    if (channels.count == 0) {
        return;
    }
    const std::vector<Value> pixels = decode_pixels<Value>(convolution, plane, channels);
    std::vector<Value> weights(std::size_t{convolution.positions()} * channels.count);
    decode(convolution.input, stored, weights.size(), weights.data());
    const std::size_t padding = std::size_t{convolution.width} * convolution.height;
    std::vector<const std::byte*> positions(convolution.positions());
    for (std::uint32_t row = 0; row < convolution.rows(); ++row) {
        find_positions(convolution, plane, row, positions.data());
        const std::size_t out = std::size_t{row} * group_channels;
        for (std::size_t p = 0; p < positions.size(); ++p) {
            const bool inside = positions[p] != plane.padding;
            const std::size_t pixel =
                inside ? static_cast<std::size_t>(positions[p] - plane.pixels) / convolution.row_bytes() : padding;
            const Value* x = &pixels[pixel * channels.count];
            const Value* w = &weights[p * channels.count];
            for (std::uint32_t c = 0; c < channels.count; ++c) {
                if constexpr (std::is_same_v<Sum, float>) {
                    sums[out + c] += static_cast<float>(x[c] * w[c]);  // exact in double, then one rounding
                } else {
                    sums[out + c] += std::int32_t{x[c]} * w[c];
                }
            }
            if (window_sums != nullptr) {
                for (std::uint32_t c = 0; c < channels.count; ++c) {
                    (*window_sums)[out + c] += static_cast<std::int64_t>(x[c]);
                }
            }
        }
    }
}

}  // namespace

void DepthwiseArray::run(const Convolution& convolution, const Plane& plane, const std::byte* weights,
                         AccumulatorSink& sink) {
    const std::uint32_t group_channels = convolution.kernels_per_group();
    const rockchip::PrecisionInfo& format = rockchip::info(convolution.input);
    std::vector<std::int64_t>* window_sums =
        convolution.wants_window_sums && !format.floating ? &window_sums_ : nullptr;
    for (std::uint32_t group = 0; group < convolution.groups(); ++group) {
        const std::uint32_t first = group * group_channels;
        const Channels channels{
            first, first < convolution.channels ? std::min(group_channels, convolution.channels - first) : 0};
        Accumulators delivered;
        delivered.pixels = convolution.rows();
        delivered.first_channel = first;
        delivered.channels = group_channels;
        if (format.floating) {
            convolve<double>(convolution, plane, weights, channels, float_sums_, nullptr);
            delivered.floats = float_sums_.data();
        } else if (convolution.input == Precision::int16) {
            convolve<std::int16_t>(convolution, plane, weights, channels, wide_sums_, window_sums);
            truncate_sums(convolution, wide_sums_.data(), wide_sums_.size());
            delivered.wide = wide_sums_.data();
        } else {
            convolve<std::int16_t>(convolution, plane, weights, channels, integer_sums_, window_sums);
            truncate_sums(convolution, integer_sums_.data(), integer_sums_.size());
            delivered.integers = integer_sums_.data();
        }
        if (window_sums != nullptr) {
            delivered.window_sums = window_sums->data();
            delivered.window_sums_per_channel = true;
        }
        sink.take(delivered);
        weights += std::size_t{convolution.positions()} * channels.count * format.bits / 8;
    }
}

}  // namespace npu::sim
