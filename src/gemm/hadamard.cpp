#include "gemm/hadamard.h"

#include <cmath>

namespace npu::gemm {

std::uint32_t hadamard_block(std::uint32_t k) { return k & (~k + 1); }

void portable::rotate(float* row, std::size_t count, std::uint32_t block) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(block));
    for (float* start = row; start != row + count; start += block) {
        for (std::uint32_t half = 1; half < block; half *= 2) {
            for (std::uint32_t i = 0; i < block; i += 2 * half) {
                for (std::uint32_t j = i; j < i + half; ++j) {
                    const float a = start[j];
                    const float b = start[j + half];
                    start[j] = a + b;
                    start[j + half] = a - b;
                }
            }
        }
        for (std::uint32_t i = 0; i < block; ++i) {
            start[i] *= scale;
        }
    }
}

}  // namespace npu::gemm
