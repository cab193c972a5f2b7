#include "sim/dpu_output.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/float_bits.h"
#include "sim/dpu_rounding.h"

namespace npu::sim {

namespace {

using rockchip::Precision;

// A NaN is written as one pattern, whatever the sign and the payload that host arithmetic gave it. A capture has 0x7c01 in
// fp16; the patterns of the other formats were never observed.
constexpr std::uint16_t half_nan = 0x7c01;
constexpr std::uint16_t bfloat_nan = 0x7fc0;
constexpr std::uint32_t float_nan = 0x7fc00000;

template <Precision output>
auto float_code(float value) {
    if constexpr (output == Precision::fp16) {
        return std::isnan(value) ? half_nan : float_to_half(value);
    } else if constexpr (output == Precision::bf16) {
        return std::isnan(value) ? bfloat_nan : float_to_bfloat(value);
    } else {
        return std::isnan(value) ? float_nan : std::bit_cast<std::uint32_t>(value);
    }
}

template <Precision output, typename Value>
void store_floats_as(std::size_t count, std::byte* outputs, Value value) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto code = float_code<output>(value(i));
        std::memcpy(outputs + i * sizeof code, &code, sizeof code);
    }
}

// `value(i)` is the i-th value as an fp32.
template <typename Value>
void store_floats(Precision output, std::size_t count, std::byte* outputs, Value value) {
    switch (output) {
        case Precision::fp16: store_floats_as<Precision::fp16>(count, outputs, value); return;
        case Precision::bf16: store_floats_as<Precision::bf16>(count, outputs, value); return;
        default: store_floats_as<Precision::fp32>(count, outputs, value); return;
    }
}

template <typename T, typename Value>
void store_integers(std::size_t count, std::byte* outputs, Value value) {
    for (std::size_t i = 0; i < count; ++i) {
        const T x = saturate<T>(value(i));
        std::memcpy(outputs + i * sizeof x, &x, sizeof x);
    }
}

template <typename Integer>
void convert_integers(const DpuTask& task, const Integer* values, std::size_t count, std::byte* outputs) {
    const OutputConversion& how = task.conversion;
    const auto converted = [&](std::size_t i) {
        const std::int64_t scaled = static_cast<std::int64_t>(values[i]) * how.scale;
        return shift_round(scaled, how.shift, how.ties_away) + how.offset;
    };
    switch (task.output) {
        case Precision::int8: store_integers<std::int8_t>(count, outputs, converted); return;
        case Precision::int16: store_integers<std::int16_t>(count, outputs, converted); return;
        case Precision::int32: store_integers<std::int32_t>(count, outputs, converted); return;
        default: break;
    }
    if (how.scaled) {
        // At most 2^48, so that the double is exact and the conversion rounds once.
        const double factor = std::ldexp(1.0, -static_cast<int>(how.minus_exponent)) * how.scale;
        store_floats(task.output, count, outputs, [&](std::size_t i) {
            return static_cast<float>(static_cast<double>(static_cast<std::int64_t>(values[i]) + how.offset) * factor);
        });
    } else {
        store_floats(task.output, count, outputs, [&](std::size_t i) { return static_cast<float>(converted(i)); });
    }
}

std::int64_t rounded(float value) {
    constexpr float limit = 0x1p40F;
    return std::isnan(value) ? 0 : static_cast<std::int64_t>(std::nearbyint(std::clamp(value, -limit, limit)));
}

}  // namespace

void convert_outputs(const DpuTask& task, const float* values, std::size_t count, std::byte* outputs) {
    const OutputConversion& how = task.conversion;
    switch (task.output) {
        case Precision::int8:
            store_integers<std::int8_t>(count, outputs, [&](std::size_t i) { return rounded(values[i]); });
            return;
        case Precision::int16:
            store_integers<std::int16_t>(count, outputs, [&](std::size_t i) { return rounded(values[i]); });
            return;
        case Precision::int32:
            store_integers<std::int32_t>(count, outputs, [&](std::size_t i) { return rounded(values[i]); });
            return;
        default: break;
    }
    if (how.scaled) {
        const float factor = std::ldexp(1.0F, -static_cast<int>(how.minus_exponent)) * static_cast<float>(how.scale);
        store_floats(task.output, count, outputs, [&](std::size_t i) { return values[i] * factor; });
    } else {
        store_floats(task.output, count, outputs, [&](std::size_t i) { return values[i]; });
    }
}

void convert_outputs(const DpuTask& task, const std::int32_t* values, std::size_t count, std::byte* outputs) {
    const OutputConversion& how = task.conversion;
    if (task.output == Precision::int32 && how.scale == 1 && how.shift == 0 && how.offset == 0) {
        std::memcpy(outputs, values, count * sizeof *values);
        return;
    }
    convert_integers(task, values, count, outputs);
}

void convert_outputs(const DpuTask& task, const std::int64_t* values, std::size_t count, std::byte* outputs) {
    convert_integers(task, values, count, outputs);
}

}  // namespace npu::sim
