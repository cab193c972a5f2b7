// The output converter and the output formats: what a value looks like in memory once all stages are done.
//
// Integers (published measurement): saturate(round((x * scale) >> shift) + offset); to fp32 the result is converted with a
// single rounding, so that an int8 product arrives in fp32 exactly. With the float conversion (OUT_CVT_SHIFT.CVT_TYPE, which
// is without effect on integer outputs) it is (x + offset) * 2^-minus_exponent * scale, rounded once to fp32. 16-bit float
// outputs round that fp32 again, ties to even. Floats to int16 round to nearest and saturate (what programs that build an
// exponential from the bits of a half need; whether silicon rounds or truncates there is not published).
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/dpu_task.h"

namespace npu::sim {

// `outputs` gets `count` elements of the task's output format.
void convert_outputs(const DpuTask& task, const float* values, std::size_t count, std::byte* outputs);
void convert_outputs(const DpuTask& task, const std::int32_t* values, std::size_t count, std::byte* outputs);
void convert_outputs(const DpuTask& task, const std::int64_t* values, std::size_t count, std::byte* outputs);

}  // namespace npu::sim
