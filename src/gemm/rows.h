// Matrices of floats as the host holds them: row-major, each row at a fixed distance from the one before. Views own
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::gemm {

// M float rows of K (or N) values; row r begins at data + r * stride.
struct RowsView {
    const float* data = nullptr;
    std::size_t stride = 0;  // floats
    std::uint32_t rows = 0;
};

struct TargetView {
    float* data = nullptr;
    std::size_t stride = 0;  // floats
};

}  // namespace npu::gemm
