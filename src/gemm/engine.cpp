#include "gemm/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <iterator>
#include <optional>
#include <utility>

#include "gemm/activations.h"
#include "gemm/results.h"
#include "gemm/share_rows.h"

namespace npu::gemm {

// Rows on their way through the device.
struct Engine::Batch {
    Submission* submission = nullptr;
    std::uint32_t first = 0;  // row of x
    std::uint32_t rows = 0;
    std::vector<float> scales;  // of its rows
    std::future<Result<device::JobReport>> job = {};
};

namespace {

// Adds the time until its end to a phase.
class Stopwatch {
  public:
    explicit Stopwatch(double& seconds) : seconds_(seconds) {}
    ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

  private:
    double& seconds_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

constexpr std::uint32_t slots = 2;  // one job runs while the host works for another

// Grows a scratch buffer to at least `bytes`.
Result<void> reserve(device::Device& device, std::unique_ptr<device::Buffer>& buffer, std::uint32_t space,
                     std::size_t bytes) {
    if (buffer == nullptr || buffer->bytes() < bytes) {
        buffer.reset();  // before the new one is asked for: memory is scarce
        NPU_ASSIGN(buffer, device.allocate(bytes, space));
    }
    return {};
}

// Predicted seconds of a job that is sure not to be given up. A clock parked at 200 MHz is a fifth of the nominal one.
double longest_job(const device::DeviceInfo& device, std::chrono::milliseconds deadline) {
    const auto longest =
        device.longest_job.count() == 0 ? deadline : std::min<std::chrono::milliseconds>(device.longest_job, deadline);
    return std::chrono::duration<double>(longest).count() / 8;
}

std::vector<WeightsShape> shapes_of(std::span<const Product> products) {
    std::vector<WeightsShape> shapes;
    std::ranges::transform(products, std::back_inserter(shapes),
                           [](const Product& product) { return product.weights->shape; });
    return shapes;
}

Result<void> check_products(std::span<const Product> products) {
    for (const Product& product : products) {
        const WeightsShape& shape = product.weights->shape;
        const WeightsShape& first = products.front().weights->shape;
        if (shape.k != first.k || shape.pipeline != first.pipeline || shape.rotated != first.rotated) {
            return make_error(ErrorCode::invalid_argument,
                              "weights of K = %u (%s%s) and K = %u (%s%s) were to share their activations; multiply "
                              "them one by one",
                              first.k, pipeline_name(first.pipeline), first.rotated ? ", rotated" : "", shape.k,
                              pipeline_name(shape.pipeline), shape.rotated ? ", rotated" : "");
        }
    }
    return {};
}

}  // namespace

HostPhases& HostPhases::operator+=(const HostPhases& other) {
    programs += other.programs;
    activations += other.activations;
    jobs += other.jobs;
    results += other.results;
    return *this;
}

MultiplyReport& MultiplyReport::operator+=(const MultiplyReport& other) {
    submissions += other.submissions;
    tasks += other.tasks;
    space_switches += other.space_switches;
    predicted_seconds += other.predicted_seconds;
    phases += other.phases;
    return *this;
}

Engine::Engine(device::Device& device, const EngineOptions& options)
    : device_(device), options_(options), scratch_(slots), transient_(device.spaces()) {
    for (std::vector<Scratch>& slot : scratch_) {
        slot.resize(device.spaces());
    }
}
Engine::~Engine() = default;

const rockchip::ChipProfile& Engine::chip() const { return *device_.info().chip; }

Result<MultiplyReport> Engine::multiply(std::span<const Product> products, RowsView x) {
    const std::lock_guard lock(mutex_);
    return multiply_locked(products, x);
}

Result<MultiplyReport> Engine::multiply(const ResidentWeights& weights, RowsView x, TargetView y) {
    const Product product{&weights, y};
    return multiply(std::span(&product, 1), x);
}

Result<void> Engine::with_transient(const WeightsShape& shape, const RowReader& read_row,
                                    const std::function<Result<void>(const Multiply&)>& use) {
    const std::lock_guard lock(mutex_);
    DeviceSpan span{{}, 0, resident_bytes(shape, chip(), parts()), 0};
    for (std::uint32_t space = 0; space < parts(); ++space) {
        NPU_TRY(reserve(device_, transient_[space], space, span.bytes));
        span.buffers.push_back(transient_[space].get());
    }
    NPU_ASSIGN(const ResidentWeights weights, prepare_weights(shape, read_row, std::move(span), chip()));
    return use([&](RowsView x, TargetView y) {
        const Product product{&weights, y};
        return multiply_locked(std::span(&product, 1), x);
    });
}

// A job lies in one address space, so matrices of different ones are multiplied one space after the other.
Result<MultiplyReport> Engine::multiply_locked(std::span<const Product> products, RowsView x) {
    NPU_TRY(check_products(products));
    std::vector<Product> left(products.begin(), products.end());
    MultiplyReport report;
    while (!left.empty()) {
        const std::uint32_t space = left.front().weights->span.first_space;
        const auto others = std::stable_partition(left.begin(), left.end(), [&](const Product& product) {
            return product.weights->span.first_space == space;
        });
        NPU_ASSIGN(const MultiplyReport done, multiply_in_space({left.begin(), others}, x));
        report += done;
        left.erase(left.begin(), others);
    }
    return report;
}

Result<MultiplyReport> Engine::multiply_in_space(std::span<const Product> products, RowsView x) {
    const RowLimits limits{options_.overlap, options_.largest_output, longest_job(device_.info(), options_.deadline)};
    NPU_ASSIGN(const std::uint32_t per_job,
               cut_.rows_per_job(device_, shapes_of(products), x.rows, options_.programs, limits));
    MultiplyReport report;
    std::optional<Batch> running;
    for (std::uint32_t first = 0; first < x.rows; first += per_job) {
        const std::uint32_t slot = options_.overlap ? first / per_job % slots : 0;
        NPU_ASSIGN(Batch next, prepare(products, x, first, std::min(per_job, x.rows - first), slot, report.phases));
        if (running) {
            NPU_TRY(finish(*running, report));
        }
        start(next);
        if (running) {
            NPU_TRY(read_outputs(*running, products, report.phases));
        }
        running = std::move(next);
        if (!options_.overlap) {
            NPU_TRY(finish(*running, report));
            NPU_TRY(read_outputs(*running, products, report.phases));
            running.reset();
        }
    }
    if (running) {
        NPU_TRY(finish(*running, report));
        NPU_TRY(read_outputs(*running, products, report.phases));
    }
    return report;
}

// Everything that comes before the job: programs aimed, activations converted and handed over.
Result<Engine::Batch> Engine::prepare(std::span<const Product> products, RowsView x, std::uint32_t first,
                                      std::uint32_t rows, std::uint32_t slot, HostPhases& phases) {
    std::optional<Stopwatch> watch(phases.programs);
    const std::uint32_t first_space = products.front().weights->span.first_space;
    NPU_ASSIGN(Submission* const submission, submission_for({shapes_of(products), rows, first_space, slot}));
    std::vector<Scratch>& scratch = scratch_[slot];
    for (std::uint32_t space = first_space; space < first_space + parts(); ++space) {
        if (submission->output_bytes(space) != 0) {
            NPU_TRY(reserve(device_, scratch[space].features, space, submission->feature_bytes()));
            NPU_TRY(reserve(device_, scratch[space].output, space, submission->output_bytes(space)));
        }
    }
    std::vector<const ResidentWeights*> weights;
    std::ranges::transform(products, std::back_inserter(weights), &Product::weights);
    NPU_TRY(submission->aim(weights, scratch));
    watch.emplace(phases.activations);
    Batch batch{.submission = submission, .first = first, .rows = rows, .scales = std::vector<float>(rows)};
    NPU_TRY(write_features(batch, products.front().weights->shape, {x.data + first * x.stride, x.stride, rows}));
    return batch;
}

// Into the first address space that the submission uses, and from there to the others.
Result<void> Engine::write_features(Batch& batch, const WeightsShape& shape, RowsView x) {
    const SubmissionKey& key = batch.submission->key();
    const compile::FeatureLayout layout = batch.submission->feature_layout();
    std::vector<Scratch>& scratch = scratch_[key.slot];
    std::byte* features = scratch[key.first_space].features->data();
    share_rows(options_.team, x.rows, [&](std::uint32_t first, std::uint32_t count) {
        write_activations(shape, layout, x, first, count, features, batch.scales.data());
    });
    for (std::uint32_t space = key.first_space; space < key.first_space + parts(); ++space) {
        if (batch.submission->output_bytes(space) != 0) {
            if (space != key.first_space) {
                std::memcpy(scratch[space].features->data(), features, layout.bytes());
            }
            NPU_TRY(scratch[space].features->to_device(0, layout.bytes()));
        }
    }
    return {};
}

void Engine::start(Batch& batch) {
    batch.job = std::async(options_.overlap ? std::launch::async : std::launch::deferred,
                           [this, submission = batch.submission] {
                               return submission->run(scratch_[submission->key().slot], options_.deadline);
                           });
}

Result<void> Engine::finish(Batch& batch, MultiplyReport& report) {
    const Submission& submission = *batch.submission;
    {
        const Stopwatch watch(report.phases.jobs);
        NPU_TRY(batch.job.get());
    }
    report += {.submissions = 1,
               .tasks = submission.tasks(),
               .space_switches =
                   std::exchange(last_space_, submission.key().first_space) != submission.key().first_space ? 1U : 0U,
               .predicted_seconds = submission.predicted_seconds()};
    return {};
}

Result<void> Engine::read_outputs(const Batch& batch, std::span<const Product> products, HostPhases& phases) {
    const Stopwatch watch(phases.results);
    const Submission& submission = *batch.submission;
    const std::vector<Scratch>& scratch = scratch_[submission.key().slot];
    for (std::uint32_t space = 0; space < scratch.size(); ++space) {
        if (const std::size_t bytes = submission.output_bytes(space); bytes != 0) {
            NPU_TRY(scratch[space].output->from_device(0, bytes));
        }
    }
    std::vector<float> shifted(batch.rows);  // scales of results that the device has divided by a power of two
    for (const Submission::Part& part : submission.parts()) {
        const Product& product = products[part.product];
        const auto shift = static_cast<int>(part.plan.result_shift());
        std::ranges::transform(batch.scales, shifted.begin(), [&](float scale) { return std::ldexp(scale, shift); });
        const std::byte* output = scratch[part.space].output->data() + part.output_offset;
        const float* kernel_scales = product.weights->scales.data() + part.slice.first;
        const TargetView y{product.y.data + batch.first * product.y.stride + part.slice.first, product.y.stride};
        share_rows(options_.team, batch.rows, [&](std::uint32_t first, std::uint32_t count) {
            read_results(product.weights->shape, part.plan, output, kernel_scales, shifted.data(), first, count, y);
        });
    }
    return {};
}

Result<Submission*> Engine::submission_for(const SubmissionKey& key) {
    const auto found = std::ranges::find_if(submissions_, [&](const auto& entry) { return entry->key() == key; });
    if (found != submissions_.end()) {
        submissions_.splice(submissions_.begin(), submissions_, found);
        return submissions_.front().get();
    }
    NPU_ASSIGN(std::unique_ptr<Submission> made, Submission::make(device_, options_.programs, key));
    submissions_.push_front(std::move(made));
    if (submissions_.size() > std::max(options_.cached_submissions, std::size_t{slots})) {
        submissions_.pop_back();
    }
    return submissions_.front().get();
}

}  // namespace npu::gemm
