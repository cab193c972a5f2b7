#include "gemm/cpu_path.h"

#include <algorithm>
#include <vector>

#include "base/integers.h"
#include "gemm/four_bits.h"
#include "gemm/hadamard.h"
#include "gemm/kernels.h"
#include "gemm/kernels_rows.h"
#include "gemm/quantise.h"

namespace npu::gemm {

namespace {

// The values that the array would multiply, as int8, and the scale of each row.
struct Quantised {
    std::vector<std::int8_t> values;
    std::vector<float> scales;
};

// What the numbers of a row of activations are bounded by. The array gets those of w4a8 as two rows of 4 bits.
int largest_activation(Pipeline pipeline) {
    switch (pipeline) {
        case Pipeline::int8: return largest_int8;
        case Pipeline::w4a8: return largest_split;
        default: return largest_activation4;
    }
}

Quantised quantise(const WeightsShape& shape, RowsView x) {
    Quantised quantised{std::vector<std::int8_t>(std::size_t{x.rows} * shape.k), std::vector<float>(x.rows)};
    std::vector<float> row(shape.k);
    for (std::uint32_t m = 0; m < x.rows; ++m) {
        std::copy_n(x.data + m * x.stride, shape.k, row.begin());
        if (shape.rotated) {
            rotate(row.data(), shape.k, hadamard_block(shape.k));
        }
        quantised.scales[m] = quantise_values(largest_activation(shape.pipeline), row.data(), shape.k,
                                              quantised.values.data() + std::size_t{m} * shape.k);
    }
    return quantised;
}

// Calls the kernel for shares of the slice's kernel groups.
void multiply_groups(const WeightTiles& weights, const QuantisedRows& x, TargetView y, const Team& team) {
    const std::uint32_t groups = ceil_div(weights.n, kernels_per_group(weights));
    team([&](unsigned index, unsigned count) {
        const auto first = static_cast<std::uint32_t>(std::uint64_t{groups} * index / count);
        const auto last = static_cast<std::uint32_t>(std::uint64_t{groups} * (index + 1) / count);
        if (first != last) {
            multiply_on_cpu(weights, first, last - first, x, y);
        }
    });
}

}  // namespace

bool runs_on_cpu(Pipeline pipeline) {
    return pipeline == Pipeline::int8 || pipeline == Pipeline::w4a8 || pipeline == Pipeline::int4;
}

Result<void> multiply_resident_on_cpu(const ResidentWeights& weights, RowsView x, TargetView y,
                                      const rockchip::ChipProfile& chip, const Team& team) {
    const WeightsShape& shape = weights.shape;
    if (!runs_on_cpu(shape.pipeline)) {
        return make_error(ErrorCode::unsupported,
                          "%s weights are multiplied on the NPU only: int8, w4a8 and int4 run "
                          "on the CPU, too",
                          pipeline_name(shape.pipeline));
    }
    const Quantised quantised = quantise(shape, x);
    const std::vector<float> ones(x.rows, 1.0F);
    for (const Slice& slice : slices(shape, static_cast<std::uint32_t>(weights.span.buffers.size()))) {
        const std::vector<WeightTile> tiles = resident_tiles(weights, slice, chip);
        const float* scales = weights.scales.data() + slice.first;
        const rockchip::Precision precision = info(shape.pipeline).input;
        const TargetView target{y.data + slice.first, y.stride};
        if (!info(shape.pipeline).scale_per_tile) {
            multiply_groups({precision, slice.count, shape.k, tiles, scales},
                            {quantised.values.data(), shape.k, x.rows, quantised.scales.data()}, target, team);
            continue;
        }
        std::vector<float> sums(std::size_t{x.rows} * slice.count, 0.0F);
        std::vector<float> partial(sums.size());
        for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
            multiply_groups(
                {precision, slice.count, shape.k, std::span(tiles).subspan(tile, 1), scales + tile * shape.n},
                {quantised.values.data(), shape.k, x.rows, ones.data()}, {partial.data(), slice.count}, team);
            std::transform(sums.begin(), sums.end(), partial.begin(), sums.begin(), std::plus<>());
        }
        for (std::uint32_t m = 0; m < x.rows; ++m) {
            for (std::uint32_t i = 0; i < slice.count; ++i) {
                target.data[m * target.stride + i] = sums[std::size_t{m} * slice.count + i] * quantised.scales[m];
            }
        }
    }
    return {};
}

}  // namespace npu::gemm
