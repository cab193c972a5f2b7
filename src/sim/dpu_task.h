// What a started DPU (and DPU_RDMA) is asked to do, read from the registers. The DPU takes one value per output pixel and
// channel, either a sum from the array or, in *flying* mode, what its own DMA reads, and passes it through five stages:
//
//   OW   (CPEND)  value + operand * sum of the inputs under the window: the weights' zero point
//   BS            ALU with one operand per task or channel, then multiply and shift, then ReLU
//   BN            the same, but multiply comes first
//   EW            one operand per task, channel or element, then ReLU, then a look-up table
//   OUT_CVT       scale, shift, offset; conversion to the output format
//
// and writes it into a cube of 16-byte atoms. Values are fp32 between the stages when the processing format is a float
// format, else integers that saturate to 32 bits after each stage that does something.
//
// Sources: register manual for the fields; published measurements for order, rounding and saturation of the stages
// (BS: ALU first; BN on the float path: multiply first; shifts round ties to even). Not published, and derived here from
// constants of a vendor program: on the integer path BN computes (x * multiplier + operand) >> shift, one rounding. (Its
// ALU operand is the zero point 381 times its multiplier 32430; any other order makes no sense of that.)
#pragma once

#include <cstdint>
#include <vector>

#include "rockchip/chip.h"
#include "rockchip/precision.h"
#include "sim/extent.h"
#include "sim/register_check.h"

namespace npu::sim {

struct Convolution;

// Codes of the ALU fields.
enum class AluAlgorithm : std::uint8_t {
    maximum = 0,
    minimum = 1,
    add = 2,
    divide = 3,
    subtract = 4,
    absolute = 5,
    negate = 6,
    floor = 7,
    ceiling = 8,
};

// The end of a stage. `bound` is in the format of the values: int32, or the bits of an fp32.
struct Relu {
    bool active = false;
    bool bounded = false;
    std::uint32_t bound = 0;
};

// OW: zero point of the weights.
struct ZeroPointStage {
    bool active = false;
    bool per_channel = false;
    std::int32_t operand = 0;
};

// BS or BN. Operands hold bits: of an int32 or fp32 for the ALU, of a 16-bit integer, fp16 or bf16 for the multiplier.
struct ScaleStage {
    bool active = false;
    bool alu = false;
    AluAlgorithm algorithm = AluAlgorithm::add;
    bool alu_per_channel = false;
    std::uint32_t alu_operand = 0;
    bool multiply = false;
    bool multiply_first = false;
    bool multiplier_unsigned = false;  // integers: BN takes uint16, BS int16
    bool negatives_only = false;       // PRELU: other values pass unmultiplied and unshifted
    bool multiplier_per_channel = false;
    std::uint32_t multiplier = 0;
    std::uint32_t shift = 0;           // integers only; of products that are not negative
    std::uint32_t negative_shift = 0;  // of negative products
    Relu relu;
};

// How an element lies in memory: a value of `format` in the low end of `bytes` bytes. They differ for multipliers: a
// 32-bit operand holds an int16 or an fp16.
struct ElementFormat {
    rockchip::Precision format = rockchip::Precision::int32;
    std::uint32_t bytes = 4;
};

// A cube in memory as the DPU's DMA reads it. A byte of channel surface s, line h, pixel w is at
// address + s * surface_bytes + h * line_bytes + w * pixel_bytes.
struct CubeStream {
    std::uint64_t address = 0;
    std::uint64_t surface_bytes = 0;
    std::uint64_t line_bytes = 0;
    std::uint64_t pixel_bytes = rockchip::atom_bytes;
};

enum class OperandSource : std::uint8_t {
    registers,  // one for all
    channels,   // `first`: one per channel, densely
    elements,   // `first`: a cube of the output's shape
    pairs,      // the same, even surfaces from `first` (MRDMA), odd ones from `second` (ERDMA)
};

// EW without the table.
struct ElementWiseStage {
    bool active = false;
    bool multiply = false;
    bool negatives_only = false;
    bool passes_main = false;  // the operand has no effect: an fp16 code taken as fp32 is next to nothing
    AluAlgorithm algorithm = AluAlgorithm::add;
    OperandSource source = OperandSource::registers;
    ElementFormat operand;
    std::uint32_t register_operand = 0;
    CubeStream first;
    CubeStream second;
    // Converter of integer operands: ((x + offset) * scale) >> shift; offset last with `offset_first` unset.
    bool convert = false;
    bool offset_first = true;
    bool ties_away = false;
    std::int32_t offset = 0;
    std::int32_t scale = 1;
    std::uint32_t shift = 0;
    std::uint32_t truncate = 0;           // integers only: right shift of results that are not negative
    std::uint32_t negative_truncate = 0;  // of negative results
    Relu relu;
};

// One of the two look-up tables: 512 intervals of 2^distance from `start`; values beyond its ends continue with a slope.
struct LookupRange {
    std::int32_t start = 0;
    std::int32_t end = 0;
    std::uint32_t distance = 0;  // log2
    std::int32_t underflow_scale = 0;
    std::uint32_t underflow_shift = 0;
    std::int32_t overflow_scale = 0;
    std::uint32_t overflow_shift = 0;
};

struct LookupStage {
    bool active = false;
    LookupRange le;
    LookupRange lo;
    bool lo_where_both = false;  // which table answers where both hold the value, above both, below both
    bool lo_above = false;
    bool lo_below = false;
};

// Integers: y = saturate(round((x * scale) >> shift) + offset); to a float format, without saturation. `scaled` (the
// float conversion): y = (x + offset) * 2^-minus_exponent * scale.
struct OutputConversion {
    std::int32_t scale = 1;
    std::int32_t offset = 0;
    std::uint32_t shift = 0;
    bool ties_away = false;  // else ties to even
    bool scaled = false;
    std::uint32_t minus_exponent = 0;
};

// Operands of OW and BS, one per channel, in records of eight channels: 8 x 32 bits for the ALU, 8 x 16 bits for OW,
// 8 x 16 bits for the multiplier; what BRDMA_DATA_USE does not ask for is left out.
struct ChannelRecords {
    bool active = false;
    std::uint64_t address = 0;
    std::uint32_t record_bytes = 0;
    std::uint32_t alu_offset = 0;  // within a record
    std::uint32_t zero_point_offset = 0;
    std::uint32_t multiplier_offset = 0;
};

struct DpuTask {
    bool flying = false;          // values come from `main`, not from the array
    rockchip::Precision input{};  // of the array, or of `main`
    rockchip::Precision output{};
    bool writes_nothing = false;     // output format 7
    bool goes_to_ppu = false;        // results go to the PPU (refused: no known start of blocks does both)
    bool wants_window_sums = false;  // the array must deliver Accumulators::window_sums

    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::uint32_t channels = 0;        // of the output cube
    std::uint32_t valid_channels = 0;  // the others hold `pad_value`
    std::uint32_t group_channels = 0;  // values of so many channels arrive together
    std::uint16_t pad_value = 0;

    CubeStream main;
    ChannelRecords records;
    ZeroPointStage ow;
    ScaleStage bs;
    ScaleStage bn;
    ElementWiseStage ew;
    LookupStage lookup;
    OutputConversion conversion;

    // Writer; see output_addressing.h.
    std::uint64_t output_address = 0;
    std::uint64_t output_surface_bytes = 0;  // DPU.DST_SURF_STRIDE
    std::uint64_t output_group_bytes = 0;    // DPU.SURFACE_ADD
    std::uint64_t output_notch_atoms = 0;    // gap between lines
    std::uint32_t group_surfaces = 1;        // surfaces per SURFACE_ADD
    std::uint32_t written_surfaces = 1;      // the first so many of them are written
    bool transposed = false;

    std::uint64_t bytes_read = 0;  // by DPU_RDMA
    std::uint64_t bytes_written = 0;

    [[nodiscard]] std::uint32_t pixels() const { return width * height; }
    // Values are fp32 between the stages, else integers.
    [[nodiscard]] bool floating() const { return rockchip::info(input).floating; }
    [[nodiscard]] std::uint32_t output_element_bytes() const { return rockchip::info(output).bits / 8U; }
    // 16-byte surfaces of the output cube.
    [[nodiscard]] std::uint32_t surfaces() const {
        return (channels * output_element_bytes() + rockchip::atom_bytes - 1) / rockchip::atom_bytes;
    }
    // Nothing between the array and the output converter.
    [[nodiscard]] bool stages_bypassed() const {
        return !ow.active && !bs.active && !bn.active && !ew.active && !lookup.active;
    }
};

// Reads DPU and, if it is started, DPU_RDMA. `feed` is what CNA and CORE deliver; nullptr when the DPU runs alone on what
// its own DMA reads (enable 0x18). The result can be run even when values were refused, as long as its streams are mapped.
DpuTask read_dpu(RegisterCheck& check, std::uint32_t enable, const Convolution* feed);

// Every stream that the task reads through DPU_RDMA, and what it writes.
std::vector<MemoryAccess> dpu_reads(const DpuTask& task);
std::vector<MemoryAccess> dpu_writes(const DpuTask& task);

}  // namespace npu::sim
