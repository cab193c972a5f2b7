// Float side of dpu_stages.h. Multiplication and addition are separate passes over memory, so that no compiler joins
// them into one operation with one rounding.
#include <bit>
#include <cmath>

#include "sim/dpu_stages.h"

namespace npu::sim {

namespace {

// operand(i) is the operand of value i.
template <typename Operand>
void run_alu(AluAlgorithm algorithm, std::size_t count, float* values, Operand operand) {
    const auto each = [&](auto function) {
        for (std::size_t i = 0; i < count; ++i) {
            values[i] = function(values[i], operand(i));
        }
    };
    switch (algorithm) {
        case AluAlgorithm::maximum: each([](float x, float y) { return x < y ? y : x; }); break;
        case AluAlgorithm::minimum: each([](float x, float y) { return y < x ? y : x; }); break;
        case AluAlgorithm::add: each([](float x, float y) { return x + y; }); break;
        case AluAlgorithm::divide: each([](float x, float y) { return x / y; }); break;
        case AluAlgorithm::subtract: each([](float x, float y) { return x - y; }); break;
        case AluAlgorithm::absolute: each([](float x, float) { return std::fabs(x); }); break;
        case AluAlgorithm::negate: each([](float x, float) { return -x; }); break;
        case AluAlgorithm::floor: each([](float x, float) { return std::floor(x); }); break;
        case AluAlgorithm::ceiling: each([](float x, float) { return std::ceil(x); }); break;
    }
}

template <typename Operand>
void run_multiplier(bool negatives_only, std::size_t count, float* values, Operand operand) {
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = negatives_only && !(values[i] < 0) ? values[i] : values[i] * operand(i);
    }
}

void rectify(const Relu& relu, std::size_t count, float* values) {
    if (!relu.active) {
        return;
    }
    const float bound = std::bit_cast<float>(relu.bound);
    for (std::size_t i = 0; i < count; ++i) {
        const float positive = values[i] < 0 ? 0.0F : values[i];
        values[i] = relu.bounded && bound < positive ? bound : positive;
    }
}

}  // namespace

void run_scale_stage(const ScaleStage& stage, const ScaleOperands<float>& operands, BlockShape shape, float* values) {
    const auto multiply = [&](float* row) {
        run_multiplier(stage.negatives_only, shape.channels, row,
                       [&](std::size_t c) { return operands.multiplier[c]; });
    };
    for (std::size_t p = 0; p < shape.pixels; ++p) {
        float* row = values + p * shape.channels;
        if (stage.multiply && stage.multiply_first) {
            multiply(row);
        }
        if (stage.alu) {
            run_alu(stage.algorithm, shape.channels, row, [&](std::size_t c) { return operands.alu[c]; });
        }
        if (stage.multiply && !stage.multiply_first) {
            multiply(row);
        }
    }
    rectify(stage.relu, shape.count(), values);
}

void run_element_wise(const ElementWiseStage& stage, const float* operands, std::size_t count, float* values) {
    const auto operand = [&](std::size_t i) { return operands[i]; };
    if (stage.multiply) {
        run_multiplier(stage.negatives_only, count, values, operand);
    } else if (!stage.passes_main) {
        run_alu(stage.algorithm, count, values, operand);
    }
    rectify(stage.relu, count, values);
}

}  // namespace npu::sim
