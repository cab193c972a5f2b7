// Weights that live on the device. Before the first multiplication a weight matrix is converted to the number format
// of its pipeline, cut into K tiles and written in the array's own order into device memory, once; from then on a
// multiplication only names its address. How K is cut depends on the weights and the chip alone, never on the batch, so
// the result of a row does not depend on how many rows are multiplied with it.
//
// Where each core has an address space of its own (the mainline driver), each space holds a slice of the output channels, in
// whole kernel groups, and multiplies it by itself. Where all cores share one, weights lie in one of the device's spaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/team.h"
#include "compile/plan.h"
#include "device/device.h"
#include "gemm/block_rows.h"
#include "gemm/kernels.h"
#include "gemm/pipeline.h"
#include "rockchip/chip.h"

namespace npu::gemm {

// N output channels of K inputs each, before padding.
struct WeightsShape {
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    Pipeline pipeline = Pipeline::fp16;
    bool rotated = false;  // K is rotated before it is quantised; activations must be, too
    friend bool operator==(const WeightsShape&, const WeightsShape&) = default;
};

// The output channels that lie in one address space.
struct Slice {
    std::uint32_t index = 0;  // among the slices of a matrix
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

// Every output channel in one slice; at most `parts` of them, none empty.
std::vector<Slice> slices(const WeightsShape& shape, std::uint32_t parts);

// The longest K tile of these weights: PlanOptions::max_k of every plan for them.
std::uint32_t longest_k_tile(const WeightsShape& shape, const rockchip::ChipProfile& chip);

// K tiles of these weights.
std::size_t k_tile_count(const WeightsShape& shape, const rockchip::ChipProfile& chip);

// A piece of device memory that somebody else owns: the same range of a buffer for each slice. The buffer of slice i lies in
// address space first_space + i.
struct DeviceSpan {
    std::vector<device::Buffer*> buffers;
    std::size_t offset = 0;
    std::size_t bytes = 0;
    std::uint32_t first_space = 0;
};

// Bytes that each slice takes, all K tiles one after another. A multiple of 64.
std::size_t resident_bytes(const WeightsShape& shape, const rockchip::ChipProfile& chip, std::uint32_t parts);

struct ResidentWeights {
    WeightsShape shape;
    DeviceSpan span;            // starts on a multiple of 64 bytes
    std::vector<float> scales;  // one per output channel; with scale_per_tile, N of the first K tile, then of the next
    std::vector<compile::KTile> k_tiles;  // in the order in which they lie
};

// Delivers the K floats of one output channel.
using RowReader = std::function<void(std::uint32_t row, float* destination)>;

// Weights that lie in `span` (at least resident_bytes long), with nothing written yet.
Result<ResidentWeights> place_weights(const WeightsShape& shape, DeviceSpan span, const rockchip::ChipProfile& chip);

// Converts the weights into the place they have and hands it to the device. Where `read_blocks`
// is given it must deliver the same values as read_row; it is preferred where that is faster and the bits are the same: for
// pipelines of 8 and 4 bits without rotation. The threads of the team share the output channels and call both readers at once.
Result<void> convert_weights(ResidentWeights& weights, const RowReader& read_row, const BlockReader& read_blocks = {},
                             const Team& team = work_alone);

// Both at once.
Result<ResidentWeights> prepare_weights(const WeightsShape& shape, const RowReader& read_row, DeviceSpan span,
                                        const rockchip::ChipProfile& chip, const BlockReader& read_blocks = {},
                                        const Team& team = work_alone);

// Where the K tiles of a slice lie: what the CPU multiplies from, too. Valid as long as the span's buffers.
std::vector<WeightTile> resident_tiles(const ResidentWeights& weights, const Slice& slice);

// The inverse for the fp16 pipeline: halves of all rows, [N][K], with scales undone. Exact when the weights were
// halves to begin with (NaN payloads excepted).
std::vector<std::uint16_t> read_back_fp16(const ResidentWeights& weights, const rockchip::ChipProfile& chip);

}  // namespace npu::gemm
