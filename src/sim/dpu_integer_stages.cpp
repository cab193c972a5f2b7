// Integer side of dpu_stages.h.
#include <cstdlib>

#include "sim/dpu_rounding.h"
#include "sim/dpu_stages.h"

namespace npu::sim {

namespace {

std::int64_t apply(AluAlgorithm algorithm, std::int64_t value, std::int64_t operand) {
    switch (algorithm) {
        case AluAlgorithm::maximum: return std::max(value, operand);
        case AluAlgorithm::minimum: return std::min(value, operand);
        case AluAlgorithm::add: return value + operand;
        case AluAlgorithm::subtract: return value - operand;
        case AluAlgorithm::absolute: return std::abs(value);
        case AluAlgorithm::negate: return -value;
        default: return value;  // no integer form is known; refused where registers are read
    }
}

// Which shift counts depends on the sign of what is shifted.
std::int64_t shift_signed(std::int64_t value, std::uint32_t shift, std::uint32_t negative_shift) {
    return shift_round(value, value < 0 ? negative_shift : shift);
}

std::int64_t rectify(const Relu& relu, std::int64_t value) {
    if (!relu.active) {
        return value;
    }
    const std::int64_t positive = std::max<std::int64_t>(value, 0);
    return relu.bounded ? std::min<std::int64_t>(positive, static_cast<std::int32_t>(relu.bound)) : positive;
}

std::int64_t scale_one(const ScaleStage& stage, std::int64_t value, std::int64_t operand, std::int64_t multiplier) {
    const auto multiplied = [&](std::int64_t x) { return stage.multiply && (!stage.negatives_only || x < 0); };
    if (stage.multiply_first) {
        const bool scaled = multiplied(value);
        value = scaled ? value * multiplier : value;
        value = stage.alu ? apply(stage.algorithm, value, operand) : value;
        return scaled ? shift_signed(value, stage.shift, stage.negative_shift) : value;
    }
    value = stage.alu ? apply(stage.algorithm, value, operand) : value;
    return multiplied(value) ? shift_signed(value * multiplier, stage.shift, stage.negative_shift) : value;
}

}  // namespace

void run_zero_point(const std::int64_t* operands, const std::int64_t* sums, bool sums_per_channel, BlockShape shape,
                    std::int64_t* values) {
    for (std::size_t p = 0; p < shape.pixels; ++p) {
        for (std::size_t c = 0; c < shape.channels; ++c) {
            const std::size_t at = p * shape.channels + c;
            values[at] += operands[c] * sums[sums_per_channel ? at : p];
        }
    }
}

void run_scale_stage(const ScaleStage& stage, const ScaleOperands<std::int64_t>& operands, BlockShape shape,
                     std::int64_t* values) {
    for (std::size_t p = 0; p < shape.pixels; ++p) {
        for (std::size_t c = 0; c < shape.channels; ++c, ++values) {
            const std::int64_t scaled = scale_one(stage, *values, operands.alu[c], operands.multiplier[c]);
            *values = saturate<std::int32_t>(rectify(stage.relu, scaled));
        }
    }
}

void convert_operands(const ElementWiseStage& stage, std::size_t count, std::int64_t* operands) {
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t offset = stage.offset;
        const std::int64_t before = operands[i] + (stage.offset_first ? offset : 0);
        const std::int64_t scaled = shift_round(before * stage.scale, stage.shift, stage.ties_away);
        operands[i] = saturate<std::int32_t>(scaled + (stage.offset_first ? 0 : offset));
    }
}

void run_element_wise(const ElementWiseStage& stage, const std::int64_t* operands, std::size_t count,
                      std::int64_t* values) {
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t value = values[i];
        if (stage.multiply) {
            value = stage.negatives_only && value >= 0 ? value : value * operands[i];
        } else {
            value = apply(stage.algorithm, value, operands[i]);
        }
        value = shift_signed(value, stage.truncate, stage.negative_truncate);
        values[i] = saturate<std::int32_t>(rectify(stage.relu, value));
    }
}

}  // namespace npu::sim
