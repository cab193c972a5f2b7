// A sum of float products without any rounding. Every product of two floats is an integer multiple of 2^-298 below
// 2^256, so 600 bits of fixed point hold it exactly; the sum is rounded once, at the end. The array of the NPU adds
// 32 products this way (published measurement, about 130 million elements bit for bit), so this class is the
// specification of a group; the fast kernels take a shortcut only where double arithmetic is provably exact too.
#pragma once

#include <array>
#include <cstdint>

namespace npu::sim {

class ExactSum {
  public:
    // Adds a * b; both finite. At most 2^20 products may be added.
    void add_product(float a, float b);

    // The sum, rounded to nearest with ties to even; an exact zero is +0; too large a sum is infinite.
    [[nodiscard]] float rounded() const;

  private:
    std::array<std::int64_t, 20> digits_{};  // base 2^32, least significant first, each may be out of range
};

}  // namespace npu::sim
