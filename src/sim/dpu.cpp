#include "sim/dpu.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/float_bits.h"
#include "sim/output_addressing.h"

namespace npu::sim {

namespace {

using rockchip::Precision;

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

void convert_outputs(const DpuTask& task, const float* sums, std::size_t count, std::byte* outputs) {
    if (task.output == Precision::fp32) {
        std::memcpy(outputs, sums, count * sizeof *sums);
        return;
    }
    auto* halves = reinterpret_cast<std::uint16_t*>(outputs);
    for (std::size_t i = 0; i < count; ++i) {
        halves[i] = float_to_half(sums[i]);
    }
}

void convert_outputs(const DpuTask& task, const std::int32_t* sums, std::size_t count, std::byte* outputs) {
    switch (task.output) {
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
            const OutputConversion& how = task.conversion;
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

}  // namespace

void Dpu::begin(const DpuTask& task, std::byte* outputs) {
    task_ = &task;
    outputs_ = outputs;
}

void Dpu::take(const Accumulators& sums) {
    const std::size_t count = std::size_t{sums.pixels} * sums.channels;
    const std::size_t bytes = count * rockchip::info(task_->output).bits / 8;
    if (converted_.size() < bytes) {
        converted_.resize(bytes);
    }
    if (sums.floats != nullptr) {
        convert_outputs(*task_, sums.floats, count, converted_.data());
    } else {
        convert_outputs(*task_, sums.integers, count, converted_.data());
    }
    scatter_group(*task_, sums.first_channel / task_->group_channels, converted_.data(), outputs_);
}

void Dpu::finish() { task_ = nullptr; }

}  // namespace npu::sim
