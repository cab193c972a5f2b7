#include "gemm/submission.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/integers.h"
#include "compile/constraints.h"
#include "rockchip/checker.h"

namespace npu::gemm {

namespace {

constexpr std::size_t canary_bytes = 8;
constexpr std::size_t region_alignment = 64;  // of results and programs in their buffers

rockchip::Conditions conditions_of(const device::DeviceInfo& device) {
    const rockchip::KernelSetup setup = !device.needs_rdma ? rockchip::KernelSetup::rknpu
                                        : device.chains    ? rockchip::KernelSetup::rocket_patched
                                                           : rockchip::KernelSetup::rocket;
    return rockchip::conditions(*device.chip, setup);
}

// Where the last task of a core writes its last bytes, from the start of the part's results.
std::size_t canary_of(const compile::Plan& plan, std::size_t core) {
    return (plan.end_of_core(core) - 1) / canary_bytes * canary_bytes;
}

Result<compile::Plan> plan_slice(const device::Device& device, const WeightsShape& shape, const Slice& slice,
                                 std::uint32_t rows, const ProgramOptions& programs) {
    const device::DeviceInfo& info_of_device = device.info();
    const PipelineInfo& pipeline = info(shape.pipeline);
    compile::PlanOptions options;
    options.cores = info_of_device.space_per_core ? 1 : programs.cores;
    options.max_k = longest_k_tile(shape, *info_of_device.chip);
    options.emit_rdma = info_of_device.needs_rdma;
    options.rows_in_fours = info_of_device.needs_rdma;
    NPU_TRY(compile::take_away(programs.without, options));  // last: what the driver asks for can be taken away, too
    NPU_ASSIGN(compile::PricedPlan best,
               compile::best_plan({rows * pipeline.rows_per_row, slice.count, shape.k, pipeline.input, pipeline.output},
                                  *info_of_device.chip, options, conditions_of(info_of_device), programs.reduce));
    return std::move(best.plan);
}

}  // namespace

std::uint32_t slices_on(const device::Device& device) { return device.info().space_per_core ? device.spaces() : 1; }

Result<SubmissionPlan> plan_submission(const device::Device& device, std::span<const WeightsShape> shapes,
                                       std::uint32_t rows, const ProgramOptions& options) {
    SubmissionPlan planned;
    std::vector<std::vector<rockchip::TaskWork>> cores(device.info().chip->cores);
    for (std::size_t product = 0; product < shapes.size(); ++product) {
        for (const Slice& slice : slices(shapes[product], slices_on(device))) {
            NPU_ASSIGN(compile::Plan plan, plan_slice(device, shapes[product], slice, rows, options));
            std::size_t core = slice.index;
            for (const std::vector<rockchip::TaskWork>& work : compile::plan_work(plan)) {
                cores[core].insert(cores[core].end(), work.begin(), work.end());
                ++core;
            }
            planned.tasks += plan.task_count();
            planned.parts.push_back({product, slice, std::move(plan)});
        }
    }
    std::erase_if(cores, [](const auto& work) { return work.empty(); });
    const std::vector<rockchip::CoreWork> work(cores.begin(), cores.end());
    planned.seconds = rockchip::submission_seconds(work, *device.info().chip, conditions_of(device.info()));
    return planned;
}

Result<std::unique_ptr<Submission>> Submission::make(device::Device& device, const ProgramOptions& options,
                                                     SubmissionKey key) {
    NPU_ASSIGN(SubmissionPlan planned, plan_submission(device, key.shapes, key.rows, options));
    auto made = std::unique_ptr<Submission>(new Submission(device, options, std::move(key)));
    made->tasks_ = planned.tasks;
    made->predicted_seconds_ = planned.seconds;
    made->words_.resize(device.spaces());
    made->output_bytes_.resize(device.spaces());
    for (ProductPlan& product : planned.parts) {
        Part part{.product = product.product, .slice = product.slice, .plan = std::move(product.plan)};
        NPU_ASSIGN(part.program, compile::build_program(part.plan, compile::Addresses{}, *device.info().chip));
        made->place(part);
        made->parts_.push_back(std::move(part));
    }
    NPU_TRY(made->allocate_words());
    made->write_chains();
    return made;
}

std::size_t Submission::output_bytes(std::uint32_t space) const { return output_bytes_[space]; }

// Gives the part its place in the memories of its address space.
void Submission::place(Part& part) {
    part.space = key_.first_space + part.slice.index;
    Words& words = words_[part.space];
    part.words_offset = words.bytes;
    words.bytes = align_up(words.bytes + part.program.words.size() * sizeof(std::uint64_t), region_alignment);
    std::size_t& output = output_bytes_[part.space];
    part.output_offset = output;
    for (std::size_t core = 0; core < part.plan.cores.size(); ++core) {
        part.canaries.push_back(part.output_offset + canary_of(part.plan, core));
    }
    output = align_up(output + part.plan.output_bytes(), region_alignment);
}

Result<void> Submission::allocate_words() {
    for (std::uint32_t space = 0; space < words_.size(); ++space) {
        if (words_[space].bytes != 0) {
            NPU_ASSIGN(words_[space].buffer, device_.allocate(words_[space].bytes, space));
        }
    }
    return {};
}

// A part's programs start at core 0 where all share a space; elsewhere it has one, on the core of its slice.
std::size_t Submission::core_of(const Part& part, std::size_t core) const {
    return device_.info().space_per_core ? part.space : core;
}

void Submission::write_chains() {
    chains_.resize(device_.info().chip->cores);
    for (const Part& part : parts_) {
        const std::uint64_t base = words_[part.space].buffer->iova() + part.words_offset;
        for (std::size_t core = 0; core < part.program.cores.size(); ++core) {
            const compile::CoreRange& range = part.program.cores[core];
            for (const compile::TaskEntry& task :
                 std::span(part.program.tasks).subspan(range.first_task, range.task_count)) {
                chains_[core_of(part, core)].push_back({base + task.word_offset * sizeof(std::uint64_t),
                                                        task.body_words, task.enable, rockchip::interrupt_dpu});
            }
        }
    }
    while (chains_.back().empty()) {
        chains_.pop_back();
    }
}

Result<void> Submission::aim(std::span<const ResidentWeights* const> weights, std::span<const Scratch> scratch) {
    std::vector<compile::NextTask> next(device_.info().chip->cores);  // of each core; the parts come last first
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
        const ResidentWeights& matrix = *weights[part->product];
        const Scratch& memory = scratch[part->space];
        device::Buffer& words = *words_[part->space].buffer;
        const compile::Addresses addresses{
            memory.features->iova(), matrix.span.buffers[part->slice.index]->iova() + matrix.span.offset,
            memory.output->iova() + part->output_offset, words.iova() + part->words_offset};
        if (!part->aimed || part->aimed_at != addresses) {
            NPU_TRY(compile::relocate(part->program, addresses));
            if (options_.check_programs && !part->aimed) {
                NPU_TRY(check(*part, matrix, memory));
            }
            for (std::size_t core = 0; core < part->program.cores.size(); ++core) {
                if (const compile::NextTask& to = next[core_of(*part, core)]; to.body_words != 0) {
                    compile::lead_on(part->program, core, to);
                }
            }
            const std::size_t bytes = part->program.words.size() * sizeof(std::uint64_t);
            std::memcpy(words.data() + part->words_offset, part->program.words.data(), bytes);
            NPU_TRY(words.to_device(part->words_offset, bytes));
            part->aimed_at = addresses;
            part->aimed = true;
        }
        for (std::size_t core = 0; core < part->program.cores.size(); ++core) {
            const compile::TaskEntry& first = part->program.tasks[part->program.cores[core].first_task];
            next[core_of(*part, core)] = {addresses.program + first.word_offset * sizeof(std::uint64_t),
                                          first.body_words};
        }
    }
    return {};
}

Result<device::JobReport> Submission::run(std::span<const Scratch> scratch, std::chrono::milliseconds deadline) const {
    std::vector<std::vector<device::Canary>> canaries(chains_.size());
    for (const Part& part : parts_) {
        for (std::size_t core = 0; core < part.canaries.size(); ++core) {
            canaries[core_of(part, core)].push_back({scratch[part.space].output.get(), part.canaries[core]});
        }
    }
    std::vector<device::TaskChain> chains;
    for (std::size_t core = 0; core < chains_.size(); ++core) {
        chains.push_back({chains_[core], canaries[core]});
    }
    return device_.run(chains, deadline, device_.info().space_per_core ? 0 : key_.first_space);
}

// A program by itself, before it leads on to another.
Result<void> Submission::check(const Part& part, const ResidentWeights& weights, const Scratch& scratch) const {
    const rockchip::CheckBuffer buffers[] = {
        {scratch.features->iova(), scratch.features->bytes(), false},
        {weights.span.buffers[part.slice.index]->iova() + weights.span.offset, weights.span.bytes, false},
        {scratch.output->iova() + part.output_offset, part.plan.output_bytes(), true},
        {words_[part.space].buffer->iova(), words_[part.space].buffer->bytes(), false},
    };
    for (const compile::CoreRange& core : part.program.cores) {
        const compile::TaskEntry& first = part.program.tasks[core.first_task];
        const auto violations =
            rockchip::check_program({.words = part.program.words,
                                     .words_iova = words_[part.space].buffer->iova() + part.words_offset,
                                     .first_word = first.word_offset,
                                     .body_words = first.body_words,
                                     .task_number = core.task_count,
                                     .interrupt_mask = rockchip::interrupt_dpu,
                                     .buffers = buffers},
                                    *device_.info().chip);
        if (const rockchip::Violation* refusal = rockchip::first_refusal(violations); refusal != nullptr) {
            const WeightsShape& shape = weights.shape;
            return make_error(ErrorCode::unsupported,
                              "the program for a %u x %u x %u %s matmul was not submitted: %s (%s)", key_.rows, shape.n,
                              shape.k, pipeline_name(shape.pipeline), refusal->message.c_str(), refusal->consequence);
        }
    }
    return {};
}

}  // namespace npu::gemm
