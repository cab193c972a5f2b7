// Who multiplies. The plugin has two engines for the same product of float rows and weights that were converted once: the
// native one (gemm/engine.h), whose programs go to a kernel driver or to the simulated NPU, and the one over Rockchip's closed
// librknnrt (gemm/rknn_engine.h), which talks to the driver by itself. Everything in the plugin that depends on which it is
// goes through these two classes: where weights lie, what is counted, what the device calls itself.
//
// The option GGML_NPU_ENGINE decides, once per process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "gemm/rknn_engine.h"
#include "gemm/rows.h"
#include "gemm/weights.h"

namespace npu::plugin {

// Of tensors in ggml's buffers, and of what lies behind them in NPU memory. In bytes.
constexpr std::size_t weight_alignment = 64;

// The weights of a tensor as the engine holds them. Movable; must not outlive the WeightMemory that converted them.
struct ResidentTensor {
    std::variant<gemm::ResidentWeights, gemm::RknnWeights> weights;

    [[nodiscard]] const gemm::WeightsShape& shape() const {
        return std::visit([](const auto& held) -> const gemm::WeightsShape& { return held.shape; }, weights);
    }
};

// Rows of a tensor: as floats, and as blocks of whole numbers where its type has them (gemm/block_rows.h). And what they are
// read from, the tensor's bytes, with the name of their type.
struct WeightSource {
    gemm::RowReader rows;
    gemm::BlockReader blocks;
    std::span<const std::byte> bytes;
    const char* type = "";
};

// Where the weights of one ggml buffer live.
class WeightMemory {
  public:
    virtual ~WeightMemory() = default;

    // The addresses that ggml sees, as many as the buffer has bytes: nothing is ever read or written through them.
    [[nodiscard]] virtual std::byte* base() const = 0;

    // Converts the weights of the tensor that begins `offset` bytes after the base, a multiple of Multiplier::granularity().
    virtual Result<ResidentTensor> convert(const gemm::WeightsShape& shape, const WeightSource& source,
                                           std::size_t offset) = 0;
};

// A matrix and where its product with the activations goes: rows of N floats.
struct TensorProduct {
    const ResidentTensor* tensor = nullptr;
    gemm::TargetView y;
};

// Thread-safe; what is counted goes to the statistics of the device.
class Multiplier {
  public:
    virtual ~Multiplier() = default;

    [[nodiscard]] virtual const std::string& description() const = 0;
    [[nodiscard]] virtual device::MemoryInfo memory() const = 0;

    // Whether it computes this pipeline here. The answer never changes.
    [[nodiscard]] virtual bool has(gemm::Pipeline pipeline) const = 0;

    // Bytes of NPU memory that these weights take.
    [[nodiscard]] virtual std::size_t weight_bytes(const gemm::WeightsShape& shape) const = 0;
    // What sizes of tensors in a buffer, and so their offsets, are multiples of; itself one of weight_alignment.
    [[nodiscard]] virtual std::size_t granularity() const = 0;
    // Error out_of_memory when weights of so many bytes have no room.
    virtual Result<std::unique_ptr<WeightMemory>> allocate(std::size_t bytes) = 0;
    // The halves, [N][K], that fp16 weights were converted from, bit for bit but for NaNs. Empty: it cannot say.
    [[nodiscard]] virtual std::vector<std::uint16_t> read_back_fp16(const ResidentTensor& tensor) const = 0;
    [[nodiscard]] virtual bool reads_back_fp16() const = 0;

    // Multiplies x.rows rows by every matrix; they agree in K, pipeline and rotation. After an error the results are
    // undefined, and the next call works if the NPU does.
    virtual Result<void> multiply(std::span<const TensorProduct> products, gemm::RowsView x) = 0;

    // From how many rows on the NPU multiplies matrices of these shapes, which share their activations: for fewer, the CPU is
    // predicted to be faster.
    virtual std::uint32_t fewest_rows(std::span<const gemm::WeightsShape> shapes) = 0;

    // The same results from the CPU, for the pipelines of gemm/cpu_path.h: the share of thread `index` of `count`. Only
    // where runs_on_cpu() says so.
    [[nodiscard]] virtual bool runs_on_cpu(gemm::Pipeline pipeline) const = 0;
    virtual void multiply_share_on_cpu(std::span<const TensorProduct> products, gemm::RowsView x, unsigned index,
                                       unsigned count) = 0;

    // Converts weights for the length of the call and hands `use` a function that multiplies with them.
    using Multiply = std::function<Result<void>(gemm::RowsView x, gemm::TargetView y)>;
    virtual Result<void> with_transient(const gemm::WeightsShape& shape, const gemm::RowReader& read_row,
                                        const std::function<Result<void>(const Multiply&)>& use) = 0;
};

}  // namespace npu::plugin
