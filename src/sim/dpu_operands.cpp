#include "sim/dpu_operands.h"

#include <bit>
#include <cstring>

#include "base/float_bits.h"

namespace npu::sim {

namespace {

using rockchip::Precision;

constexpr std::uint32_t channels_per_record = 8;

std::uint32_t load(const std::byte* at, std::uint32_t bytes) {
    std::uint32_t code = 0;
    std::memcpy(&code, at, bytes);
    return code;
}

template <typename T, typename Decode>
void decode_each(const std::vector<std::uint32_t>& codes, std::vector<T>& values, Decode decode) {
    values.resize(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) {
        values[i] = decode(codes[i]);
    }
}

// One atom's worth of channels, all pixels; `codes` is [pixels][channels], `lanes` of them are filled.
template <std::uint32_t element_bytes>
void gather_lanes(const DpuTask& task, const CubeStream& stream, const std::byte* base, std::uint32_t lanes,
                  std::uint32_t channels, std::uint32_t* codes) {
    for (std::uint32_t h = 0; h < task.height; ++h) {
        const std::byte* line = base + h * stream.line_bytes;
        for (std::uint32_t w = 0; w < task.width; ++w, codes += channels) {
            const std::byte* atom = line + w * stream.pixel_bytes;
            for (std::uint32_t i = 0; i < lanes; ++i) {
                codes[i] = load(atom + i * element_bytes, element_bytes);
            }
        }
    }
}

const std::byte* record_of(const DpuTask& task, const std::byte* records, std::uint32_t channel) {
    return records + std::size_t{channel / channels_per_record} * task.records.record_bytes;
}

template <typename T>
void load_operands(const DpuTask& task, const std::byte* records, std::uint32_t first, std::uint32_t channels,
                   ChannelOperands<T>& operands) {
    operands.zero_point.assign(channels, static_cast<T>(task.ow.operand));
    T alu{};
    T multiplier{};
    alu_value(task, task.bs.alu_operand, alu);
    multiplier_value(task, task.bs, task.bs.multiplier, multiplier);
    operands.alu.assign(channels, alu);
    operands.multiplier.assign(channels, multiplier);
    for (std::uint32_t c = 0; c < channels && records != nullptr; ++c) {
        const std::byte* record = record_of(task, records, first + c);
        const std::uint32_t lane = (first + c) % channels_per_record;
        if (task.ow.active && task.ow.per_channel) {
            operands.zero_point[c] =
                static_cast<T>(static_cast<std::int16_t>(load(record + task.records.zero_point_offset + lane * 2, 2)));
        }
        if (task.bs.active && task.bs.alu_per_channel) {
            alu_value(task, load(record + task.records.alu_offset + lane * 4, 4), operands.alu[c]);
        }
        if (task.bs.active && task.bs.multiplier_per_channel) {
            const std::uint32_t code = load(record + task.records.multiplier_offset + lane * 2, 2);
            multiplier_value(task, task.bs, code, operands.multiplier[c]);
        }
    }
}

}  // namespace

Extent stream_extent(const CubeStream& stream, const DpuTask& task, std::uint32_t surfaces) {
    const auto begin = static_cast<std::int64_t>(stream.address);
    const std::uint64_t bytes = (surfaces - 1) * stream.surface_bytes + (task.height - 1) * stream.line_bytes +
                                (task.width - 1) * stream.pixel_bytes + rockchip::atom_bytes;
    return {begin, begin + static_cast<std::int64_t>(bytes)};
}

void gather_elements(const DpuTask& task, const CubeMemory& cube, std::uint32_t element_bytes, std::uint32_t first,
                     std::uint32_t channels, std::vector<std::uint32_t>& codes) {
    codes.resize(std::size_t{task.pixels()} * channels);
    const std::uint32_t per_atom = rockchip::atom_bytes / element_bytes;
    for (std::uint32_t c = 0; c < channels;) {
        const std::uint32_t channel = first + c;
        const std::uint32_t lane = channel % per_atom;
        const std::uint32_t lanes = std::min(per_atom - lane, channels - c);
        std::uint32_t surface = channel / per_atom;
        const bool odd = cube.odd != nullptr && surface % 2 != 0;
        surface = cube.odd_stream != nullptr ? surface / 2 : surface;
        const CubeStream& stream = odd ? *cube.odd_stream : *cube.even_stream;
        const std::byte* base = (odd ? cube.odd : cube.even) + surface * stream.surface_bytes + lane * element_bytes;
        switch (element_bytes) {
            case 1: gather_lanes<1>(task, stream, base, lanes, channels, codes.data() + c); break;
            case 2: gather_lanes<2>(task, stream, base, lanes, channels, codes.data() + c); break;
            default: gather_lanes<4>(task, stream, base, lanes, channels, codes.data() + c); break;
        }
        c += lanes;
    }
}

void spread_channels(const DpuTask& task, const std::byte* memory, std::uint32_t element_bytes, std::uint32_t first,
                     std::uint32_t channels, std::vector<std::uint32_t>& codes) {
    codes.resize(std::size_t{task.pixels()} * channels);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const auto channel = first + static_cast<std::uint32_t>(i % channels);
        codes[i] = load(memory + std::size_t{channel} * element_bytes, element_bytes);
    }
}

void decode_elements(Precision format, const std::vector<std::uint32_t>& codes, std::vector<float>& values) {
    switch (format) {
        case Precision::fp16:
            decode_each(codes, values,
                        [](std::uint32_t code) { return half_to_float(static_cast<std::uint16_t>(code)); });
            return;
        case Precision::bf16:
            decode_each(codes, values,
                        [](std::uint32_t code) { return bfloat_to_float(static_cast<std::uint16_t>(code)); });
            return;
        default: decode_each(codes, values, [](std::uint32_t code) { return std::bit_cast<float>(code); }); return;
    }
}

void decode_elements(Precision format, const std::vector<std::uint32_t>& codes, std::vector<std::int64_t>& values) {
    switch (format) {
        case Precision::int8:
            decode_each(codes, values, [](std::uint32_t code) { return std::int64_t{static_cast<std::int8_t>(code)}; });
            return;
        case Precision::int16:
            decode_each(codes, values,
                        [](std::uint32_t code) { return std::int64_t{static_cast<std::int16_t>(code)}; });
            return;
        default:
            decode_each(codes, values,
                        [](std::uint32_t code) { return std::int64_t{static_cast<std::int32_t>(code)}; });
            return;
    }
}

void load_channel_operands(const DpuTask& task, const std::byte* records, std::uint32_t first, std::uint32_t channels,
                           ChannelOperands<float>& operands) {
    load_operands(task, records, first, channels, operands);
}

void load_channel_operands(const DpuTask& task, const std::byte* records, std::uint32_t first, std::uint32_t channels,
                           ChannelOperands<std::int64_t>& operands) {
    load_operands(task, records, first, channels, operands);
}

void alu_value(const DpuTask&, std::uint32_t code, float& value) { value = std::bit_cast<float>(code); }

void alu_value(const DpuTask&, std::uint32_t code, std::int64_t& value) { value = static_cast<std::int32_t>(code); }

void multiplier_value(const DpuTask& task, const ScaleStage&, std::uint32_t code, float& value) {
    const auto narrow = static_cast<std::uint16_t>(code);
    value = task.input == Precision::bf16 ? bfloat_to_float(narrow) : half_to_float(narrow);
}

void multiplier_value(const DpuTask&, const ScaleStage& stage, std::uint32_t code, std::int64_t& value) {
    value = stage.multiplier_unsigned ? static_cast<std::uint16_t>(code) : static_cast<std::int16_t>(code);
}

}  // namespace npu::sim
