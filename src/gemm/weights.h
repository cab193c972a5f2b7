// Weights that live on the device. Before the first multiplication a weight matrix is converted to the number format
// of its pipeline, cut into K tiles and written in the array's own order into device memory, once; from then on a
// multiplication only names its address. How K is cut depends on K and the precision alone, never on the batch, so
// the result of a row does not depend on how many rows are multiplied with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "compile/plan.h"
#include "device/device.h"
#include "gemm/kernels.h"
#include "gemm/quantise.h"
#include "rockchip/chip.h"

namespace npu::gemm {

// N output channels of K inputs each, before padding.
struct WeightsShape {
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    Pipeline pipeline = Pipeline::fp16;
};

// The options every plan of this engine is made with. Weights are laid out by them, so they are one for all.
compile::PlanOptions plan_options();

rockchip::Precision input_precision(Pipeline pipeline);
rockchip::Precision output_precision(Pipeline pipeline);

// A piece of device memory that somebody else owns.
struct DeviceSpan {
    device::Buffer* buffer = nullptr;
    std::size_t offset = 0;
    std::size_t bytes = 0;
};

// Bytes that the weights take on the device, all K tiles one after another. A multiple of 64.
std::size_t resident_bytes(const WeightsShape& shape, const rockchip::ChipProfile& chip);

struct ResidentWeights {
    WeightsShape shape;
    DeviceSpan span;            // starts on a multiple of 64 bytes
    std::vector<float> scales;  // one per output channel
};

// Delivers the K floats of one output channel.
using RowReader = std::function<void(std::uint32_t row, float* destination)>;

// Converts and writes the weights into `span` (at least resident_bytes long) and hands it to the device.
Result<ResidentWeights> prepare_weights(const WeightsShape& shape, const RowReader& read_row, DeviceSpan span,
                                        const rockchip::ChipProfile& chip);

// Where the K tiles of resident weights lie: what the CPU multiplies from, too. Valid as long as the span's buffer.
std::vector<WeightTile> resident_tiles(const ResidentWeights& weights, const rockchip::ChipProfile& chip);

// The inverse for the fp16 pipeline: halves of all rows, [N][K], with scales undone. Exact when the weights were
// halves to begin with (NaN payloads excepted).
std::vector<std::uint16_t> read_back_fp16(const ResidentWeights& weights, const rockchip::ChipProfile& chip);

}  // namespace npu::gemm
