// Number formats of the array, and how each is cut into tiles. Three sizes follow from the hardware's 16-byte
// "atom": how many channels of a feature fit in one atom (C2), how many output channels (kernels) form a group
// in the weight stream (G), and how many input channels form a block there (KB).
// Source: register manual; layouts agree with every captured program and with four independent generators.
#pragma once

#include <cstdint>
#include <optional>

namespace npu::rockchip {

// Values are the codes of the CNA and CORE precision fields. int32 and fp32 exist in the DPU only, as outputs,
// with the codes that `dpu_code` gives.
enum class Precision : std::uint8_t {
    int8 = 0,
    int16 = 1,
    fp16 = 2,
    bf16 = 3,
    int4 = 6,
    tf32 = 7,
    int32 = 16,
    fp32 = 17,
};

struct PrecisionInfo {
    Precision precision;
    const char* name;
    std::uint8_t dpu_code;            // code in the DPU's format fields
    std::uint8_t bits;                // of one element in memory
    std::uint8_t kernels_per_group;   // G; 0 for output-only formats
    std::uint8_t channels_per_block;  // KB; 0 for output-only formats
    bool floating;
};

// Never fails: every enumerator is in the table.
const PrecisionInfo& info(Precision precision);

// Precision for a code of the CNA/CORE fields; empty for a code that means nothing.
std::optional<Precision> precision_from_cna_code(std::uint32_t code);

// Precision for a code of the DPU fields; empty for a code that means nothing.
std::optional<Precision> precision_from_dpu_code(std::uint32_t code);

inline constexpr std::uint32_t atom_bytes = 16;

// Channels of one pixel that share an atom.
inline std::uint32_t channels_per_atom(Precision precision) { return atom_bytes * 8 / info(precision).bits; }

}  // namespace npu::rockchip
