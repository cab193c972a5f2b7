#include "sim/padding.h"

#include <cstring>

namespace npu::sim {

using rockchip::Precision;

void fill_padding(const Convolution& convolution, DirectPadding reading, std::byte* pixel) {
    const std::uint32_t value = convolution.pad_value;
    const std::size_t bytes = convolution.row_bytes();
    if (convolution.input != Precision::int8) {
        const std::size_t element =
            convolution.input == Precision::int4 ? 1 : rockchip::info(convolution.input).bits / 8;
        for (std::size_t at = 0; at + element <= bytes; at += element) {
            std::memcpy(pixel + at, &value, element);
        }
        return;
    }
    constexpr std::size_t paired = 32;
    for (std::size_t c = 0; c < bytes; ++c) {
        const bool in_pairs = convolution.depthwise ? c % 64 < paired : reading == DirectPadding::byte_pairs;
        pixel[c] = static_cast<std::byte>(in_pairs && c % 2 != 0 ? value >> 8 : value);
    }
}

}  // namespace npu::sim
