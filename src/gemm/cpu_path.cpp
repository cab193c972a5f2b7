#include "gemm/cpu_path.h"

#include <algorithm>
#include <functional>
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

// The array gets those of w4a8 as two rows of 4 bits.
float quantise(Pipeline pipeline, const float* row, std::uint32_t k, std::int8_t* values) {
    switch (pipeline) {
        case Pipeline::int8: return quantise_values(largest_int8, row, k, values);
        case Pipeline::w4a8: return quantise_values(largest_split, row, k, values);
        default: return quantise_to_four_bits(row, k, values);
    }
}

// Into memory that the thread keeps.
void quantise(const WeightsShape& shape, RowsView x, Quantised& quantised) {
    thread_local std::vector<float> rotated;
    quantised.values.resize(std::size_t{x.rows} * shape.k);
    quantised.scales.resize(x.rows);
    for (std::uint32_t m = 0; m < x.rows; ++m) {
        const float* row = x.data + m * x.stride;
        if (shape.rotated) {
            rotated.assign(row, row + shape.k);
            rotate(rotated.data(), shape.k, hadamard_block(shape.k));
            row = rotated.data();
        }
        quantised.scales[m] =
            quantise(shape.pipeline, row, shape.k, quantised.values.data() + std::size_t{m} * shape.k);
    }
}

struct Groups {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

// Sums with a scale for each K tile, added tile by tile.
void multiply_scaled_tiles(const WeightTiles& weights, std::size_t scale_stride, Groups groups, const QuantisedRows& x,
                           TargetView y) {
    thread_local std::vector<float> ones;
    thread_local std::vector<float> partial;
    ones.assign(x.rows, 1.0F);
    partial.resize(std::size_t{x.rows} * weights.n);
    const std::uint32_t first = groups.first * kernels_per_group(weights);
    const std::uint32_t last = std::min(weights.n, (groups.first + groups.count) * kernels_per_group(weights));
    const QuantisedRows unscaled{x.values, x.stride, x.rows, ones.data()};
    for (std::size_t tile = 0; tile < weights.tiles.size(); ++tile) {
        multiply_on_cpu({weights.precision, weights.n, weights.k, weights.tiles.subspan(tile, 1),
                         weights.scales + tile * scale_stride},
                        groups.first, groups.count, unscaled, {partial.data(), weights.n});
        for (std::uint32_t m = 0; m < x.rows; ++m) {
            const float* from = partial.data() + std::size_t{m} * weights.n;
            float* to = y.data + m * y.stride;
            for (std::uint32_t i = first; i < last; ++i) {
                to[i] = tile == 0 ? from[i] : to[i] + from[i];
            }
        }
    }
    for (std::uint32_t m = 0; m < x.rows; ++m) {
        for (std::uint32_t i = first; i < last; ++i) {
            y.data[m * y.stride + i] *= x.scales[m];
        }
    }
}

// Calls `work` for every slice of every matrix, with the matrix's tiles.
void for_each_slice(std::span<const Product> products, const std::function<void(const Product&, const Slice&)>& work) {
    for (const Product& product : products) {
        for (const Slice& slice :
             slices(product.weights->shape, static_cast<std::uint32_t>(product.weights->span.buffers.size()))) {
            work(product, slice);
        }
    }
}

std::uint32_t groups_of(const Product& product, const Slice& slice) {
    return ceil_div<std::uint32_t>(slice.count,
                                   rockchip::info(info(product.weights->shape.pipeline).input).kernels_per_group);
}

}  // namespace

void multiply_share_on_cpu(std::span<const Product> products, RowsView x, unsigned index, unsigned count) {
    std::uint32_t all_groups = 0;
    for_each_slice(products,
                   [&](const Product& product, const Slice& slice) { all_groups += groups_of(product, slice); });
    const auto begin = static_cast<std::uint32_t>(std::uint64_t{all_groups} * index / count);
    const auto end = static_cast<std::uint32_t>(std::uint64_t{all_groups} * (index + 1) / count);
    if (begin == end) {
        return;
    }
    thread_local Quantised quantised;
    quantise(products.front().weights->shape, x, quantised);
    std::uint32_t at = 0;
    for_each_slice(products, [&](const Product& product, const Slice& slice) {
        const WeightsShape& shape = product.weights->shape;
        const std::uint32_t groups = groups_of(product, slice);
        const std::uint32_t first = std::clamp(begin, at, at + groups) - at;
        const std::uint32_t last = std::clamp(end, at, at + groups) - at;
        at += groups;
        if (first == last) {
            return;
        }
        const std::vector<WeightTile> tiles = resident_tiles(*product.weights, slice);
        const WeightTiles weights{info(shape.pipeline).input, slice.count, shape.k, tiles,
                                  product.weights->scales.data() + slice.first};
        const QuantisedRows rows{quantised.values.data(), shape.k, x.rows, quantised.scales.data()};
        const TargetView y{product.y.data + slice.first, product.y.stride};
        if (info(shape.pipeline).scale_per_tile) {
            multiply_scaled_tiles(weights, shape.n, {first, last - first}, rows, y);
        } else {
            multiply_on_cpu(weights, first, last - first, rows, y);
        }
    });
}

bool runs_on_cpu(Pipeline pipeline) {
    return pipeline == Pipeline::int8 || pipeline == Pipeline::w4a8 || pipeline == Pipeline::int4;
}

Result<void> multiply_resident_on_cpu(std::span<const Product> products, RowsView x, const Team& team) {
    for (const Product& product : products) {
        if (!runs_on_cpu(product.weights->shape.pipeline)) {
            return make_error(ErrorCode::unsupported,
                              "%s weights are multiplied on the NPU only: int8, w4a8 and int4 run "
                              "on the CPU, too",
                              pipeline_name(product.weights->shape.pipeline));
        }
    }
    team([&](unsigned index, unsigned count) { multiply_share_on_cpu(products, x, index, count); });
    return {};
}

}  // namespace npu::gemm
