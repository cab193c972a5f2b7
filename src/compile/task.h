// One task: a matmul tile as register writes. The hardware knows only convolutions, so a matmul is a 1x1
// convolution over a plane of W x H pixels with W*H = M; how rows are mapped to pixels decides how addresses run.
// With C2 channels to an atom, s the index of the channel block, and strides in atoms, the fetch reads
//   GROUP_LINE_OFF = 0   base + (h/4)*line + s*(4*W + surface) + (h%4)*W + w      lines in groups of four
//   GROUP_LINE_OFF = 1   base + h*line + s*(W + surface) + w
// (surface signed), and the DPU writes output channel n, in kernel group n/G and surface j of that group, to
//   base + (n/G)*SURFACE_ADD + j*DST_SURF_STRIDE + 16*(h*(W + notch) + w)
// Every mapping below is these formulas solved for a layout of layout.h.
// Source: register manual for the fields; captured vendor programs and hardware-tested generators for the values
// (tests/compile/golden_test.cpp compares, and lists each difference with its reason).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "compile/layout.h"
#include "rockchip/chip.h"
#include "rockchip/command.h"

namespace npu::compile {

using rockchip::ChipProfile;
using rockchip::Command;

enum class Mapping : std::uint8_t {
    native_wide,  // native features, all rows: W = M, H = 1. What the vendor's matmul writes
    native_tile,  // native features, rows m0.. of full_m: W = m, H = 1, single-line addressing
    native_tall,  // native features, any rows: W = 1, H = m. What the open generators write
    row_major,    // row-major features: W = 1, H = m
    plane,        // NC1HWC2 image of plane_width columns, a 1x1 convolution over some of its lines
};

// DMA addresses: as bases of buffers, or as those of one task. `program` is the command list itself.
struct Addresses {
    std::uint64_t features = 0;
    std::uint64_t weights = 0;
    std::uint64_t output = 0;
    std::uint64_t program = 0;
    friend bool operator==(const Addresses&, const Addresses&) = default;
};

struct TaskSpec {
    Mapping mapping = Mapping::native_wide;
    Arrangement output_arrangement = Arrangement::native;  // row_major needs W = 1: native_tall or row_major
    Precision input = Precision::int8;
    Precision output = Precision::int32;
    std::uint32_t m = 0;  // of this task; n and k padded to G and KB
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    std::uint32_t full_m = 0;       // rows of the matrices that the task is a tile of
    std::uint32_t full_n = 0;       // pitch of a row-major output, padded; ignored otherwise
    std::uint32_t full_k = 0;       // pitch of row-major features, padded; ignored otherwise
    std::uint32_t plane_width = 0;  // mapping plane only; divides m and full_m
    std::uint32_t data_banks = 0;
    std::uint32_t weight_banks = 0;
    bool weight_reuse = false;  // weights of the previous task in this hardware chain are still in the CBUF
    bool data_reuse = false;    // its features are
    // Lines fetched before the array starts: a prefetch hint. 0 means all lines and one more, at most 1023, which
    // is what generators write for matmuls; published programs for images choose smaller values.
    std::uint32_t feature_grains = 0;
    bool vendor_preamble = true;  // write four CNA registers twice, as vendor programs do: 4 words more
    bool emit_rdma = false;       // write DPU_RDMA, with its readers off, and fire it: the mainline driver needs it
    bool qd_en = true;            // see CORE.MISC_CFG; every value seen works
    // int8 to int16 and fp16 only: results are sums divided by 2^result_shift. int16 rounds ties to even and saturates.
    std::uint32_t result_shift = 0;
    Addresses addresses = {};  // of this task's first feature, weight and output; program is not used
    // fp16 partial sums of this task's shape, in a matrix like the output's, that the DPU adds before it rounds to fp16;
    // apart from the output, since in place was measured to corrupt. fp16 to fp16, native output and emit_rdma only.
    std::optional<std::uint64_t> partial_sums = {};
};

// Whether results of `input` operands can be had as `output`; `built_pairs` says it in words.
bool builds(Precision input, Precision output);
inline constexpr const char* built_pairs =
    "int8 to int32, fp32, int16 and fp16, int4 to int16, fp16 to fp32 and fp16, bf16 and tf32 to fp32";

// The plane that the mapping makes of the task's rows.
struct PlaneSize {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
};
PlaneSize plane_size(const TaskSpec& spec);

// Words of the body, which the mapping does not change.
std::uint32_t body_words(bool vendor_preamble, bool emit_rdma);

// Bits of the enable word.
std::uint32_t enable_bits(const TaskSpec& spec);

// The body of the task, in the vendor's write order, without the tail.
// Errors: unsupported for formats that are not built; invalid_argument for dimensions that are not whole blocks,
// for banks that do not hold the features, and for any value that does not fit its register field.
Result<std::vector<Command>> emit_task(const TaskSpec& spec, const ChipProfile& chip);

}  // namespace npu::compile
