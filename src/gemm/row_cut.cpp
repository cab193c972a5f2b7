#include "gemm/row_cut.h"

#include <algorithm>

#include "base/integers.h"
#include "gemm/share_rows.h"

namespace npu::gemm {

namespace {

constexpr std::uint32_t most_jobs = 8;  // of an overlapped batch: the gain of further ones is a fraction of a job
constexpr std::size_t most_known = 1024;

std::size_t output_bytes(std::span<const WeightsShape> shapes, std::uint32_t rows, const rockchip::ChipProfile& chip) {
    std::size_t bytes = 0;
    for (const WeightsShape& shape : shapes) {
        const PipelineInfo& pipeline = info(shape.pipeline);
        bytes += std::size_t{compile::padded_kernels(pipeline.input, shape.n)} * rockchip::info(pipeline.output).bits /
                 8 * rows * pipeline.rows_per_row * k_tile_count(shape, chip);
    }
    return bytes;
}

struct Priced {
    std::uint32_t rows;
    double device;
};

class Cutter {
  public:
    Cutter(const device::Device& device, std::span<const WeightsShape> shapes, const ProgramOptions& programs,
           const RowLimits& limits)
        : device_(device), shapes_(shapes), programs_(programs), limits_(limits) {}

    // The largest cut of at most `rows` rows that the limits allow.
    Result<Priced> largest(std::uint32_t rows) const {
        const rockchip::ChipProfile& chip = *device_.info().chip;
        const auto in_memory = static_cast<std::uint32_t>(
            std::clamp<std::size_t>(limits_.largest_output / output_bytes(shapes_, 1, chip), 1, rows));
        for (std::uint32_t at = in_memory;; at = ceil_div(at, 2U)) {
            const auto planned = plan_submission(device_, shapes_, at, programs_);
            const bool fits = planned && planned->tasks <= chip.max_tasks_per_submit;
            if (fits && (at == 1 || planned->seconds <= limits_.longest_seconds)) {
                return Priced{at, planned->seconds};
            }
            if (at == 1) {
                return planned ? Result<Priced>(too_many_tasks(planned->tasks)) : planned.error();
            }
        }
    }

    // Seconds of a batch cut into jobs of at most `per_job` rows.
    Result<double> seconds(std::uint32_t rows, std::uint32_t per_job) const {
        NPU_ASSIGN(const SubmissionPlan planned, plan_submission(device_, shapes_, per_job, programs_));
        const HostSeconds host = host_seconds(shapes_, per_job, *device_.info().chip);
        const std::uint32_t jobs = ceil_div(rows, per_job);
        return host.activations + (jobs - 1) * std::max(planned.seconds, host.activations + host.results) +
               planned.seconds + host.results;
    }

  private:
    [[nodiscard]] Error too_many_tasks(std::size_t tasks) const {
        return make_error(ErrorCode::unsupported, "one row of %zu matmuls takes %zu tasks; a job holds %u",
                          shapes_.size(), tasks, device_.info().chip->max_tasks_per_submit);
    }

    const device::Device& device_;
    std::span<const WeightsShape> shapes_;
    const ProgramOptions& programs_;
    const RowLimits& limits_;
};

}  // namespace

HostSeconds host_seconds(std::span<const WeightsShape> shapes, std::uint32_t rows, const rockchip::ChipProfile& chip) {
    const PipelineInfo& pipeline = info(shapes.front().pipeline);
    const double read = static_cast<double>(shapes.front().k) * sizeof(float);
    const double written = static_cast<double>(compile::packed_bytes(pipeline.input, shapes.front().k));
    double results = static_cast<double>(output_bytes(shapes, 1, chip));
    for (const WeightsShape& shape : shapes) {
        results += static_cast<double>(shape.n) * sizeof(float);
    }
    // Copying n bytes reads n and writes n.
    const double rate = 2 * chip.timing.host_copy_bytes_per_second;
    return {rows * (read + written * pipeline.rows_per_row) / rate, rows * results / rate};
}

Result<std::uint32_t> RowCut::rows_per_job(const device::Device& device, std::span<const WeightsShape> shapes,
                                           std::uint32_t rows, const ProgramOptions& programs,
                                           const RowLimits& limits) {
    for (const Entry& entry : known_) {
        if (entry.rows == rows && std::ranges::equal(entry.shapes, shapes)) {
            return entry.per_job;
        }
    }
    const Cutter cutter(device, shapes, programs, limits);
    NPU_ASSIGN(const Priced largest, cutter.largest(rows));
    std::uint32_t best = ceil_div(rows, ceil_div(rows, largest.rows));  // equal jobs
    if (limits.overlap) {
        NPU_ASSIGN(double best_seconds, cutter.seconds(rows, best));
        for (std::uint32_t jobs = ceil_div(rows, best) + 1; jobs <= most_jobs; ++jobs) {
            const std::uint32_t per_job = align_up(ceil_div(rows, jobs), rows_per_pack);
            if (per_job >= best) {
                continue;
            }
            NPU_ASSIGN(const double seconds, cutter.seconds(rows, per_job));
            if (seconds < best_seconds) {
                best = per_job;
                best_seconds = seconds;
            }
        }
    }
    if (known_.size() == most_known) {
        known_.clear();
    }
    known_.push_back({{shapes.begin(), shapes.end()}, rows, best});
    return best;
}

}  // namespace npu::gemm
