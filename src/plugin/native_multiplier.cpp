#include "plugin/native_multiplier.h"

#include <mutex>
#include <utility>

#include "base/integers.h"
#include "gemm/cpu_path.h"
#include "gemm/crossover.h"
#include "gemm/pack_cache.h"
#include "plugin/host_team.h"

namespace npu::plugin {

namespace {

const gemm::ResidentWeights& native(const ResidentTensor& tensor) {
    return std::get<gemm::ResidentWeights>(tensor.weights);
}

std::vector<gemm::Product> natives(std::span<const TensorProduct> products) {
    std::vector<gemm::Product> unwrapped;
    for (const TensorProduct& product : products) {
        unwrapped.push_back({&native(*product.tensor), product.y});
    }
    return unwrapped;
}

// Where each core has an address space, a buffer in each of them; a tensor's slices lie at its offset divided by their
// number.
class NativeMemory final : public WeightMemory {
  public:
    NativeMemory(std::vector<std::unique_ptr<device::Buffer>> buffers, std::uint32_t first_space,
                 const rockchip::ChipProfile& chip, const gemm::PackCache* cache, Statistics& statistics)
        : buffers_(std::move(buffers)),
          first_space_(first_space),
          chip_(chip),
          cache_(cache),
          statistics_(statistics) {}

    [[nodiscard]] std::byte* base() const override { return buffers_.front()->data(); }

    Result<ResidentTensor> convert(const gemm::WeightsShape& shape, const WeightSource& source,
                                   std::size_t offset) override {
        const auto parts = static_cast<std::uint32_t>(buffers_.size());
        gemm::DeviceSpan span{{}, offset / parts, gemm::resident_bytes(shape, chip_, parts), first_space_};
        for (const auto& buffer : buffers_) {
            span.buffers.push_back(buffer.get());
        }
        NPU_ASSIGN(gemm::ResidentWeights weights, gemm::place_weights(shape, std::move(span), chip_));
        if (cache_ == nullptr) {
            NPU_TRY(gemm::convert_weights(weights, source.rows, source.blocks, work_with_all));
            return ResidentTensor{std::move(weights)};
        }
        const gemm::PackKey key = gemm::pack_key(shape, source.type, source.bytes, chip_, parts);
        NPU_ASSIGN(const bool found, cache_->load(key, weights));
        if (!found) {
            NPU_TRY(gemm::convert_weights(weights, source.rows, source.blocks, work_with_all));
            cache_->store(key, weights);
        }
        statistics_.count_cached(found);
        return ResidentTensor{std::move(weights)};
    }

  private:
    std::vector<std::unique_ptr<device::Buffer>> buffers_;  // one per slice of a tensor
    std::uint32_t first_space_;
    const rockchip::ChipProfile& chip_;
    const gemm::PackCache* cache_;  // nullptr: none
    Statistics& statistics_;
};

class NativeMultiplier final : public Multiplier {
  public:
    NativeMultiplier(std::unique_ptr<uapi::Syscalls> simulated_kernel, std::unique_ptr<device::Device> device,
                     const gemm::EngineOptions& options, std::unique_ptr<gemm::PackCache> cache, Statistics& statistics)
        : simulated_kernel_(std::move(simulated_kernel)),
          device_(std::move(device)),
          cache_(std::move(cache)),
          engine_(*device_, options),
          programs_(options.programs),
          statistics_(statistics) {}

    [[nodiscard]] const std::string& description() const override { return device_->info().description; }
    [[nodiscard]] device::MemoryInfo memory() const override { return device_->memory(); }
    [[nodiscard]] bool has(gemm::Pipeline) const override { return true; }

    [[nodiscard]] std::size_t weight_bytes(const gemm::WeightsShape& shape) const override {
        return gemm::resident_bytes(shape, engine_.chip(), engine_.parts()) * engine_.parts();
    }

    // Whole alignments for every slice, so that a tensor's offset is one in each of them, too.
    [[nodiscard]] std::size_t granularity() const override { return weight_alignment * engine_.parts(); }

    // In the first address space that has room. ggml asks layer by layer, so a graph visits each space once.
    Result<std::unique_ptr<WeightMemory>> allocate(std::size_t bytes) override {
        const std::uint32_t choices = device_->spaces() - engine_.parts() + 1;
        for (std::uint32_t space = 0;; ++space) {
            auto memory = allocate_from(space, bytes);
            if (memory || space + 1 == choices || memory.error().code != ErrorCode::out_of_memory) {
                return memory;
            }
        }
    }

    [[nodiscard]] std::vector<std::uint16_t> read_back_fp16(const ResidentTensor& tensor) const override {
        return gemm::read_back_fp16(native(tensor), engine_.chip());
    }
    [[nodiscard]] bool reads_back_fp16() const override { return true; }

    Result<void> multiply(std::span<const TensorProduct> products, gemm::RowsView x) override {
        const std::vector<gemm::Product> unwrapped = natives(products);
        NPU_ASSIGN(const gemm::MultiplyReport report, engine_.multiply(unwrapped, x));
        statistics_.count_submissions(report);
        statistics_.profile().add(unwrapped, x.rows, report);
        return {};
    }

    std::uint32_t fewest_rows(std::span<const gemm::WeightsShape> shapes) override {
        const std::lock_guard lock(crossover_mutex_);
        return crossover_.rows(*device_, shapes, programs_);
    }

    [[nodiscard]] bool runs_on_cpu(gemm::Pipeline pipeline) const override { return gemm::runs_on_cpu(pipeline); }

    void multiply_share_on_cpu(std::span<const TensorProduct> products, gemm::RowsView x, unsigned index,
                               unsigned count) override {
        gemm::multiply_share_on_cpu(natives(products), x, index, count);
    }

    Result<void> with_transient(const gemm::WeightsShape& shape, const gemm::RowReader& read_row,
                                const std::function<Result<void>(const Multiply&)>& use) override {
        statistics_.count_late_upload(gemm::resident_bytes(shape, engine_.chip(), engine_.parts()));
        return engine_.with_transient(shape, read_row, [&](const gemm::Engine::Multiply& multiply) {
            return use([&](gemm::RowsView x, gemm::TargetView y) -> Result<void> {
                NPU_ASSIGN(const gemm::MultiplyReport report, multiply(x, y));
                statistics_.count_submissions(report);
                return {};
            });
        });
    }

  private:
    Result<std::unique_ptr<WeightMemory>> allocate_from(std::uint32_t first_space, std::size_t bytes) {
        const std::uint32_t parts = engine_.parts();
        std::vector<std::unique_ptr<device::Buffer>> buffers;
        for (std::uint32_t part = 0; part < parts; ++part) {
            NPU_ASSIGN(auto buffer, device_->allocate(ceil_div<std::size_t>(bytes, parts), first_space + part));
            buffers.push_back(std::move(buffer));
        }
        return std::unique_ptr<WeightMemory>(
            std::make_unique<NativeMemory>(std::move(buffers), first_space, engine_.chip(), cache_.get(), statistics_));
    }

    std::unique_ptr<uapi::Syscalls> simulated_kernel_;  // outlives the device
    std::unique_ptr<device::Device> device_;
    std::unique_ptr<gemm::PackCache> cache_;
    gemm::Engine engine_;
    gemm::ProgramOptions programs_;
    std::mutex crossover_mutex_;
    gemm::Crossover crossover_;
    Statistics& statistics_;
};

}  // namespace

std::unique_ptr<Multiplier> make_native_multiplier(std::unique_ptr<uapi::Syscalls> simulated_kernel,
                                                   std::unique_ptr<device::Device> device,
                                                   const gemm::EngineOptions& options,
                                                   std::unique_ptr<gemm::PackCache> cache, Statistics& statistics) {
    return std::make_unique<NativeMultiplier>(std::move(simulated_kernel), std::move(device), options, std::move(cache),
                                              statistics);
}

}  // namespace npu::plugin
