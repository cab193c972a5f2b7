// What the DPU's DMA brings: the main cube of flying mode (MRDMA), operands per element (ERDMA, and MRDMA beside it when
// the array is the main source), operands per channel (BRDMA for OW and BS, ERDMA for EW). All cubes are surfaces of 16-byte
// atoms; an operand whose elements are b bytes wide has 16 / b channels to an atom.
//
// Beside the array, an operand cube is read by both engines: even surfaces by MRDMA from SRC_BASE_ADDR, odd ones by ERDMA
// from EW_BASE_ADDR. Both go from surface to surface by a plane plus a notch, so that a dense cube needs a notch of one
// plane. Source: registers and layouts of two hardware-tested generators, which this reading explains without exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/dpu_stages.h"
#include "sim/dpu_task.h"
#include "sim/extent.h"

namespace npu::sim {

// Surfaces of a cube of `channels` channels.
constexpr std::uint32_t cube_surfaces(std::uint32_t channels, std::uint32_t element_bytes) {
    return (channels * element_bytes + rockchip::atom_bytes - 1) / rockchip::atom_bytes;
}

// Bytes that reading `surfaces` surfaces of a cube touches.
Extent stream_extent(const CubeStream& stream, const DpuTask& task, std::uint32_t surfaces);

// Raw elements of a cube for channels `first` .. `first + channels - 1`: codes[pixel * channels + channel], the low bits of
// each element. `even` is the memory at first.address, `odd` that at second.address; `odd` is nullptr when one stream holds
// all surfaces.
struct CubeMemory {
    const CubeStream* even_stream = nullptr;
    const std::byte* even = nullptr;
    const CubeStream* odd_stream = nullptr;
    const std::byte* odd = nullptr;
};
void gather_elements(const DpuTask& task, const CubeMemory& cube, std::uint32_t element_bytes, std::uint32_t first,
                     std::uint32_t channels, std::vector<std::uint32_t>& codes);

// The same for operands that lie densely, one per channel; each pixel gets them.
void spread_channels(const DpuTask& task, const std::byte* memory, std::uint32_t element_bytes, std::uint32_t first,
                     std::uint32_t channels, std::vector<std::uint32_t>& codes);

// Codes to values. Only the formats that read_dpu accepts for the domain.
void decode_elements(rockchip::Precision format, const std::vector<std::uint32_t>& codes, std::vector<float>& values);
void decode_elements(rockchip::Precision format, const std::vector<std::uint32_t>& codes,
                     std::vector<std::int64_t>& values);

// Operands per channel of OW and BS, from records or from registers.
template <typename T>
struct ChannelOperands {
    std::vector<T> zero_point;
    std::vector<T> alu;
    std::vector<T> multiplier;
};
// `records` is the memory at task.records.address, or nullptr. Zero points are integers in both domains.
void load_channel_operands(const DpuTask& task, const std::byte* records, std::uint32_t first, std::uint32_t channels,
                           ChannelOperands<float>& operands);
void load_channel_operands(const DpuTask& task, const std::byte* records, std::uint32_t first, std::uint32_t channels,
                           ChannelOperands<std::int64_t>& operands);

// One operand of a stage as a value: ALU operands are 32 bits wide, multipliers 16.
void alu_value(const DpuTask& task, std::uint32_t code, float& value);
void alu_value(const DpuTask& task, std::uint32_t code, std::int64_t& value);
void multiplier_value(const DpuTask& task, const ScaleStage& stage, std::uint32_t code, float& value);
void multiplier_value(const DpuTask& task, const ScaleStage& stage, std::uint32_t code, std::int64_t& value);

}  // namespace npu::sim
