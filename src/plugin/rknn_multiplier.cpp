#include "plugin/rknn_multiplier.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"
#include "compile/layout.h"
#include "device/board.h"
#include "device/host_memory.h"
#include "plugin/host_team.h"

namespace npu::plugin {

namespace {

// Addresses that nobody else has, without memory behind them: an access that should not happen ends the process.
class Addresses {
  public:
    static Result<std::unique_ptr<Addresses>> reserve(std::size_t bytes) {
        void* const base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
            return make_error(ErrorCode::out_of_memory,
                              "no %zu addresses are free for a buffer of weights (%s): raise `ulimit -v`", bytes,
                              std::strerror(errno));
        }
        return std::unique_ptr<Addresses>(new Addresses(base, bytes));
    }
    ~Addresses() { munmap(base_, bytes_); }
    Addresses(const Addresses&) = delete;
    Addresses& operator=(const Addresses&) = delete;

    [[nodiscard]] std::byte* base() const { return static_cast<std::byte*>(base_); }

  private:
    Addresses(void* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
    void* base_;
    std::size_t bytes_;
};

using Reservation = std::shared_ptr<void>;  // gives bytes back when it goes

class RknnMemory final : public WeightMemory {
  public:
    RknnMemory(gemm::RknnEngine& engine, std::unique_ptr<Addresses> addresses, Reservation reservation)
        : engine_(engine), addresses_(std::move(addresses)), reservation_(std::move(reservation)) {}

    [[nodiscard]] std::byte* base() const override { return addresses_->base(); }

    Result<ResidentTensor> convert(const gemm::WeightsShape& shape, const WeightSource& source, std::size_t) override {
        NPU_ASSIGN(gemm::RknnWeights weights, engine_.prepare(shape, source.rows));
        return ResidentTensor{std::move(weights)};
    }

  private:
    gemm::RknnEngine& engine_;
    std::unique_ptr<Addresses> addresses_;
    Reservation reservation_;
};

std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

std::string describe(const gemm::RknnEngine& engine) {
    const auto chip = device::board_chip();
    return format("Rockchip %s (librknnrt %s, driver %s)", chip ? std::string((*chip)->name).c_str() : "NPU",
                  first_word(engine.version().text).c_str(), first_word(engine.driver()).c_str());
}

class RknnMultiplier final : public Multiplier {
  public:
    RknnMultiplier(std::unique_ptr<gemm::RknnEngine> engine, std::size_t capacity, Statistics& statistics)
        : engine_(std::move(engine)),
          description_(describe(*engine_)),
          capacity_(capacity),
          reserved_(std::make_shared<std::atomic<std::size_t>>(0)),
          statistics_(statistics) {}

    [[nodiscard]] const std::string& description() const override { return description_; }

    [[nodiscard]] device::MemoryInfo memory() const override {
        const device::MemoryInfo host = device::host_memory();
        const std::size_t total = std::min(host.total, capacity_);
        return {total, std::min(host.free, total - std::min(total, reserved_->load()))};
    }

    [[nodiscard]] bool has(gemm::Pipeline pipeline) const override { return engine_->check_pipeline(pipeline).ok(); }

    // Pieces are whole blocks, so that how they are cut does not show.
    [[nodiscard]] std::size_t weight_bytes(const gemm::WeightsShape& shape) const override {
        const rockchip::Precision input = info(shape.pipeline).input;
        return compile::WeightLayout{input, compile::padded_kernels(input, shape.n),
                                     compile::padded_channels(input, shape.k)}
            .bytes();
    }
    [[nodiscard]] std::size_t granularity() const override { return weight_alignment; }

    // The library is asked tensor by tensor, when they are set and nobody can be told that there is no room: so that is found
    // out here.
    Result<std::unique_ptr<WeightMemory>> allocate(std::size_t bytes) override {
        const std::size_t taken = reserved_->fetch_add(bytes);
        Reservation reservation(nullptr, [counter = reserved_, bytes](void*) { *counter -= bytes; });
        if (taken + bytes > capacity_) {
            return make_error(ErrorCode::out_of_memory,
                              "a buffer of %zu bytes of weights was asked for; librknnrt holds %zu bytes in its IOMMU "
                              "domain, of which %zu are taken. Keep fewer layers on the NPU (-ngl), or use "
                              "GGML_NPU_ENGINE=native",
                              bytes, capacity_, taken);
        }
        NPU_ASSIGN(auto addresses, Addresses::reserve(bytes));
        return std::unique_ptr<WeightMemory>(
            std::make_unique<RknnMemory>(*engine_, std::move(addresses), std::move(reservation)));
    }

    [[nodiscard]] std::vector<std::uint16_t> read_back_fp16(const ResidentTensor&) const override { return {}; }
    [[nodiscard]] bool reads_back_fp16() const override { return false; }

    Result<void> multiply(std::span<const TensorProduct> products, gemm::RowsView x) override {
        for (const TensorProduct& product : products) {
            NPU_TRY(multiply(std::get<gemm::RknnWeights>(product.tensor->weights), x, product.y));
        }
        return {};
    }

    std::uint32_t fewest_rows(std::span<const gemm::WeightsShape>) override { return 1; }

    [[nodiscard]] bool runs_on_cpu(gemm::Pipeline) const override { return false; }
    void multiply_share_on_cpu(std::span<const TensorProduct>, gemm::RowsView, unsigned, unsigned) override {}

    Result<void> with_transient(const gemm::WeightsShape& shape, const gemm::RowReader& read_row,
                                const std::function<Result<void>(const Multiply&)>& use) override {
        statistics_.count_late_upload(weight_bytes(shape));
        NPU_ASSIGN(const gemm::RknnWeights weights, engine_->prepare(shape, read_row));
        return use([&](gemm::RowsView x, gemm::TargetView y) { return multiply(weights, x, y); });
    }

  private:
    Result<void> multiply(const gemm::RknnWeights& weights, gemm::RowsView x, gemm::TargetView y) {
        NPU_ASSIGN(const gemm::RknnReport report, engine_->multiply(weights, x, y));
        statistics_.count_library_runs(report.runs);
        return {};
    }

    std::unique_ptr<gemm::RknnEngine> engine_;
    std::string description_;
    std::size_t capacity_;                                // bytes of weights
    std::shared_ptr<std::atomic<std::size_t>> reserved_;  // by buffers; outlives this with them
    Statistics& statistics_;
};

// What was asked for and cannot be done is an error, not something that quietly does not happen.
Result<void> check_options(const Options& options) {
    if (options.device != "auto") {
        return make_error(
            ErrorCode::invalid_argument,
            "GGML_NPU_ENGINE=rknn lets librknnrt find the NPU; GGML_NPU_DEVICE=%s was asked for, too: unset "
            "it, or use GGML_NPU_ENGINE=native",
            options.device.c_str());
    }
    if (options.min_batch > 1) {
        return make_error(ErrorCode::invalid_argument,
                          "GGML_NPU_MIN_BATCH=%lld multiplies small batches on the CPU from weights in device memory, "
                          "which GGML_NPU_ENGINE=rknn does not have: unset it, or use GGML_NPU_ENGINE=native",
                          static_cast<long long>(options.min_batch));
    }
    if (!options.without.empty()) {
        return make_error(ErrorCode::invalid_argument,
                          "GGML_NPU_WITHOUT=%s changes plans, and GGML_NPU_ENGINE=rknn makes none: unset it, or use "
                          "GGML_NPU_ENGINE=native",
                          options.without.c_str());
    }
    if (!options.cache.empty()) {
        return make_error(ErrorCode::invalid_argument,
                          "GGML_NPU_CACHE=%s keeps weights in the order of the plugin's own programs, which "
                          "GGML_NPU_ENGINE=rknn does not use: unset it, or use GGML_NPU_ENGINE=native",
                          options.cache.c_str());
    }
    return {};
}

// Old pairs of library and driver are let in, because each type was tried; but users report of them zeros, failures under
// load and, with several processes, kernel panics.
void advise(const char* what, const std::string& text, const int (&floor)[3]) {
    int version[3] = {};
    if (std::sscanf(text.c_str(), "%4d.%4d.%4d", &version[0], &version[1], &version[2]) >= 2 &&
        std::ranges::lexicographical_compare(version, floor)) {
        log(LogLevel::warning, "%s %s is older than %d.%d.%d, which is recommended", what, first_word(text).c_str(),
            floor[0], floor[1], floor[2]);
    }
}

// An engine that computes nothing would leave every matmul to the CPU, which is not what was asked for.
Result<void> check_pipelines(const gemm::RknnEngine& engine) {
    const Result<void> halves = engine.check_pipeline(gemm::Pipeline::fp16);
    const Result<void> bytes = engine.check_pipeline(gemm::Pipeline::int8);
    if (!halves && !bytes) {
        return make_error(ErrorCode::unsupported,
                          "GGML_NPU_ENGINE=rknn: %s; %s. Use another release, or GGML_NPU_ENGINE=native",
                          halves.error().message.c_str(), bytes.error().message.c_str());
    }
    for (const Result<void>* refused : {&halves, &bytes}) {
        if (!*refused) {
            log(LogLevel::warning, "%s; such matmuls run on the CPU", refused->error().message.c_str());
        }
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<Multiplier>> open_rknn_multiplier(const Options& options, Statistics& statistics) {
    NPU_TRY(check_options(options));
    gemm::RknnOptions chosen;
    chosen.library = options.rknn_library;
    chosen.cores = static_cast<std::uint32_t>(options.cores);
    chosen.team = work_in_team;
    auto engine = gemm::RknnEngine::open(chosen);
    if (!engine) {
        return make_error(engine.error().code,
                          "GGML_NPU_ENGINE=rknn: %s (GGML_NPU_RKNN_LIBRARY is its path; GGML_NPU_ENGINE=native does "
                          "without it)",
                          engine.error().message.c_str());
    }
    advise("librknnrt", (*engine)->version().text, {2, 3, 0});
    advise("driver", (*engine)->driver(), {0, 9, 6});
    NPU_TRY(check_pipelines(**engine));
    return std::unique_ptr<Multiplier>(
        std::make_unique<RknnMultiplier>(std::move(*engine), chosen.domains * chosen.domain_bytes, statistics));
}

}  // namespace npu::plugin
