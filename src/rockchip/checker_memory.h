// Where a task reads and writes, derived from its strides, and the rules about it: inside the job's buffers, output
// where the device may write, no result written over an operand, a command or another result.
//
// Features (one atom = 16 bytes; s = 16-byte channel block, h = line, w = pixel):
//   GROUP_LINE_OFF 1:  base + 16 * (h * line + s * (W + surface) + w)
//   GROUP_LINE_OFF 0:  base + 16 * ((h / 4) * line + s * (4 * W + surface) + (h % 4) * W + w)
// Weights are one run of N x bytes-per-kernel. Output (g = kernel group, j = surface inside it):
//   base + g * SURFACE_ADD + j * DST_SURF_STRIDE + 16 * (h * (W + notch) + w)
// Source: derived from and checked against every captured program; not a register manual formula. Internal to the
// checker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rockchip/checker_task.h"

namespace npu::rockchip::check {

// Bytes [begin, end) around everything that is touched; begin may be below 0 and end above 2^32 if a stride leads there.
struct Extent {
    std::int64_t begin = 0, end = 0;
    [[nodiscard]] bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

Extent feature_extent(const Matmul& task);
Extent weight_extent(const Matmul& task);
Extent output_extent(const Matmul& task);

// Collects the outputs of a chain and, in the end, finds the atoms that two tasks write.
class OutputMap {
  public:
    void add(std::size_t position, const Matmul& task) { entries_.push_back({position, task, output_extent(task)}); }
    void check(Findings& findings);

  private:
    struct Entry {
        std::size_t position;
        Matmul task;
        Extent extent;
    };
    static void check_region(std::span<Entry> region, Findings& findings);

    std::vector<Entry> entries_;
};

// Rules of one task. True when its output is sound on its own, that is when it may join an OutputMap.
bool check_memory(const Matmul& task, const CheckInput& input, Findings& findings);

// Bytes [address, address + bytes) must lie in one of the job's buffers (when these are known).
void check_inside(const Extent& extent, bool writes, std::uint16_t offset, std::uint32_t value, const char* what,
                  std::span<const CheckBuffer> buffers, Findings& findings);

}  // namespace npu::rockchip::check
