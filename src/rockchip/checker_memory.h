// Rules about where a task reads and writes: inside the job's buffers, output where the device may write, results apart
// from each other, and nothing written over an operand or a command. Over a whole chain: no result is written over an
// earlier one that nobody has read in between. Internal to the checker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rockchip/checker_task.h"

namespace npu::rockchip::check {

Extent output_extent(const Writer& writer);

// Collects the outputs of a chain and, in the end, finds the atoms that two tasks write.
class OutputMap {
  public:
    void add(std::size_t position, const Task& task);
    void check(Findings& findings);

  private:
    struct Entry {
        std::size_t position;
        Writer writer;
        Extent extent;
        std::vector<Extent> reads;
    };
    void check_region(std::span<const std::size_t> region, Findings& findings);
    [[nodiscard]] bool consumed(std::size_t owner, std::size_t overwriter) const;

    std::vector<Entry> entries_;
    bool warned_ = false;
};

// Rules of one task. True when its output is sound on its own, that is when it may join an OutputMap.
bool check_memory(const Task& task, const CheckInput& input, Findings& findings);

// Bytes [address, address + bytes) must lie in one of the job's buffers (when these are known).
void check_inside(const Extent& extent, bool writes, std::uint16_t offset, std::uint32_t value, const char* what,
                  std::span<const CheckBuffer> buffers, Findings& findings);

}  // namespace npu::rockchip::check
