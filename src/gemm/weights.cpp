#include "gemm/weights.h"

#include <algorithm>

#include "base/float_bits.h"
#include "base/integers.h"
#include "compile/pack.h"

namespace npu::gemm {

namespace {

using rockchip::Precision;

struct Tile {
    compile::KTile range;
    compile::WeightLayout layout;
    std::size_t offset;  // in the resident span
};

std::vector<Tile> tiles_of(const WeightsShape& shape, const rockchip::ChipProfile& chip) {
    const Precision precision = input_precision(shape.pipeline);
    const std::uint32_t kernels = compile::padded_kernels(precision, shape.n);
    std::vector<Tile> tiles;
    std::size_t offset = 0;
    for (const compile::KTile& range : compile::k_tiles(shape.k, precision, chip, plan_options())) {
        const compile::WeightLayout layout{precision, kernels, range.k};
        tiles.push_back({range, layout, offset});
        offset += layout.bytes();
    }
    return tiles;
}

// Inputs of the tile that exist: the last tile ends with the padding of K.
std::uint32_t real_k(const Tile& tile, std::uint32_t k) { return std::min(tile.range.k, k - tile.range.k0); }

}  // namespace

compile::PlanOptions plan_options() {
    compile::PlanOptions options;
    // A full-length K leaves the convolution buffer room for few rows, and the weights are streamed again for each
    // handful: at M = 512, K = 8192, N = 4096 the timing model gives 74 ms (int8) and 218 ms (fp16) without a limit,
    // 9 and 27 ms with this one. The partial sums that it costs are small beside the weights even at M = 1.
    options.max_k = 2048;
    return options;
}

Precision input_precision(Pipeline pipeline) { return pipeline == Pipeline::fp16 ? Precision::fp16 : Precision::int8; }

Precision output_precision(Pipeline pipeline) {
    return pipeline == Pipeline::fp16 ? Precision::fp32 : Precision::int32;
}

std::size_t resident_bytes(const WeightsShape& shape, const rockchip::ChipProfile& chip) {
    const std::vector<Tile> tiles = tiles_of(shape, chip);
    return tiles.empty() ? 0 : align_up<std::size_t>(tiles.back().offset + tiles.back().layout.bytes(), 64);
}

Result<ResidentWeights> prepare_weights(const WeightsShape& shape, const RowReader& read_row, DeviceSpan span,
                                        const rockchip::ChipProfile& chip) {
    const std::size_t needed = resident_bytes(shape, chip);
    if (needed == 0 || span.bytes < needed) {
        return make_error(ErrorCode::invalid_argument,
                          "weights of %u x %u (%s) need %zu bytes of device memory; %zu were given", shape.n, shape.k,
                          pipeline_name(shape.pipeline), needed, span.bytes);
    }
    ResidentWeights weights{shape, span, std::vector<float>(shape.n)};
    const std::vector<Tile> tiles = tiles_of(shape, chip);
    const std::uint32_t element = compile::element_bytes(input_precision(shape.pipeline));
    const std::uint32_t group = rockchip::info(input_precision(shape.pipeline)).kernels_per_group;

    // One kernel group at a time: its K floats per row are quantised and packed into every K tile.
    std::vector<float> row(shape.k);
    const std::size_t stride = std::size_t{shape.k} * element;
    std::vector<std::byte> quantised(group * stride);
    std::byte* base = span.buffer->data() + span.offset;
    for (std::uint32_t first = 0; first < shape.n; first += group) {
        const std::uint32_t count = std::min(group, shape.n - first);
        for (std::uint32_t i = 0; i < count; ++i) {
            read_row(first + i, row.data());
            weights.scales[first + i] =
                quantise_row(shape.pipeline, row.data(), shape.k, quantised.data() + i * stride);
        }
        for (const Tile& tile : tiles) {
            compile::pack_weights(tile.layout, {quantised.data() + std::size_t{tile.range.k0} * element, stride}, first,
                                  count, real_k(tile, shape.k), base + tile.offset);
        }
    }
    NPU_TRY(span.buffer->to_device(span.offset, needed));
    return weights;
}

std::vector<WeightTile> resident_tiles(const ResidentWeights& weights, const rockchip::ChipProfile& chip) {
    std::vector<WeightTile> tiles;
    for (const Tile& tile : tiles_of(weights.shape, chip)) {
        const std::byte* data = weights.span.buffer->data() + weights.span.offset + tile.offset;
        tiles.push_back({data, tile.range.k0, tile.range.k});
    }
    return tiles;
}

std::vector<std::uint16_t> read_back_fp16(const ResidentWeights& weights, const rockchip::ChipProfile& chip) {
    const auto [n, k, pipeline] = weights.shape;
    std::vector<std::uint16_t> halves(std::size_t{n} * k);
    for (const Tile& tile : tiles_of(weights.shape, chip)) {
        compile::unpack_weights(tile.layout, weights.span.buffer->data() + weights.span.offset + tile.offset, 0, n,
                                real_k(tile, k), {halves.data() + tile.range.k0, std::size_t{k} * 2});
    }
    for (std::uint32_t row = 0; row < n; ++row) {
        if (const float scale = weights.scales[row]; scale != 1.0F) {
            for (std::size_t i = std::size_t{row} * k; i < std::size_t{row + 1} * k; ++i) {
                halves[i] = float_to_half(half_to_float(halves[i]) * scale);
            }
        }
    }
    return halves;
}

}  // namespace npu::gemm
