#include "gemm/engine.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/integers.h"
#include "compile/program.h"
#include "compile/search.h"
#include "gemm/kernels.h"
#include "rockchip/checker.h"

namespace npu::gemm {

struct Engine::CachedProgram {
    WeightsShape shape;
    std::uint32_t rows = 0;
    compile::Plan plan;
    compile::Program program;
    compile::Addresses aimed_at;
    bool aimed = false;
    bool checked = false;
    double predicted_seconds = 0;
    std::unique_ptr<device::Buffer> buffer;
    std::vector<device::TaskChain::Entry> entries;
    std::vector<device::TaskChain> chains;
};

namespace {

constexpr std::uint32_t rows_per_pack = 32;  // the kernels take rows together to write whole cache lines

// Grows a scratch buffer to at least `bytes`.
Result<void> reserve(device::Device& device, std::unique_ptr<device::Buffer>& buffer, std::size_t bytes) {
    if (buffer == nullptr || buffer->bytes() < bytes) {
        buffer.reset();  // before the new one is asked for: memory is scarce
        NPU_ASSIGN(buffer, device.allocate(bytes));
    }
    return {};
}

}  // namespace

Engine::Engine(device::Device& device, const EngineOptions& options) : device_(device), options_(options) {}
Engine::~Engine() = default;

const rockchip::ChipProfile& Engine::chip() const { return *device_.info().chip; }

Result<MultiplyReport> Engine::multiply(const ResidentWeights& weights, RowsView x, TargetView y) {
    const std::lock_guard lock(mutex_);
    return multiply_locked(weights, x, y);
}

Result<void> Engine::with_transient(const WeightsShape& shape, const RowReader& read_row,
                                    const std::function<Result<void>(const Multiply&)>& use) {
    const std::lock_guard lock(mutex_);
    const std::size_t bytes = resident_bytes(shape, chip());
    NPU_TRY(reserve(device_, transient_, bytes));
    NPU_ASSIGN(const ResidentWeights weights, prepare_weights(shape, read_row, {transient_.get(), 0, bytes}, chip()));
    return use([&](RowsView x, TargetView y) { return multiply_locked(weights, x, y); });
}

Result<MultiplyReport> Engine::multiply_locked(const ResidentWeights& weights, RowsView x, TargetView y) {
    MultiplyReport report;
    const std::size_t row_bytes =
        std::size_t{compile::padded_kernels(input_precision(weights.shape.pipeline), weights.shape.n)} * 4 *
        weights.k_tiles;
    const auto most_rows = static_cast<std::uint32_t>(
        std::clamp<std::size_t>(options_.largest_output / row_bytes, 1, options_.largest_rows));
    for (std::uint32_t first = 0; first < x.rows; first += most_rows) {
        const RowsView rows{x.data + first * x.stride, x.stride, std::min(most_rows, x.rows - first)};
        NPU_TRY(multiply_rows(weights, rows, {y.data + first * y.stride, y.stride}, report));
    }
    return report;
}

Result<void> Engine::multiply_rows(const ResidentWeights& weights, RowsView x, TargetView y, MultiplyReport& report) {
    NPU_ASSIGN(CachedProgram* const cached, program_for(weights.shape, x.rows));
    const compile::Plan& plan = cached->plan;
    NPU_TRY(reserve(device_, features_, plan.feature_bytes()));
    NPU_TRY(reserve(device_, output_, plan.output_bytes()));
    NPU_TRY(aim(*cached, weights));

    const std::vector<float> scales = write_features(plan, weights.shape.pipeline, x);
    NPU_TRY(features_->to_device(0, plan.feature_bytes()));

    NPU_TRY(device_.run(cached->chains, options_.deadline));
    NPU_TRY(output_->from_device(0, plan.output_bytes()));
    std::vector<const std::byte*> partial_results;
    for (std::size_t tile = 0; tile < plan.k_tiles.size(); ++tile) {
        partial_results.push_back(output_->data() + plan.output_offset(tile));
    }
    share_rows(x.rows, [&](std::uint32_t first, std::uint32_t count) {
        scale_and_untile({plan.output_layout(), partial_results, plan.shape.k}, first, count, plan.shape.n,
                         scales.data(), weights.scales.data(), y);
    });

    report.submissions += 1;
    report.tasks += plan.task_count();
    report.predicted_seconds += cached->predicted_seconds;
    return {};
}

std::vector<float> Engine::write_features(const compile::Plan& plan, Pipeline pipeline, RowsView x) {
    const compile::FeatureLayout layout = plan.feature_layout();
    const auto tile_rows = pipeline == Pipeline::fp16 ? tile_half : quantise_and_tile;
    std::vector<float> scales(x.rows);
    share_rows(x.rows, [&](std::uint32_t first, std::uint32_t count) {
        tile_rows(layout, {x.data + first * x.stride, x.stride, count}, first, plan.shape.k, features_->data(),
                  scales.data() + first);
    });
    return scales;
}

// Calls the work for packs of rows, which the threads of the team share.
void Engine::share_rows(std::uint32_t rows, const std::function<void(std::uint32_t, std::uint32_t)>& work) {
    const auto packs_from = [&](unsigned index, unsigned step) {
        for (std::uint32_t first = index * rows_per_pack; first < rows; first += step * rows_per_pack) {
            work(first, std::min(rows_per_pack, rows - first));
        }
    };
    if (rows <= rows_per_pack) {
        packs_from(0, 1);
    } else {
        options_.team(packs_from);
    }
}

Result<Engine::CachedProgram*> Engine::program_for(const WeightsShape& shape, std::uint32_t rows) {
    const auto found = std::ranges::find_if(programs_, [&](const auto& entry) {
        return entry->rows == rows && entry->shape.n == shape.n && entry->shape.k == shape.k &&
               entry->shape.pipeline == shape.pipeline;
    });
    if (found != programs_.end()) {
        programs_.splice(programs_.begin(), programs_, found);
        return programs_.front().get();
    }
    auto cached = std::make_unique<CachedProgram>();
    cached->shape = shape;
    cached->rows = rows;
    compile::PlanOptions plan_with = plan_options(shape, chip());
    plan_with.cores = options_.cores;
    NPU_ASSIGN(compile::PricedPlan best, compile::best_plan({rows, shape.n, shape.k, input_precision(shape.pipeline),
                                                             output_precision(shape.pipeline)},
                                                            chip(), plan_with, rockchip::conditions(chip())));
    cached->plan = std::move(best.plan);
    cached->predicted_seconds = best.seconds;
    NPU_ASSIGN(cached->program, compile::build_program(cached->plan, compile::Addresses{}, chip()));
    NPU_ASSIGN(cached->buffer, device_.allocate(cached->program.words.size() * sizeof(std::uint64_t)));
    for (const compile::TaskEntry& task : cached->program.tasks) {
        cached->entries.push_back({cached->buffer->iova() + task.word_offset * sizeof(std::uint64_t), task.body_words,
                                   task.enable, rockchip::interrupt_dpu});
    }
    for (const compile::CoreRange& core : cached->program.cores) {
        cached->chains.push_back({std::span(cached->entries).subspan(core.first_task, core.task_count)});
    }
    programs_.push_front(std::move(cached));
    if (programs_.size() > options_.cached_programs) {
        programs_.pop_back();
    }
    return programs_.front().get();
}

Result<void> Engine::aim(CachedProgram& cached, const ResidentWeights& weights) {
    const compile::Addresses addresses{features_->iova(), weights.span.buffer->iova() + weights.span.offset,
                                       output_->iova(), cached.buffer->iova()};
    if (cached.aimed && cached.aimed_at == addresses) {
        return {};
    }
    NPU_TRY(compile::relocate(cached.program, addresses));
    const std::size_t bytes = cached.program.words.size() * sizeof(std::uint64_t);
    std::memcpy(cached.buffer->data(), cached.program.words.data(), bytes);
    if (options_.check_programs && !cached.checked) {
        NPU_TRY(check(cached, weights));
        cached.checked = true;
    }
    NPU_TRY(cached.buffer->to_device(0, bytes));
    cached.aimed_at = addresses;
    cached.aimed = true;
    return {};
}

Result<void> Engine::check(const CachedProgram& cached, const ResidentWeights& weights) const {
    const rockchip::CheckBuffer buffers[] = {
        {features_->iova(), features_->bytes(), false},
        {weights.span.buffer->iova() + weights.span.offset, weights.span.bytes, false},
        {output_->iova(), output_->bytes(), true},
        {cached.buffer->iova(), cached.buffer->bytes(), false},
    };
    for (const compile::CoreRange& core : cached.program.cores) {
        const compile::TaskEntry& first = cached.program.tasks[core.first_task];
        const auto violations = rockchip::check_program({.words = cached.program.words,
                                                         .words_iova = cached.buffer->iova(),
                                                         .first_word = first.word_offset,
                                                         .body_words = first.body_words,
                                                         .task_number = core.task_count,
                                                         .interrupt_mask = rockchip::interrupt_dpu,
                                                         .buffers = buffers},
                                                        chip());
        if (const rockchip::Violation* refusal = rockchip::first_refusal(violations); refusal != nullptr) {
            return make_error(ErrorCode::unsupported,
                              "the program for a %u x %u x %u %s matmul was not submitted: %s (%s)", cached.rows,
                              cached.shape.n, cached.shape.k, pipeline_name(cached.shape.pipeline),
                              refusal->message.c_str(), refusal->consequence);
        }
    }
    return {};
}

}  // namespace npu::gemm
