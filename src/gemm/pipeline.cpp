#include "gemm/pipeline.h"

#include <algorithm>
#include <array>

#include "gemm/four_bits.h"

namespace npu::gemm {

namespace {

using rockchip::Precision;

constexpr std::array table{
    PipelineInfo{Pipeline::fp16, "fp16", Precision::fp16, Precision::fp32, 1, 0, false},
    PipelineInfo{Pipeline::bf16, "bf16", Precision::bf16, Precision::fp32, 1, 0, false},
    PipelineInfo{Pipeline::int8, "int8", Precision::int8, Precision::int32, 1, 0, false},
    PipelineInfo{Pipeline::int8n, "int8n", Precision::int8, Precision::fp16, 1, 0, false},
    PipelineInfo{Pipeline::w4a8, "w4a8", Precision::int4, Precision::int16, 2, tile_k_4bit, true},
    PipelineInfo{Pipeline::int4, "int4", Precision::int4, Precision::int16, 1, tile_k_4bit, true},
};

}  // namespace

const PipelineInfo& info(Pipeline pipeline) { return *std::ranges::find(table, pipeline, &PipelineInfo::pipeline); }

std::optional<Pipeline> pipeline_named(std::string_view name) {
    const auto found = std::ranges::find_if(table, [&](const PipelineInfo& entry) { return name == entry.name; });
    return found == table.end() ? std::nullopt : std::optional(found->pipeline);
}

}  // namespace npu::gemm
