#include "gemm/results.h"

#include <vector>

#include "compile/pack.h"
#include "gemm/kernels.h"

namespace npu::gemm {

namespace {

// 16-bit sums with a scale per tile. The rows of the high halves come first, then those of the low ones.
void read_scaled_tiles(const WeightsShape& shape, const compile::Plan& plan, const std::byte* output,
                       const float* kernel_scales, const float* row_scales, std::uint32_t first, std::uint32_t count,
                       TargetView y) {
    const compile::OutputLayout layout = plan.output_layout();
    const std::uint32_t n = plan.shape.n;
    const bool split = info(shape.pipeline).rows_per_row == 2;
    const std::uint32_t rows = plan.shape.m / info(shape.pipeline).rows_per_row;
    std::vector<std::int16_t> high(n);
    std::vector<std::int16_t> low(n, 0);
    std::vector<float> sum(n);
    for (std::uint32_t m = first; m < first + count; ++m) {
        sum.assign(n, 0.0F);
        for (std::size_t tile = 0; tile < plan.k_tiles.size(); ++tile) {
            const std::byte* partial = output + plan.result_offset(tile);
            compile::unpack_output(layout, partial, m, 1, n, {high.data(), n * sizeof(high[0])});
            if (split) {
                compile::unpack_output(layout, partial, rows + m, 1, n, {low.data(), n * sizeof(low[0])});
            }
            const float* scales = kernel_scales + tile * shape.n;
            for (std::uint32_t i = 0; i < n; ++i) {
                const std::int32_t whole = split ? 16 * high[i] + low[i] : high[i];
                sum[i] += static_cast<float>(whole) * scales[i];
            }
        }
        float* row = y.data + m * y.stride;
        for (std::uint32_t i = 0; i < n; ++i) {
            row[i] = sum[i] * row_scales[m];
        }
    }
}

}  // namespace

void read_results(const WeightsShape& shape, const compile::Plan& plan, const std::byte* output,
                  const float* kernel_scales, const float* row_scales, std::uint32_t first, std::uint32_t count,
                  TargetView y) {
    if (info(shape.pipeline).scale_per_tile) {
        read_scaled_tiles(shape, plan, output, kernel_scales, row_scales, first, count, y);
        return;
    }
    std::vector<const std::byte*> tiles;
    for (std::size_t tile = 0; tile < plan.result_tiles(); ++tile) {
        tiles.push_back(output + plan.result_offset(tile));
    }
    scale_and_untile({plan.output_layout(), tiles, plan.shape.k}, first, count, plan.shape.n, row_scales, kernel_scales,
                     y);
}

}  // namespace npu::gemm
