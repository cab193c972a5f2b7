#include "gemm/weights.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "base/float_bits.h"
#include "base/integers.h"
#include "compile/pack.h"
#include "compile/search.h"
#include "gemm/four_bits.h"
#include "gemm/hadamard.h"
#include "gemm/kernels_rows.h"
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

// Rows of 4-bit numbers: `scale` is that of the first K tile; those of further tiles follow n entries apart. row_from(k) is
// the row from channel k on.
template <typename RowFrom>
void quantise_tiles(const WeightsShape& shape, const std::vector<compile::KTile>& ranges, const RowFrom& row_from,
                    std::byte* packed, float* scale) {
    for (const compile::KTile& range : ranges) {
        *scale = quantise_int4(row_from(range.k0), real_k(range, shape.k),
                               packed + compile::packed_bytes(Precision::int4, range.k0));
        scale += shape.n;
    }
}

// Reads output channels and quantises each into packed elements, up to K.
class RowConverter {
  public:
    RowConverter(const WeightsShape& shape, const std::vector<compile::KTile>& ranges, const RowReader& read_row,
                 const BlockReader& read_blocks)
        : shape_(shape),
          ranges_(ranges),
          precision_(info(shape.pipeline).input),
          read_row_(read_row),
          read_blocks_(read_blocks) {
        const bool whole_numbers = precision_ == Precision::int8 || precision_ == Precision::int4;
        in_blocks_ = read_blocks && whole_numbers && !shape.rotated && shape.k % numbers_per_scale == 0;
        if (in_blocks_) {
            numbers_.resize(shape.k);
            scales_.resize(shape.k / numbers_per_scale);
            offsets_.resize(scales_.size());
        } else {
            row_.resize(shape.k);
        }
    }

    // `scale` is that of the row or of its first K tile; those of further tiles follow N entries apart.
    void convert(std::uint32_t channel, std::byte* packed, float* scale) {
        if (in_blocks_) {
            read_blocks_(channel, {numbers_.data(), scales_.data(), offsets_.data()});
            convert_blocks({numbers_.data(), scales_.data(), offsets_.data()}, packed, scale);
            return;
        }
        read_row_(channel, row_.data());
        if (shape_.rotated) {
            rotate(row_.data(), shape_.k, hadamard_block(shape_.k));
        }
        convert_floats(packed, scale);
    }

  private:
    void convert_blocks(BlockRow row, std::byte* packed, float* scale) {
        if (precision_ == Precision::int8) {
            *scale = quantise_values(largest_int8, row, shape_.k, reinterpret_cast<std::int8_t*>(packed));
        } else {
            quantise_tiles(
                shape_, ranges_, [&](std::uint32_t k0) { return row.from(k0); }, packed, scale);
        }
    }

    void convert_floats(std::byte* packed, float* scale) {
        switch (precision_) {
            case Precision::int8:
                *scale = quantise_values(largest_int8, row_.data(), shape_.k, reinterpret_cast<std::int8_t*>(packed));
                return;
            case Precision::fp16: {
                // One row in the order of features is a plain row, which the kernel for activations writes.
                const compile::FeatureLayout plain{precision_, compile::Arrangement::native, 1,
                                                   compile::padded_channels(precision_, shape_.k)};
                tile_half(plain, {row_.data(), shape_.k, 1}, 0, shape_.k, packed, scale);
                return;
            }
            case Precision::bf16: *scale = quantise_row(precision_, row_.data(), shape_.k, packed); return;
            default:
                quantise_tiles(
                    shape_, ranges_, [&](std::uint32_t k0) { return row_.data() + k0; }, packed, scale);
        }
    }

    const WeightsShape& shape_;
    const std::vector<compile::KTile>& ranges_;
    Precision precision_;
    const RowReader& read_row_;
    const BlockReader& read_blocks_;
    bool in_blocks_ = false;
    std::vector<float> row_;
    std::vector<std::int8_t> numbers_;
    std::vector<float> scales_;
    std::vector<float> offsets_;
};

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
    if (pipeline.longest_k != 0) {
        return pipeline.longest_k;
    }
    // The search takes some ten microseconds, and it is asked for again and again.
    using Key = std::tuple<const rockchip::ChipProfile*, Pipeline, std::uint32_t, std::uint32_t>;
    static std::mutex mutex;
    static std::map<Key, std::uint32_t> known;
    const std::lock_guard lock(mutex);
    const auto [entry, is_new] = known.try_emplace({&chip, shape.pipeline, shape.n, shape.k});
    if (is_new) {
        entry->second = compile::best_max_k(shape.n, shape.k, pipeline.input, pipeline.output, chip);
    }
    return entry->second;
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

Result<ResidentWeights> place_weights(const WeightsShape& shape, DeviceSpan span, const rockchip::ChipProfile& chip) {
    const std::size_t needed = resident_bytes(shape, chip, static_cast<std::uint32_t>(span.buffers.size()));
    if (needed == 0 || span.bytes < needed) {
        return make_error(ErrorCode::invalid_argument,
                          "weights of %u x %u (%s) need %zu bytes of device memory; %zu were given", shape.n, shape.k,
                          pipeline_name(shape.pipeline), needed, span.bytes);
    }
    span.bytes = needed;
    std::vector<compile::KTile> ranges = k_tiles(shape, chip);
    const std::size_t scales_per_row = info(shape.pipeline).scale_per_tile ? ranges.size() : 1;
    return ResidentWeights{shape, std::move(span), std::vector<float>(shape.n * scales_per_row), std::move(ranges)};
}

Result<void> convert_weights(ResidentWeights& weights, const RowReader& read_row, const BlockReader& read_blocks,
                             const Team& team) {
    const WeightsShape& shape = weights.shape;
    const Precision precision = info(shape.pipeline).input;
    // One kernel group at a time: its rows are quantised and packed into every K tile.
    const std::uint32_t group = rockchip::info(precision).kernels_per_group;
    // A cache line longer than a row: rows a power of two apart would all want the same few places of the nearest cache.
    const std::size_t stride = compile::packed_bytes(precision, compile::padded_channels(precision, shape.k)) + 64;
    for (const Slice& slice : slices(shape, static_cast<std::uint32_t>(weights.span.buffers.size()))) {
        const std::vector<Tile> tiles = tiles_of(weights.k_tiles, precision, slice.count);
        device::Buffer& buffer = *weights.span.buffers[slice.index];
        std::byte* base = buffer.data() + weights.span.offset;
        team([&](unsigned index, unsigned threads) {
            RowConverter rows(shape, weights.k_tiles, read_row, read_blocks);
            std::vector<std::byte> quantised(group * stride);
            for (std::uint32_t first = index * group; first < slice.count; first += threads * group) {
                const std::uint32_t count = std::min(group, slice.count - first);
                for (std::uint32_t i = 0; i < count; ++i) {
                    const std::uint32_t channel = slice.first + first + i;
                    rows.convert(channel, quantised.data() + i * stride, &weights.scales[channel]);
                }
                for (const Tile& tile : tiles) {
                    compile::pack_weights(tile.layout,
                                          {quantised.data() + compile::packed_bytes(precision, tile.range.k0), stride},
                                          first, count, real_k(tile.range, shape.k), base + tile.offset);
                }
            }
        });
        NPU_TRY(buffer.to_device(weights.span.offset, weights.span.bytes));
    }
    return {};
}

Result<ResidentWeights> prepare_weights(const WeightsShape& shape, const RowReader& read_row, DeviceSpan span,
                                        const rockchip::ChipProfile& chip, const BlockReader& read_blocks,
                                        const Team& team) {
    NPU_ASSIGN(ResidentWeights weights, place_weights(shape, std::move(span), chip));
    NPU_TRY(convert_weights(weights, read_row, read_blocks, team));
    return weights;
}

std::vector<WeightTile> resident_tiles(const ResidentWeights& weights, const Slice& slice) {
    const std::byte* base = weights.span.buffers[slice.index]->data() + weights.span.offset;
    std::vector<WeightTile> resident;
    for (const Tile& tile : tiles_of(weights.k_tiles, info(weights.shape.pipeline).input, slice.count)) {
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
