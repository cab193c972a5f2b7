#include "compile/layout.h"

#include <vector>

namespace npu::compile {

using rockchip::atom_bytes;
using rockchip::channels_per_atom;
using rockchip::info;

namespace {

// Atoms of one row lie `rows` atoms apart.
std::size_t native_offset(Precision precision, std::size_t rows, std::uint32_t row, std::uint32_t channel) {
    const std::uint32_t per_atom = channels_per_atom(precision);
    const std::size_t atom = (channel / per_atom) * rows + row;
    return atom * atom_bytes + std::size_t{channel % per_atom} * info(precision).bits / 8;
}

std::size_t row_major_offset(Precision precision, std::size_t channels, std::uint32_t row, std::uint32_t channel) {
    return (row * channels + channel) * info(precision).bits / 8;
}

// `offset` over rows x channels covers each element of `bytes` once.
template <typename Layout>
Result<void> check_offsets(const Layout& layout, std::uint32_t rows, std::uint32_t channels) {
    const std::size_t bits = info(layout.precision).bits;
    const std::size_t bytes = layout.bytes();
    if (bytes * 8 != bits * rows * channels) {
        return make_error(ErrorCode::invalid_argument, "layout of %u x %u elements of %zu bits claims %zu bytes", rows,
                          channels, bits, bytes);
    }
    std::vector<bool> taken(bytes * 8 / bits, false);
    for (std::uint32_t row = 0; row < rows; ++row) {
        for (std::uint32_t channel = 0; channel < channels; ++channel) {
            const std::size_t offset = layout.offset(row, channel);
            const std::size_t bit = offset * 8 + (bits < 8 ? channel % 2 * bits : 0);
            if (bit % bits != 0 || bit + bits > bytes * 8) {
                return make_error(ErrorCode::invalid_argument,
                                  "element (%u, %u) lies at byte %zu: misaligned or outside %zu bytes", row, channel,
                                  offset, bytes);
            }
            if (taken[bit / bits]) {
                return make_error(ErrorCode::invalid_argument, "element (%u, %u) shares byte %zu with another", row,
                                  channel, offset);
            }
            taken[bit / bits] = true;
        }
    }
    return {};
}

Result<void> check_multiple(const char* what, std::uint32_t value, std::uint32_t unit) {
    if (unit == 0 || value % unit != 0) {
        return make_error(ErrorCode::invalid_argument, "%s %u is not a multiple of %u: pad it", what, value, unit);
    }
    return {};
}

}  // namespace

std::size_t FeatureLayout::offset(std::uint32_t row, std::uint32_t channel) const {
    return arrangement == Arrangement::native ? native_offset(precision, rows, row, channel)
                                              : row_major_offset(precision, channels, row, channel);
}

std::size_t FeatureLayout::bytes() const { return packed_bytes(precision, std::size_t{rows} * channels); }

std::size_t WeightLayout::offset(std::uint32_t kernel, std::uint32_t channel) const {
    const std::size_t group = info(precision).kernels_per_group;
    const std::size_t block = info(precision).channels_per_block;
    const std::size_t blocks_before = (kernel / group) * (channels / block) + channel / block;
    return ((blocks_before * group + kernel % group) * block + channel % block) * info(precision).bits / 8;
}

std::size_t WeightLayout::bytes() const { return packed_bytes(precision, std::size_t{kernels} * channels); }

std::size_t OutputLayout::offset(std::uint32_t row, std::uint32_t channel) const {
    return arrangement == Arrangement::native ? native_offset(precision, rows, row, channel)
                                              : row_major_offset(precision, channels, row, channel);
}

std::size_t OutputLayout::bytes() const { return packed_bytes(precision, std::size_t{rows} * channels); }

Result<void> check_bijection(const FeatureLayout& layout) {
    NPU_TRY(check_multiple("channels", layout.channels, info(layout.precision).channels_per_block));
    return check_offsets(layout, layout.rows, layout.channels);
}

Result<void> check_bijection(const WeightLayout& layout) {
    NPU_TRY(check_multiple("kernels", layout.kernels, info(layout.precision).kernels_per_group));
    NPU_TRY(check_multiple("channels", layout.channels, info(layout.precision).channels_per_block));
    return check_offsets(layout, layout.kernels, layout.channels);
}

Result<void> check_bijection(const OutputLayout& layout) {
    NPU_TRY(check_multiple("channels", layout.channels, channels_per_atom(layout.precision)));
    return check_offsets(layout, layout.rows, layout.channels);
}

}  // namespace npu::compile
