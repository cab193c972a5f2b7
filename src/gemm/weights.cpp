#include "gemm/weights.h"

#include <algorithm>

#include "base/float_bits.h"
#include "base/integers.h"
#include "compile/pack.h"
#include "compile/search.h"
#include "gemm/four_bits.h"
#include "gemm/hadamard.h"
#include "gemm/quantise.h"

namespace npu::gemm {

namespace {

using rockchip::Precision;

struct Tile {
    compile::KTile range;
    compile::WeightLayout layout;
    std::size_t offset;  // in the slice's memory
};

compile::PlanOptions tiling(const WeightsShape& shape, const rockchip::ChipProfile& chip) {
    compile::PlanOptions options;
    options.max_k = longest_k_tile(shape, chip);
    return options;
}

std::vector<compile::KTile> k_tiles(const WeightsShape& shape, const rockchip::ChipProfile& chip) {
    return compile::k_tiles(shape.k, info(shape.pipeline).input, chip, tiling(shape, chip));
}

std::vector<Tile> tiles_of(const std::vector<compile::KTile>& ranges, Precision precision, std::uint32_t channels) {
    const std::uint32_t kernels = compile::padded_kernels(precision, channels);
    std::vector<Tile> tiles;
    std::size_t offset = 0;
    for (const compile::KTile& range : ranges) {
        const compile::WeightLayout layout{precision, kernels, range.k};
        tiles.push_back({range, layout, offset});
        offset += layout.bytes();
    }
    return tiles;
}

// Inputs of the tile that exist: the last tile ends with the padding of K.
std::uint32_t real_k(const compile::KTile& tile, std::uint32_t k) { return std::min(tile.k, k - tile.k0); }

// Quantises one row into packed elements. `scale` is that of the row or of its first K tile; those of further tiles
// follow n entries apart.
void quantise(const WeightsShape& shape, const std::vector<compile::KTile>& ranges, const float* row, std::byte* packed,
              float* scale) {
    const Precision precision = info(shape.pipeline).input;
    // One row in the order of features is a plain row, which the kernels for activations write.
    const compile::FeatureLayout plain{precision, compile::Arrangement::native, 1,
                                       compile::padded_channels(precision, shape.k)};
    switch (precision) {
        case Precision::int8: quantise_and_tile(plain, {row, shape.k, 1}, 0, shape.k, packed, scale); return;
        case Precision::fp16: tile_half(plain, {row, shape.k, 1}, 0, shape.k, packed, scale); return;
        case Precision::bf16: *scale = quantise_row(precision, row, shape.k, packed); return;
        default: break;
    }
    for (const compile::KTile& range : ranges) {
        *scale = quantise_int4(row + range.k0, real_k(range, shape.k),
                               packed + compile::packed_bytes(Precision::int4, range.k0));
        scale += shape.n;
    }
}

}  // namespace

std::vector<Slice> slices(const WeightsShape& shape, std::uint32_t parts) {
    const std::uint32_t group = rockchip::info(info(shape.pipeline).input).kernels_per_group;
    const std::uint32_t groups = ceil_div(shape.n, group);
    std::vector<Slice> all;
    std::uint32_t first = 0;
    for (std::uint32_t part = 0; part < parts; ++part) {
        const std::uint32_t share = groups / parts + (part < groups % parts ? 1 : 0);
        const std::uint32_t count = std::min(share * group, shape.n - first);
        if (count != 0) {
            all.push_back({part, first, count});
        }
        first += count;
    }
    return all;
}

std::uint32_t longest_k_tile(const WeightsShape& shape, const rockchip::ChipProfile& chip) {
    const PipelineInfo& pipeline = info(shape.pipeline);
    return pipeline.longest_k != 0 ? pipeline.longest_k
                                   : compile::best_max_k(shape.n, shape.k, pipeline.input, pipeline.output, chip);
}

std::size_t k_tile_count(const WeightsShape& shape, const rockchip::ChipProfile& chip) {
    return k_tiles(shape, chip).size();
}

std::size_t resident_bytes(const WeightsShape& shape, const rockchip::ChipProfile& chip, std::uint32_t parts) {
    const std::vector<compile::KTile> ranges = k_tiles(shape, chip);
    std::size_t most = 0;
    for (const Slice& slice : slices(shape, parts)) {
        const std::vector<Tile> tiles = tiles_of(ranges, info(shape.pipeline).input, slice.count);
        most = std::max(most, tiles.empty() ? 0 : tiles.back().offset + tiles.back().layout.bytes());
    }
    return align_up<std::size_t>(most, 64);
}

Result<ResidentWeights> prepare_weights(const WeightsShape& shape, const RowReader& read_row, DeviceSpan span,
                                        const rockchip::ChipProfile& chip) {
    const auto parts = static_cast<std::uint32_t>(span.buffers.size());
    const std::size_t needed = resident_bytes(shape, chip, parts);
    if (needed == 0 || span.bytes < needed) {
        return make_error(ErrorCode::invalid_argument,
                          "weights of %u x %u (%s) need %zu bytes of device memory; %zu were given", shape.n, shape.k,
                          pipeline_name(shape.pipeline), needed, span.bytes);
    }
    const Precision precision = info(shape.pipeline).input;
    const std::vector<compile::KTile> ranges = k_tiles(shape, chip);
    const std::size_t scales_per_row = info(shape.pipeline).scale_per_tile ? ranges.size() : 1;
    ResidentWeights weights{shape, std::move(span), std::vector<float>(shape.n * scales_per_row), ranges.size()};

    // One kernel group at a time: its K floats per row are quantised and packed into every K tile.
    const std::uint32_t group = rockchip::info(precision).kernels_per_group;
    const std::uint32_t block = shape.rotated ? hadamard_block(shape.k) : 1;
    std::vector<float> row(shape.k);
    const std::size_t stride = compile::packed_bytes(precision, compile::padded_channels(precision, shape.k));
    std::vector<std::byte> quantised(group * stride);
    for (const Slice& slice : slices(shape, parts)) {
        const std::vector<Tile> tiles = tiles_of(ranges, precision, slice.count);
        std::byte* base = weights.span.buffers[slice.index]->data() + weights.span.offset;
        for (std::uint32_t first = 0; first < slice.count; first += group) {
            const std::uint32_t count = std::min(group, slice.count - first);
            for (std::uint32_t i = 0; i < count; ++i) {
                const std::uint32_t channel = slice.first + first + i;
                read_row(channel, row.data());
                rotate(row.data(), shape.k, block);
                quantise(shape, ranges, row.data(), quantised.data() + i * stride, &weights.scales[channel]);
            }
            for (const Tile& tile : tiles) {
                compile::pack_weights(tile.layout,
                                      {quantised.data() + compile::packed_bytes(precision, tile.range.k0), stride},
                                      first, count, real_k(tile.range, shape.k), base + tile.offset);
            }
        }
        NPU_TRY(weights.span.buffers[slice.index]->to_device(weights.span.offset, needed));
    }
    return weights;
}

std::vector<WeightTile> resident_tiles(const ResidentWeights& weights, const Slice& slice,
                                       const rockchip::ChipProfile& chip) {
    const std::byte* base = weights.span.buffers[slice.index]->data() + weights.span.offset;
    std::vector<WeightTile> resident;
    for (const Tile& tile : tiles_of(k_tiles(weights.shape, chip), info(weights.shape.pipeline).input, slice.count)) {
        resident.push_back({base + tile.offset, tile.range.k0, tile.range.k});
    }
    return resident;
}

std::vector<std::uint16_t> read_back_fp16(const ResidentWeights& weights, const rockchip::ChipProfile& chip) {
    const WeightsShape& shape = weights.shape;
    const std::vector<compile::KTile> ranges = k_tiles(shape, chip);
    std::vector<std::uint16_t> halves(std::size_t{shape.n} * shape.k);
    for (const Slice& slice : slices(shape, static_cast<std::uint32_t>(weights.span.buffers.size()))) {
        const std::byte* base = weights.span.buffers[slice.index]->data() + weights.span.offset;
        std::uint16_t* rows = halves.data() + std::size_t{slice.first} * shape.k;
        for (const Tile& tile : tiles_of(ranges, Precision::fp16, slice.count)) {
            compile::unpack_weights(tile.layout, base + tile.offset, 0, slice.count, real_k(tile.range, shape.k),
                                    {rows + tile.range.k0, std::size_t{shape.k} * 2});
        }
    }
    for (std::uint32_t row = 0; row < shape.n; ++row) {
        if (const float scale = weights.scales[row]; scale != 1.0F) {
            for (std::size_t i = std::size_t{row} * shape.k; i < std::size_t{row + 1} * shape.k; ++i) {
                halves[i] = float_to_half(half_to_float(halves[i]) * scale);
            }
        }
    }
    return halves;
}

}  // namespace npu::gemm
