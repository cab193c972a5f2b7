#include "gemm/activations.h"

#include <algorithm>
#include <vector>

#include "compile/pack.h"
#include "gemm/four_bits.h"
#include "gemm/hadamard.h"
#include "gemm/kernels.h"
#include "gemm/quantise.h"

namespace npu::gemm {

namespace {

// Packed rows, which go to the layout by the generic kernel.
void write_packed(const WeightsShape& shape, const compile::FeatureLayout& layout, RowsView x, std::uint32_t first,
                  std::uint32_t rows, std::byte* device, float* scales) {
    thread_local std::vector<std::byte> packed;
    const std::size_t stride = compile::packed_bytes(layout.precision, shape.k);
    packed.resize(stride * x.rows * 2);
    std::byte* lower = packed.data() + stride * x.rows;
    for (std::uint32_t i = 0; i < x.rows; ++i) {
        const float* row = x.data + i * x.stride;
        std::byte* to = packed.data() + i * stride;
        switch (shape.pipeline) {
            case Pipeline::w4a8: scales[i] = quantise_split(row, shape.k, to, lower + i * stride); break;
            case Pipeline::int4: scales[i] = quantise_int4(row, shape.k, to); break;
            default: scales[i] = quantise_row(layout.precision, row, shape.k, to); break;
        }
    }
    compile::pack_features(layout, {packed.data(), stride}, first, x.rows, shape.k, device);
    if (shape.pipeline == Pipeline::w4a8) {
        compile::pack_features(layout, {lower, stride}, rows + first, x.rows, shape.k, device);
    }
}

}  // namespace

void write_activations(const WeightsShape& shape, const compile::FeatureLayout& layout, RowsView x, std::uint32_t first,
                       std::uint32_t count, std::byte* device, float* scales) {
    thread_local std::vector<float> rotated;
    RowsView rows{x.data + first * x.stride, x.stride, count};
    if (shape.rotated) {
        rotated.resize(std::size_t{count} * shape.k);
        for (std::uint32_t i = 0; i < count; ++i) {
            float* row =
                std::copy_n(rows.data + i * rows.stride, shape.k, rotated.data() + std::size_t{i} * shape.k) - shape.k;
            rotate(row, shape.k, hadamard_block(shape.k));
        }
        rows = {rotated.data(), shape.k, count};
    }
    switch (shape.pipeline) {
        case Pipeline::int8:
        case Pipeline::int8n: quantise_and_tile(layout, rows, first, shape.k, device, scales + first); break;
        case Pipeline::fp16: tile_half(layout, rows, first, shape.k, device, scales + first); break;
        default: write_packed(shape, layout, rows, first, x.rows, device, scales + first); break;
    }
}

}  // namespace npu::gemm
