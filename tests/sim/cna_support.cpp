#include "sim/cna_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/addressing.h"
#include "sim/register_check.h"

namespace npu::sim::test {

namespace {

std::uint32_t block_of_channels(Precision precision) { return precision == Precision::tf32 ? 16 : 32; }

std::uint32_t channels_in_atom(Precision precision) { return 128 / rockchip::info(precision).bits; }

std::int64_t as_integer(Precision precision, std::uint32_t code) {
    const unsigned unused = 32 - rockchip::info(precision).bits;
    return static_cast<std::int32_t>(code << unused) >> unused;
}

std::uint32_t pick(std::mt19937& random, std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random()) % (high - low + 1);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
               return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) ||
                      (std::isnan(x) && std::isnan(y));
           });
}

}  // namespace

bool Sums::operator==(const Sums& other) const {
    return integers == other.integers && windows == other.windows && same_bits(floats, other.floats);
}

std::uint32_t ConvolutionCase::group() const {
    if (depthwise) {
        return input == Precision::int8 ? 64 : 32;
    }
    return input == Precision::int8 ? 32 : input == Precision::int4 ? 64 : 16;
}

std::uint32_t ConvolutionCase::padding(std::uint32_t channel) const {
    if (input == Precision::int8 && depthwise && channel % 64 < 32) {
        return channel % 2 == 0 ? pad_value & 0xff : pad_value >> 8 & 0xff;
    }
    if (input == Precision::int4) {
        return pad_value >> channel % 2 * 4 & 15;
    }
    return bits() == 32 ? pad_value : pad_value & ((1U << bits()) - 1);
}

std::uint32_t ConvolutionCase::line_pitch() const {
    switch (lines) {
        case Lines::pixels: return channels * bits() / 128;
        case Lines::spread: return width + 3;
        default: return width;
    }
}

std::uint32_t ConvolutionCase::surface_pitch() const {
    switch (lines) {
        case Lines::pixels: return 1;
        case Lines::spread: return (width + 3) * height + 5;
        default: return width * height;
    }
}

std::uint64_t ConvolutionCase::feature_bit(std::uint32_t y, std::uint32_t x, std::uint32_t c) const {
    const std::uint64_t in_atom = channels_in_atom(input);
    return (c / in_atom * surface_pitch() + std::uint64_t{y} * line_pitch() + x) * 128 + c % in_atom * bits();
}

std::uint64_t ConvolutionCase::feature_bytes() const {
    return feature_bit(height - 1, width - 1, channels - 1) / 128 * 16 + 16;
}

std::uint64_t ConvolutionCase::weight_bit(std::uint32_t n, std::uint32_t ky, std::uint32_t kx, std::uint32_t c) const {
    const std::uint64_t position = ky * kernel_width + kx;
    const std::uint64_t positions = std::uint64_t{kernel_width} * kernel_height;
    if (depthwise) {
        const std::uint64_t first = c / group() * group();
        const std::uint64_t stored = std::min<std::uint64_t>(group(), channels - first);
        return (first * positions + position * stored + c - first) * bits();
    }
    const std::uint64_t kb = block_of_channels(input);
    const std::uint64_t first_kernel = n / group() * group();
    const std::uint64_t in_group = std::min<std::uint64_t>(group(), kernels - first_kernel);
    const std::uint64_t first_channel = c / kb * kb;
    const std::uint64_t in_block = std::min<std::uint64_t>(kb, channels - first_channel);
    // Everything before: whole groups, then whole blocks of this group, positions of this block, kernels of this position.
    const std::uint64_t before = first_kernel * positions * channels + in_group * positions * first_channel +
                                 in_group * position * in_block + (n - first_kernel) * in_block;
    return (before + c - first_channel) * bits();
}

std::uint64_t ConvolutionCase::weight_bytes() const {
    return std::uint64_t{kernel_width} * kernel_height * channels * (depthwise ? 1 : kernels) * bits() / 8;
}

void set_output_size(ConvolutionCase& shape, std::uint32_t pad_right, std::uint32_t pad_bottom) {
    const std::uint32_t reach_x = (shape.kernel_width - 1) * shape.dilation_x + 1;
    const std::uint32_t reach_y = (shape.kernel_height - 1) * shape.dilation_y + 1;
    shape.output_width = (shape.width + shape.pad_left + pad_right - reach_x) / shape.stride_x + 1;
    shape.output_height = (shape.height + shape.pad_top + pad_bottom - reach_y) / shape.stride_y + 1;
}

ConvolutionCase random_case(Precision input, bool depthwise, std::mt19937& random) {
    ConvolutionCase shape;
    shape.input = input;
    shape.depthwise = depthwise;
    shape.kernel_width = pick(random, 1, 5);
    shape.kernel_height = pick(random, 1, 4);
    shape.stride_x = pick(random, 1, 3);
    shape.stride_y = pick(random, 1, 2);
    shape.dilation_x = pick(random, 1, 2);
    shape.dilation_y = pick(random, 1, 3);
    const std::uint32_t reach_x = (shape.kernel_width - 1) * shape.dilation_x + 1;
    const std::uint32_t reach_y = (shape.kernel_height - 1) * shape.dilation_y + 1;
    shape.width = pick(random, 1, 9) + reach_x / 2;
    shape.height = pick(random, 1, 6) + reach_y / 2;
    shape.pad_left = pick(random, 0, std::min(3U, reach_x - 1));
    shape.pad_top = pick(random, 0, std::min(3U, reach_y - 1));
    // At least one window fits, and none lies beyond the plane.
    const auto missing = [](std::uint32_t reach, std::uint32_t have) { return reach > have ? reach - have : 0; };
    const std::uint32_t pad_right =
        std::min(missing(reach_x, shape.width + shape.pad_left) + pick(random, 0, 1), reach_x - 1);
    const std::uint32_t pad_bottom =
        std::min(missing(reach_y, shape.height + shape.pad_top) + pick(random, 0, 1), reach_y - 1);
    set_output_size(shape, pad_right, pad_bottom);
    shape.pad_value = static_cast<std::uint32_t>(random());
    if (shape.floating()) {  // finite
        shape.pad_value &= shape.bits() == 16 ? 0x3fff3fff : 0xbfffffff;
    }
    const std::uint32_t granule = random() % 2 == 0 ? channels_in_atom(input) : std::max(16U, channels_in_atom(input));
    const std::uint32_t block = block_of_channels(input);
    shape.channels = granule * pick(random, depthwise ? 1 : block / granule + 1, depthwise ? 6 : 3 * block / granule);
    shape.kernels = depthwise ? 1 : shape.group() + pick(random, 1, shape.group());
    const std::uint32_t fed = depthwise ? shape.channels : shape.kernels;
    shape.output_channels = (fed + shape.group() - 1) / shape.group() * shape.group();
    shape.lines = static_cast<Lines>(pick(random, 0, 3));
    if (shape.lines == Lines::pixels && shape.width != 1) {
        shape.lines = Lines::spread;
    }
    return shape;
}

Program convolution_program(const ConvolutionCase& shape) {
    const auto code = static_cast<std::uint32_t>(shape.input);
    const bool grouped = shape.lines == Lines::grouped;
    const std::uint32_t pixel_bytes = shape.channels * shape.bits() / 8;
    const std::uint32_t kernel_bytes = shape.kernel_width * shape.kernel_height * pixel_bytes;
    const std::uint32_t banks =
        std::clamp<std::uint32_t>((shape.width * shape.height * pixel_bytes + 32767) / 32768, 1, 11);
    // Surfaces are W atoms apart plus the stride, or 4 W where lines go in fours; so are the fours of lines.
    const std::uint32_t surface = shape.surface_pitch() - (grouped ? 4 : 1) * shape.width;
    Program p;
    p.set(0x100c, code << 7 | code << 4 | (grouped ? 0 : 1U << 29) | (shape.depthwise ? 3 : 0));
    p.set(0x1010, (50 + shape.stride_y + 1) << 4);
    p.set(0x1014, (shape.dilation_y - 1) << 21 | (shape.dilation_x - 1) << 16 | shape.stride_y << 3 | shape.stride_x);
    p.set(0x1020, shape.width << 16 | shape.height);
    p.set(0x1024, (shape.channels - 1) << 16 | shape.channels);
    p.set(0x1028, shape.output_width);
    p.set(0x102c, shape.pixels());
    p.set(0x1030, kernel_bytes * (shape.depthwise ? 1 : shape.kernels));
    p.set(0x1034, kernel_bytes);
    p.set(0x1038, shape.kernel_width << 24 | shape.kernel_height << 16 | (shape.depthwise ? 1 : shape.kernels));
    p.set(0x1040, (12 - banks) << 4 | banks);
    p.set(0x1044, (shape.width * pixel_bytes + 63) / 64);
    p.set(0x104c, 0xb);
    p.set(0x1068, shape.pad_left << 4 | shape.pad_top);
    p.set(0x1070, shape.features);
    p.set(0x107c, grouped ? 4 * shape.width : shape.line_pitch());
    p.set(0x1080, surface & 0x0fffffff);
    p.set(0x1084, shape.width << 16 | shape.height);
    p.set(0x1088, shape.channels);
    p.set(0x1100, 0);
    p.set(0x1110, shape.weights);
    p.set(0x1184, shape.pad_value);
    for (const std::uint16_t offset : {0x1060, 0x1064, 0x1074, 0x3030, 0x301c}) {
        p.set(offset, 0);
    }
    p.set(0x3010, code << 8 | (shape.depthwise ? 2 : 0) | 1);
    p.set(0x3014, (shape.output_height - 1) << 16 | (shape.output_width - 1));
    p.set(0x3018, shape.output_channels - 1);
    return p;
}

ReadResult read_convolution(const Program& program, Precision input, Mode mode) {
    RegisterState state(7);
    for (const std::uint64_t word : program.words()) {
        const auto offset = static_cast<std::uint16_t>(word);
        if (offset >= 0x1000) {
            state.block(block_of(offset)).write(offset, static_cast<std::uint32_t>(word >> 16));
        }
    }
    RegisterReader reader(state, mode);
    Judge judge(0, 0, mode);
    RegisterCheck check(reader, judge);
    ReadResult result;
    result.convolution.input = input;
    read_cna(check, rockchip::rk3588(), result.convolution);
    read_core(check, result.convolution);
    if (!judge.refused()) {
        check_cbuf(check, rockchip::rk3588(), result.convolution);
    }
    for (const std::uint16_t offset : reader.missing()) {
        ADD_FAILURE() << "register " << std::hex << offset << " is read and was never written";
    }
    result.refused = judge.refused();
    result.findings = judge.findings();
    return result;
}

Tensors random_tensors(const ConvolutionCase& shape, std::mt19937& random, Range range) {
    const std::size_t positions = std::size_t{shape.kernel_width} * shape.kernel_height;
    return {
        random_codes(shape.input, std::size_t{shape.width} * shape.height * shape.channels, random, range),
        random_codes(shape.input, positions * shape.channels * (shape.depthwise ? 1 : shape.kernels), random, range)};
}

void load_tensors(SparseMemory& memory, const ConvolutionCase& shape, const Tensors& tensors) {
    memory.map(shape.features, shape.feature_bytes());
    memory.map(shape.weights, shape.weight_bytes());
    memory.fill(shape.features, std::byte{0x55}, shape.feature_bytes());
    auto feature = tensors.features.begin();
    for (std::uint32_t y = 0; y < shape.height; ++y) {
        for (std::uint32_t x = 0; x < shape.width; ++x) {
            for (std::uint32_t c = 0; c < shape.channels; ++c) {
                write_element(memory.at(shape.features), shape.feature_bit(y, x, c), shape.bits(), *feature++);
            }
        }
    }
    auto weight = tensors.weights.begin();
    for (std::uint32_t n = 0; n < (shape.depthwise ? 1 : shape.kernels); ++n) {
        for (std::uint32_t ky = 0; ky < shape.kernel_height; ++ky) {
            for (std::uint32_t kx = 0; kx < shape.kernel_width; ++kx) {
                for (std::uint32_t c = 0; c < shape.channels; ++c) {
                    write_element(memory.at(shape.weights), shape.weight_bit(n, ky, kx, c), shape.bits(), *weight++);
                }
            }
        }
    }
}

Sums expected_sums(const ConvolutionCase& shape, const Tensors& tensors) {
    // Input at a place that may lie outside.
    const auto input = [&](std::int64_t y, std::int64_t x, std::uint32_t c) {
        if (y < 0 || x < 0 || y >= shape.height || x >= shape.width) {
            return shape.padding(c);
        }
        return tensors.features[static_cast<std::size_t>((y * shape.width + x) * shape.channels + c)];
    };
    const auto weight = [&](std::uint32_t n, std::uint32_t ky, std::uint32_t kx, std::uint32_t c) {
        const std::size_t kernel = shape.depthwise ? 0 : n;
        return tensors.weights[((kernel * shape.kernel_height + ky) * shape.kernel_width + kx) * shape.channels + c];
    };
    Sums sums;
    const std::uint32_t fed = shape.depthwise ? shape.channels : shape.kernels;
    for (std::uint32_t oy = 0; oy < shape.output_height; ++oy) {
        for (std::uint32_t ox = 0; ox < shape.output_width; ++ox) {
            const auto at = [&](std::uint32_t ky, std::uint32_t kx, std::uint32_t c) {
                return input(std::int64_t{oy} * shape.stride_y + ky * shape.dilation_y - shape.pad_top,
                             std::int64_t{ox} * shape.stride_x + kx * shape.dilation_x - shape.pad_left, c);
            };
            std::int64_t window = 0;
            for (std::uint32_t n = 0; n < shape.output_channels; ++n) {
                std::int64_t integer = 0;
                std::int64_t covered = 0;
                std::vector<float> x;
                std::vector<float> w;
                float total = 0;
                const std::uint32_t kb = shape.depthwise ? 1 : block_of_channels(shape.input);
                const std::uint32_t first = shape.depthwise ? n : 0;
                const std::uint32_t last = shape.depthwise ? n + 1 : shape.channels;
                for (std::uint32_t block = first; n < fed && block < last; block += kb) {
                    for (std::uint32_t ky = 0; ky < shape.kernel_height; ++ky) {
                        for (std::uint32_t kx = 0; kx < shape.kernel_width; ++kx) {
                            for (std::uint32_t c = block; c < block + kb; ++c) {
                                const bool there = c < last;
                                const std::uint32_t a = there ? at(ky, kx, c) : 0;
                                const std::uint32_t b = there ? weight(n, ky, kx, c) : 0;
                                if (shape.floating()) {
                                    x.push_back(as_float(shape.input, a));
                                    w.push_back(as_float(shape.input, b));
                                } else {
                                    integer += as_integer(shape.input, a) * as_integer(shape.input, b);
                                    covered += as_integer(shape.input, a);
                                }
                            }
                            if (x.size() == (shape.depthwise ? 1 : 32)) {
                                total += reference_group_sum(x.data(), w.data(), x.size());
                                x.clear();
                                w.clear();
                            }
                        }
                    }
                }
                if (shape.floating()) {
                    sums.floats.push_back(total + reference_group_sum(x.data(), w.data(), x.size()));
                } else {
                    sums.integers.push_back(integer);
                }
                window = n == 0 ? covered : window;
                if (shape.depthwise && !shape.floating()) {
                    sums.windows.push_back(covered);
                }
            }
            if (!shape.depthwise && !shape.floating()) {
                sums.windows.push_back(window);
            }
        }
    }
    return sums;
}

Collector::Collector(const Convolution& convolution) : channels_(convolution.output_channels) {
    const std::size_t count = std::size_t{convolution.rows()} * channels_;
    const bool floating = rockchip::info(convolution.input).floating;
    sums.integers.resize(floating ? 0 : count);
    sums.floats.resize(floating ? count : 0);
    if (convolution.wants_window_sums && !floating) {
        sums.windows.resize(convolution.depthwise ? count : convolution.rows());
    }
}

void Collector::take(const Accumulators& group) {
    EXPECT_EQ(group.first_channel, next_channel_);
    next_channel_ += group.channels;
    ASSERT_LE(next_channel_, channels_);
    EXPECT_EQ((group.floats != nullptr) + (group.integers != nullptr) + (group.wide != nullptr), 1);
    EXPECT_EQ(group.window_sums != nullptr, !sums.windows.empty());
    for (std::size_t p = 0; p < group.pixels; ++p) {
        for (std::size_t c = 0; c < group.channels; ++c) {
            const std::size_t from = p * group.channels + c;
            const std::size_t to = p * channels_ + group.first_channel + c;
            if (group.floats != nullptr) {
                sums.floats[to] = group.floats[from];
            } else {
                sums.integers[to] = group.wide != nullptr ? group.wide[from] : group.integers[from];
            }
            if (group.window_sums != nullptr) {
                const bool each = group.window_sums_per_channel;
                sums.windows[each ? to : p] = group.window_sums[each ? from : p];
            }
        }
    }
}

Sums run_convolver(Convolver& convolver, const Convolution& convolution, const SparseMemory& memory) {
    Collector collector(convolution);
    convolver.run(convolution,
                  {memory.at(static_cast<std::uint64_t>(feature_extent(convolution).begin)),
                   memory.at(convolution.weight_address)},
                  collector);
    return collector.sums;
}

}  // namespace npu::sim::test
