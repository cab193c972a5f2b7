// What one task does, read from its registers: where it reads, where it writes and, for a convolution, what lies in the
// on-chip buffer. Internal to the checker.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rockchip/checker_convolution.h"
#include "rockchip/checker_findings.h"

namespace npu::rockchip::check {

// Bytes [begin, end) around everything that is touched; begin may be below 0 and end above 2^32 if a stride leads there.
struct Extent {
    std::int64_t begin = 0, end = 0;
    [[nodiscard]] bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

// Where the output goes. The writer cuts channels into surfaces of 16 bytes per pixel and surfaces into groups:
//   surface s, line h, pixel w:  address + (s / per_group) * group_stride + (s % per_group) * surface_stride
//                                        + 16 * (h * (width + notch) + w)
struct Writer {
    Field address_field, notch_field, surface_field, group_field;
    std::int64_t address = 0;
    std::int64_t width = 0, height = 0;
    std::int64_t notch = 0;  // atoms after each line
    std::int64_t surfaces = 0, per_group = 1;
    std::int64_t surface_stride = 0, group_stride = 0;  // bytes
    bool dense = false;  // transposed output: some order within one run of surfaces * width * height atoms

    [[nodiscard]] std::int64_t groups() const { return (surfaces + per_group - 1) / per_group; }
    [[nodiscard]] std::int64_t surface_address(std::int64_t surface) const {
        return address + surface / per_group * group_stride + surface % per_group * surface_stride;
    }
};

// One operand in memory.
struct Operand {
    Extent extent;
    Field address_field;
    const char* name;                       // "features", for "its own features"
    bool may_be_overwritten_there = false;  // results may replace it when they begin at the same address
};

struct Task {
    Writer writer;
    std::vector<Operand> operands;
    std::optional<Convolution> convolution;
};

// Reads the task that `enable` fires: a convolution, an element-wise task or pooling. Empty when so much is wrong that
// the other rules would only echo it.
std::optional<Task> read_task(const RegisterFile& file, std::uint32_t enable, const ChipProfile& chip,
                              Findings& findings);

// CBUF rules: banks, capacity, entries, reuse. `previous` is the task before it in the same chain, or nullptr.
void check_cbuf(const Convolution& task, const Convolution* previous, const ChipProfile& chip, Findings& findings);

// PPU and PPU_RDMA: the output and the operand of a pooling task.
std::optional<Task> read_pooling(const Reader& reader);

}  // namespace npu::rockchip::check
