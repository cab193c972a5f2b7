// The ways from float matrices to a product on the array, and what each costs:
//
//  fp16    halves in, floats out. What a CPU that converts to half multiplies, bit for bit
//  bf16    bfloats in, floats out: the range of a float, eight bits of precision
//  int8    8-bit operands, exact 32-bit sums; a scale per row of activations and per output channel
//  int8n   the same with results narrowed to fp16 on the chip, which halves what leaves it: sums keep 11 significant bits.
//          One project says that the chip cannot do it, another publishes a passing test: off unless asked for
//  w4a8    4-bit weights, activations of nearly 8 bits as two rows of 4 (four_bits.h): half the weight bytes of int8
//  int4    4-bit weights and activations: loses much; off unless asked for
//
// int8, w4a8 and int4 may rotate K first (hadamard.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "rockchip/precision.h"

namespace npu::gemm {

enum class Pipeline : std::uint8_t { fp16, bf16, int8, int8n, w4a8, int4 };

struct PipelineInfo {
    Pipeline pipeline;
    const char* name;
    rockchip::Precision input;
    rockchip::Precision output;
    std::uint32_t rows_per_row;  // rows of the array for each row of activations
    std::uint32_t longest_k;     // of a K tile, for sums to fit; 0: the chip's limits
    bool scale_per_tile;         // weights have a scale per output channel and K tile, not per output channel
};

// Never fails: every enumerator is in the table.
const PipelineInfo& info(Pipeline pipeline);

std::optional<Pipeline> pipeline_named(std::string_view name);

inline const char* pipeline_name(Pipeline pipeline) { return info(pipeline).name; }

}  // namespace npu::gemm
