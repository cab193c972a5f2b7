// Which bytes a task touches, in addresses of the NPU.
#pragma once

#include <cstdint>

namespace npu::sim {

// A half-open range of NPU addresses. It may leave the 32-bit window: strides are free.
struct Extent {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

// One stream of a task: what it is for, and the register that holds its address, for messages.
struct MemoryAccess {
    Extent extent;
    const char* what = "";
    std::uint16_t address_register = 0;
};

}  // namespace npu::sim
