// The arithmetic of the DPU's stages, one pass over the values per operation. Values of a block are [pixels][channels];
// operands per channel are [channels], operands per element have the shape of the values. Integers are 64 bits wide on
// the way and saturate to 32 bits at the end of a stage; floats are rounded to fp32 after each operation (published: the
// product of two multiplier stages is exactly (float(sum) * a) * b in fp32).
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/dpu_task.h"

namespace npu::sim {

struct BlockShape {
    std::size_t pixels = 0;
    std::size_t channels = 0;
    [[nodiscard]] std::size_t count() const { return pixels * channels; }
};

// Operands of BS or BN, [channels] each.
template <typename T>
struct ScaleOperands {
    const T* alu = nullptr;
    const T* multiplier = nullptr;
};

// values[p][c] += operand[c] * sums[p], or sums[p][c] when there is a sum per channel.
void run_zero_point(const std::int64_t* operands, const std::int64_t* sums, bool sums_per_channel, BlockShape shape,
                    std::int64_t* values);

void run_scale_stage(const ScaleStage& stage, const ScaleOperands<std::int64_t>& operands, BlockShape shape,
                     std::int64_t* values);
void run_scale_stage(const ScaleStage& stage, const ScaleOperands<float>& operands, BlockShape shape, float* values);

// The operand converter, in place.
void convert_operands(const ElementWiseStage& stage, std::size_t count, std::int64_t* operands);

// `operands` has as many elements as `values`; the operation and ReLU.
void run_element_wise(const ElementWiseStage& stage, const std::int64_t* operands, std::size_t count,
                      std::int64_t* values);
void run_element_wise(const ElementWiseStage& stage, const float* operands, std::size_t count, float* values);

}  // namespace npu::sim
