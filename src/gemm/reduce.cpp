#include "gemm/reduce.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compile/pack.h"

namespace npu::gemm {

namespace {

template <typename Partial, typename Sum>
void reduce_as(const compile::Plan& plan, const std::byte* output, std::span<const float> kernel_scales,
               std::span<const float> row_scales, std::uint32_t first, std::uint32_t count, TargetView y) {
    const compile::OutputLayout layout = plan.output_layout();
    const std::uint32_t n = plan.shape.n;
    std::vector<Partial> partial(n);
    std::vector<Sum> sum(n);
    for (std::uint32_t m = first; m < first + count; ++m) {
        std::fill(sum.begin(), sum.end(), Sum{0});
        for (std::size_t tile = 0; tile < plan.k_tiles.size(); ++tile) {
            compile::unpack_output(layout, output + plan.output_offset(tile), m, 1, n,
                                   {partial.data(), n * sizeof(Partial)});
            for (std::uint32_t i = 0; i < n; ++i) {
                sum[i] += partial[i];
            }
        }
        float* row = y.data + m * y.stride;
        for (std::uint32_t i = 0; i < n; ++i) {
            row[i] = static_cast<float>(sum[i]) * row_scales[m] * kernel_scales[i];
        }
    }
}

}  // namespace

void reduce(const compile::Plan& plan, const std::byte* output, std::span<const float> kernel_scales,
            std::span<const float> row_scales, std::uint32_t first, std::uint32_t count, TargetView y) {
    if (plan.shape.output == rockchip::Precision::fp32) {
        reduce_as<float, float>(plan, output, kernel_scales, row_scales, first, count, y);
    } else {
        reduce_as<std::int32_t, std::int64_t>(plan, output, kernel_scales, row_scales, first, count, y);
    }
}

}  // namespace npu::gemm
