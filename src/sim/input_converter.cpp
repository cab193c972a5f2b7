#include "sim/input_converter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sim/truncation.h"

namespace npu::sim {

namespace {

template <typename T>
void convert_pixels(const Convolution& convolution, std::byte* pixels) {
    const std::size_t count = std::size_t{convolution.width} * convolution.height * convolution.channels;
    for (std::size_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, pixels + i * sizeof value, sizeof value);
        const auto channel = static_cast<std::uint32_t>(i % convolution.channels);
        value = static_cast<T>(convert_input(convolution.conversion, sizeof value * 8, channel, value));
        std::memcpy(pixels + i * sizeof value, &value, sizeof value);
    }
}

}  // namespace

std::int32_t convert_input(const InputConversion& conversion, unsigned bits, std::uint32_t channel,
                           std::int32_t value) {
    if (conversion.bypassed || (conversion.channel_mask >> channel % 32 & 1U) == 0) {
        return value;
    }
    const unsigned set = channel % 4;
    const std::int64_t x = conversion.is_signed ? value : value & ((std::int32_t{1} << bits) - 1);
    const std::int64_t offset = conversion.offset[set];
    const std::int64_t scale = conversion.scale[set];
    const unsigned shift = std::min<unsigned>(conversion.truncate[set], 40);  // products have 33 bits
    const std::int64_t converted = conversion.adds_first
                                       ? shift_round((x + offset) * scale, shift, conversion.ties_half_up)
                                       : shift_round(x * scale, shift, conversion.ties_half_up) + offset;
    const std::int64_t most = (std::int64_t{1} << (bits - 1)) - 1;
    return static_cast<std::int32_t>(std::clamp(converted, -most - 1, most));
}

void convert_inputs(const Convolution& convolution, std::byte* pixels) {
    if (convolution.input != rockchip::Precision::int8) {
        convert_pixels<std::int16_t>(convolution, pixels);
        return;
    }
    // Bytes repeat: one table for each of the 32 channels that differ.
    std::array<std::array<std::byte, 256>, 32> table;
    for (std::uint32_t channel = 0; channel < table.size(); ++channel) {
        for (std::int32_t value = -128; value < 128; ++value) {
            table[channel][static_cast<std::uint8_t>(value)] =
                static_cast<std::byte>(convert_input(convolution.conversion, 8, channel, value));
        }
    }
    const std::size_t count = std::size_t{convolution.width} * convolution.height;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::uint32_t channel = 0; channel < convolution.channels; ++channel, ++pixels) {
            *pixels = table[channel % 32][static_cast<std::size_t>(*pixels)];
        }
    }
}

}  // namespace npu::sim
