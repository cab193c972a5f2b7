#include "gemm/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/integers.h"
#include "compile/constraints.h"
#include "compile/program.h"
#include "compile/search.h"
#include "gemm/activations.h"
#include "gemm/results.h"
#include "gemm/share_rows.h"
#include "rockchip/checker.h"

namespace npu::gemm {

struct Engine::CachedProgram {
    WeightsShape shape;
    Slice slice;
    std::uint32_t space = 0;
    std::uint32_t rows = 0;
    compile::Plan plan;
    compile::Program program;
    compile::Addresses aimed_at;
    bool aimed = false;
    bool checked = false;
    double predicted_seconds = 0;
    std::unique_ptr<device::Buffer> buffer;
    std::vector<device::TaskChain::Entry> entries;
    std::vector<std::size_t> canaries;  // one per core: in the output, the last bytes that its last task writes
};

struct Engine::Space {
    std::unique_ptr<device::Buffer> features;
    std::unique_ptr<device::Buffer> output;
    std::unique_ptr<device::Buffer> transient;
};

namespace {

constexpr std::size_t canary_bytes = 8;

// Grows a scratch buffer to at least `bytes`.
Result<void> reserve(device::Device& device, std::unique_ptr<device::Buffer>& buffer, std::uint32_t space,
                     std::size_t bytes) {
    if (buffer == nullptr || buffer->bytes() < bytes) {
        buffer.reset();  // before the new one is asked for: memory is scarce
        NPU_ASSIGN(buffer, device.allocate(bytes, space));
    }
    return {};
}

rockchip::Conditions conditions_of(const device::DeviceInfo& device) {
    const rockchip::KernelSetup setup = !device.needs_rdma ? rockchip::KernelSetup::rknpu
                                        : device.chains    ? rockchip::KernelSetup::rocket_patched
                                                           : rockchip::KernelSetup::rocket;
    return rockchip::conditions(*device.chip, setup);
}

// Where the last task of a core writes its last bytes.
std::size_t canary_of(const compile::Plan& plan, std::size_t core) {
    return (plan.end_of_core(core) - 1) / canary_bytes * canary_bytes;
}

}  // namespace

Engine::Engine(device::Device& device, const EngineOptions& options)
    : device_(device), options_(options), spaces_(device.spaces()) {}
Engine::~Engine() = default;

const rockchip::ChipProfile& Engine::chip() const { return *device_.info().chip; }

Result<MultiplyReport> Engine::multiply(const ResidentWeights& weights, RowsView x, TargetView y) {
    const std::lock_guard lock(mutex_);
    return multiply_locked(weights, x, y);
}

Result<void> Engine::with_transient(const WeightsShape& shape, const RowReader& read_row,
                                    const std::function<Result<void>(const Multiply&)>& use) {
    const std::lock_guard lock(mutex_);
    DeviceSpan span{{}, 0, resident_bytes(shape, chip(), parts()), 0};
    for (std::uint32_t space = 0; space < parts(); ++space) {
        NPU_TRY(reserve(device_, spaces_[space].transient, space, span.bytes));
        span.buffers.push_back(spaces_[space].transient.get());
    }
    NPU_ASSIGN(const ResidentWeights weights, prepare_weights(shape, read_row, std::move(span), chip()));
    return use([&](RowsView x, TargetView y) { return multiply_locked(weights, x, y); });
}

Result<MultiplyReport> Engine::multiply_locked(const ResidentWeights& weights, RowsView x, TargetView y) {
    MultiplyReport report;
    const PipelineInfo& pipeline = info(weights.shape.pipeline);
    const std::size_t row_bytes = std::size_t{compile::padded_kernels(pipeline.input, weights.shape.n)} *
                                  rockchip::info(pipeline.output).bits / 8 * pipeline.rows_per_row * weights.k_tiles;
    const auto most_rows = static_cast<std::uint32_t>(
        std::clamp<std::size_t>(options_.largest_output / row_bytes, 1, options_.largest_rows / pipeline.rows_per_row));
    for (std::uint32_t first = 0; first < x.rows; first += most_rows) {
        const RowsView rows{x.data + first * x.stride, x.stride, std::min(most_rows, x.rows - first)};
        NPU_TRY(multiply_rows(weights, rows, {y.data + first * y.stride, y.stride}, report));
    }
    return report;
}

Result<void> Engine::multiply_rows(const ResidentWeights& weights, RowsView x, TargetView y, MultiplyReport& report) {
    NPU_ASSIGN(const std::vector<CachedProgram*> programs, prepare(weights, x.rows));
    std::vector<float> scales = write_features(weights, programs, x);
    for (const CachedProgram* program : programs) {
        NPU_TRY(spaces_[program->space].features->to_device(0, program->plan.feature_bytes()));
    }

    std::vector<device::TaskChain> chains;
    std::vector<device::Canary> canaries;
    canaries.reserve(chip().cores);
    for (const CachedProgram* program : programs) {
        for (std::size_t core = 0; core < program->program.cores.size(); ++core) {
            const compile::CoreRange& range = program->program.cores[core];
            canaries.push_back({spaces_[program->space].output.get(), program->canaries[core]});
            chains.push_back({std::span(program->entries).subspan(range.first_task, range.task_count),
                              std::span(&canaries.back(), 1)});
        }
    }
    const std::uint32_t space = parts() == 1 ? weights.span.first_space : 0;
    NPU_TRY(device_.run(chains, options_.deadline, space));
    report.space_switches += std::exchange(last_space_, space) != space ? 1 : 0;

    double predicted_seconds = 0;
    for (const CachedProgram* program : programs) {
        const device::Buffer& output = *spaces_[program->space].output;
        NPU_TRY(
            spaces_[program->space].output->from_device(program->plan.result_offset(0), program->plan.result_bytes()));
        const float* kernel_scales = weights.scales.data() + program->slice.first;
        const TargetView target{y.data + program->slice.first, y.stride};
        share_rows(options_.team, x.rows, [&](std::uint32_t first, std::uint32_t count) {
            read_results(weights.shape, program->plan, output.data(), kernel_scales, scales.data(), first, count,
                         target);
        });
        report.tasks += program->plan.task_count();
        predicted_seconds = std::max(predicted_seconds, program->predicted_seconds);
    }
    report.submissions += 1;
    report.predicted_seconds += predicted_seconds;
    return {};
}

// A program for each slice, aimed at these weights, and buffers for what it reads and writes.
Result<std::vector<Engine::CachedProgram*>> Engine::prepare(const ResidentWeights& weights, std::uint32_t rows) {
    std::vector<CachedProgram*> programs;
    for (const Slice& slice : slices(weights.shape, parts())) {
        const std::uint32_t space = weights.span.first_space + slice.index;
        NPU_ASSIGN(CachedProgram* const program, program_for(weights.shape, slice, space, rows));
        NPU_TRY(reserve(device_, spaces_[space].features, space, program->plan.feature_bytes()));
        NPU_TRY(reserve(device_, spaces_[space].output, space, program->plan.output_bytes()));
        NPU_TRY(aim(*program, weights));
        programs.push_back(program);
    }
    return programs;
}

std::vector<float> Engine::write_features(const ResidentWeights& weights, const std::vector<CachedProgram*>& programs,
                                          RowsView x) {
    const compile::Plan& plan = programs.front()->plan;  // all have the same features
    std::byte* features = spaces_[programs.front()->space].features->data();
    std::vector<float> scales(x.rows);
    share_rows(options_.team, x.rows, [&](std::uint32_t first, std::uint32_t count) {
        write_activations(weights.shape, plan.feature_layout(), x, first, count, features, scales.data());
    });
    for (std::size_t i = 1; i < programs.size(); ++i) {
        std::memcpy(spaces_[programs[i]->space].features->data(), features, plan.feature_bytes());
    }
    if (const std::uint32_t shift = plan.result_shift(); shift != 0) {
        std::ranges::transform(scales, scales.begin(),
                               [&](float scale) { return std::ldexp(scale, static_cast<int>(shift)); });
    }
    return scales;
}

Result<Engine::CachedProgram*> Engine::program_for(const WeightsShape& shape, const Slice& slice, std::uint32_t space,
                                                   std::uint32_t rows) {
    const auto found = std::ranges::find_if(programs_, [&](const auto& entry) {
        return entry->rows == rows && entry->shape == shape && entry->slice.first == slice.first &&
               entry->space == space;
    });
    if (found != programs_.end()) {
        programs_.splice(programs_.begin(), programs_, found);
        return programs_.front().get();
    }
    NPU_ASSIGN(std::unique_ptr<CachedProgram> made, make_program(shape, slice, space, rows));
    programs_.push_front(std::move(made));
    if (programs_.size() > options_.cached_programs) {
        programs_.pop_back();
    }
    return programs_.front().get();
}

Result<std::unique_ptr<Engine::CachedProgram>> Engine::make_program(const WeightsShape& shape, const Slice& slice,
                                                                    std::uint32_t space, std::uint32_t rows) {
    const device::DeviceInfo& device = device_.info();
    const PipelineInfo& pipeline = info(shape.pipeline);
    compile::PlanOptions options;
    options.cores = parts() == 1 ? options_.cores : 1;
    options.max_k = longest_k_tile(shape, chip());
    options.emit_rdma = device.needs_rdma;
    options.rows_in_fours = device.needs_rdma;
    NPU_TRY(compile::take_away(options_.without, options));  // last: what the driver asks for can be taken away, too
    NPU_ASSIGN(compile::PricedPlan best,
               compile::best_plan({rows * pipeline.rows_per_row, slice.count, shape.k, pipeline.input, pipeline.output},
                                  chip(), options, conditions_of(device), options_.reduce));
    auto made = std::make_unique<CachedProgram>();
    made->shape = shape;
    made->slice = slice;
    made->space = space;
    made->rows = rows;
    made->plan = std::move(best.plan);
    made->predicted_seconds = best.seconds;
    NPU_ASSIGN(made->program, compile::build_program(made->plan, compile::Addresses{}, chip()));
    NPU_ASSIGN(made->buffer, device_.allocate(made->program.words.size() * sizeof(std::uint64_t), space));
    for (const compile::TaskEntry& task : made->program.tasks) {
        made->entries.push_back({made->buffer->iova() + task.word_offset * sizeof(std::uint64_t), task.body_words,
                                 task.enable, rockchip::interrupt_dpu});
    }
    for (std::size_t core = 0; core < made->plan.cores.size(); ++core) {
        made->canaries.push_back(canary_of(made->plan, core));
    }
    return made;
}

Result<void> Engine::aim(CachedProgram& cached, const ResidentWeights& weights) {
    const Space& space = spaces_[cached.space];
    const compile::Addresses addresses{space.features->iova(),
                                       weights.span.buffers[cached.slice.index]->iova() + weights.span.offset,
                                       space.output->iova(), cached.buffer->iova()};
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
    const Space& space = spaces_[cached.space];
    const rockchip::CheckBuffer buffers[] = {
        {space.features->iova(), space.features->bytes(), false},
        {weights.span.buffers[cached.slice.index]->iova() + weights.span.offset, weights.span.bytes, false},
        {space.output->iova(), space.output->bytes(), true},
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
