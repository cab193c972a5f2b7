#include "sim/dpu.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/float_bits.h"
#include "rockchip/registers.h"
#include "sim/dpu_output.h"
#include "sim/dpu_rounding.h"
#include "sim/output_addressing.h"

namespace npu::sim {

namespace {

using rockchip::Precision;

template <typename T>
T* at_least(std::vector<T>& vector, std::size_t count) {
    if (vector.size() < count) {
        vector.resize(count);
    }
    return vector.data();
}

void copy_sums(const Accumulators& sums, std::size_t count, std::vector<float>& values) {
    values.assign(sums.floats, sums.floats + count);
}

void copy_sums(const Accumulators& sums, std::size_t count, std::vector<std::int64_t>& values) {
    if (sums.wide != nullptr) {
        values.assign(sums.wide, sums.wide + count);
    } else {
        values.assign(sums.integers, sums.integers + count);
    }
}

// BN takes its operands from registers only.
template <typename T>
ScaleOperands<T> bn_operands(const DpuTask& task, std::size_t channels, std::vector<T>& alu,
                             std::vector<T>& multiplier) {
    T value{};
    alu_value(task, task.bn.alu_operand, value);
    alu.assign(channels, value);
    multiplier_value(task, task.bn, task.bn.multiplier, value);
    multiplier.assign(channels, value);
    return {alu.data(), multiplier.data()};
}

// The element of a padded channel in the output format.
std::uint32_t pad_code(const DpuTask& task) {
    switch (task.output) {
        case Precision::int32:
            return static_cast<std::uint32_t>(std::int32_t{static_cast<std::int16_t>(task.pad_value)});
        case Precision::fp32: return std::bit_cast<std::uint32_t>(half_to_float(task.pad_value));
        default: return task.pad_value;  // the low bits
    }
}

}  // namespace

void Dpu::check(const DpuTask& task, Judge& judge) const {
    if (!task.lookup.active) {
        return;
    }
    if (!tables_.loaded()) {
        judge.refuse(
            Severity::corrupt,
            "the task uses the look-up tables (DPU.EW_CFG), but not all 2 x 513 entries were written since the "
            "last reset: they hold what an earlier client left (register manual)");
    }
    if (const std::string hazards = tables_.hazards(); !hazards.empty()) {
        judge.warn("look-up tables, published oddities of silicon that this machine does not show: %s",
                   hazards.c_str());
    }
}

void Dpu::begin(const DpuTask& task, const Memory& memory) {
    task_ = &task;
    outputs_ = memory.from(task.output_address).data();
    main_ = task.flying ? memory.from(task.main.address).data() : nullptr;
    const bool operands = task.ew.active && task.ew.source != OperandSource::registers;
    first_ = operands ? memory.from(task.ew.first.address).data() : nullptr;
    const bool pairs = operands && task.ew.source == OperandSource::pairs;
    second_ = pairs ? memory.from(task.ew.second.address).data() : nullptr;
    records_ = task.records.active ? memory.from(task.records.address).data() : nullptr;
}

void Dpu::take(const Accumulators& sums) {
    if (task_->writes_nothing || task_->goes_to_ppu) {
        return;
    }
    if (task_->stages_bypassed()) {
        if (sums.floats != nullptr) {
            write(sums.first_channel, sums.channels, sums.floats);
        } else if (sums.wide != nullptr) {
            write(sums.first_channel, sums.channels, sums.wide);
        } else {
            write(sums.first_channel, sums.channels, sums.integers);
        }
    } else if (sums.floats != nullptr) {
        run_stages(sums, floats_);
    } else {
        run_stages(sums, integers_);
    }
}

template <typename T>
void Dpu::run_stages(const Accumulators& sums, Work<T>& work) {
    const DpuTask& task = *task_;
    const BlockShape shape{sums.pixels, sums.channels};
    copy_sums(sums, shape.count(), work.values);
    T* values = work.values.data();
    load_channel_operands(task, records_, sums.first_channel, sums.channels, work.channel);
    if constexpr (std::is_integral_v<T>) {
        if (task.ow.active && sums.window_sums != nullptr) {
            run_zero_point(work.channel.zero_point.data(), sums.window_sums, sums.window_sums_per_channel, shape,
                           values);
        }
    }
    if (task.bs.active) {
        run_scale_stage(task.bs, {work.channel.alu.data(), work.channel.multiplier.data()}, shape, values);
    }
    if (task.bn.active) {
        run_scale_stage(task.bn, bn_operands(task, shape.channels, work.channel.alu, work.channel.multiplier), shape,
                        values);
    }
    if (task.ew.active) {
        load_element_operands(sums.first_channel, sums.channels, work.operands);
        run_element_wise(task.ew, work.operands.data(), shape.count(), values);
    }
    if (task.lookup.active) {
        look_up(work.values);
        write(sums.first_channel, sums.channels, found_.data());
    } else {
        write(sums.first_channel, sums.channels, values);
    }
}

template <typename T>
void Dpu::load_element_operands(std::uint32_t first, std::uint32_t channels, std::vector<T>& operands) {
    const ElementWiseStage& ew = task_->ew;
    switch (ew.source) {
        case OperandSource::registers:
            codes_.assign(std::size_t{task_->pixels()} * channels, ew.register_operand);
            break;
        case OperandSource::channels: spread_channels(*task_, first_, ew.operand.bytes, first, channels, codes_); break;
        case OperandSource::elements:
            gather_elements(*task_, {&ew.first, first_, nullptr, nullptr}, ew.operand.bytes, first, channels, codes_);
            break;
        case OperandSource::pairs:
            gather_elements(*task_, {&ew.first, first_, &ew.second, second_}, ew.operand.bytes, first, channels,
                            codes_);
            break;
    }
    decode_elements(ew.operand.format, codes_, operands);
    if constexpr (std::is_integral_v<T>) {
        if (ew.convert) {
            convert_operands(ew, operands.size(), operands.data());
        }
    }
}

void Dpu::look_up(const std::vector<float>& indices) {
    found_.resize(indices.size());
    std::ranges::transform(indices, found_.begin(),
                           [this](float x) { return tables_.look_up(task_->lookup, lookup_index(x)); });
}

void Dpu::look_up(const std::vector<std::int64_t>& indices) {
    found_.resize(indices.size());
    std::ranges::transform(indices, found_.begin(), [this](std::int64_t x) {
        return tables_.look_up(task_->lookup, saturate<std::int32_t>(x));
    });
}

// Converts a group and scatters it. `values` is [pixels][channels].
template <typename T>
void Dpu::write(std::uint32_t first_channel, std::uint32_t channels, const T* values) {
    const DpuTask& task = *task_;
    const std::size_t count = std::size_t{task.pixels()} * channels;
    if (task.transposed) {
        // Published: 32-bit saturation, then the low half.
        transposed_.resize(count);
        std::ranges::transform(values, values + count, transposed_.begin(), [](T value) {
            return static_cast<std::int16_t>(saturate<std::int32_t>(static_cast<std::int64_t>(value)));
        });
        scatter_transposed(task, first_channel, channels, transposed_.data(), outputs_);
        return;
    }
    const std::uint32_t element = task.output_element_bytes();
    std::byte* converted = at_least(converted_, count * element);
    convert_outputs(task, values, count, converted);
    const std::uint32_t first_surface = first_channel * element / rockchip::atom_bytes;
    const std::uint32_t end = std::min(first_channel + task.group_channels, task.channels);
    const std::uint32_t surfaces = (end * element + rockchip::atom_bytes - 1) / rockchip::atom_bytes - first_surface;
    const std::size_t row_bytes = std::size_t{surfaces} * rockchip::atom_bytes;
    const std::uint32_t valid =
        task.valid_channels > first_channel ? std::min(task.valid_channels - first_channel, channels) : 0;
    const std::byte* rows = converted;
    if (valid != channels || row_bytes != std::size_t{channels} * element) {
        std::byte* filled = at_least(rows_, task.pixels() * row_bytes);
        const std::uint32_t pad = pad_code(task);
        for (std::size_t at = 0; at < task.pixels() * row_bytes; at += element) {
            std::memcpy(filled + at, &pad, element);
        }
        for (std::size_t p = 0; p < task.pixels(); ++p) {
            std::memcpy(filled + p * row_bytes, converted + p * channels * element,
                        std::min<std::size_t>(std::size_t{valid} * element, row_bytes));
        }
        rows = filled;
    }
    scatter_surfaces(task, first_surface, surfaces, rows, outputs_);
}

void Dpu::run_flying() {
    const DpuTask& task = *task_;
    const CubeMemory cube{&task.main, main_, nullptr, nullptr};
    const std::uint32_t bytes = rockchip::info(task.input).bits / 8;
    for (std::uint32_t first = 0; first < task.channels; first += task.group_channels) {
        Accumulators block;
        block.pixels = task.pixels();
        block.first_channel = first;
        block.channels = std::min(task.group_channels, task.channels - first);
        gather_elements(task, cube, bytes, first, block.channels, codes_);
        if (task.floating()) {
            decode_elements(task.input, codes_, main_floats_);
            block.floats = main_floats_.data();
        } else {
            decode_elements(task.input, codes_, main_integers_);
            block.wide = main_integers_.data();
        }
        take(block);
    }
}

}  // namespace npu::sim
