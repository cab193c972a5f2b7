#pragma once

#include <cstdint>

namespace npu::sim {

// A half-open range of NPU addresses. It may leave the 32-bit window: strides are free.
struct Extent {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

}  // namespace npu::sim
