#include "plugin/profile.h"

#include <algorithm>
#include <vector>

#include "base/result.h"

namespace npu::plugin {

namespace {

// "512 x 288 -> 288 + 96 + 96, int8 rotated"
std::string label(std::span<const gemm::Product> products, std::uint32_t rows) {
    const gemm::WeightsShape& first = products.front().weights->shape;
    std::string text = format("%u x %u ->", rows, first.k);
    for (const gemm::Product& product : products) {
        text += format("%s %u", &product == &products.front() ? "" : " +", product.weights->shape.n);
    }
    return text + ", " + pipeline_name(first.pipeline) + (first.rotated ? " rotated" : "");
}

std::string line(const char* name, std::size_t calls, std::size_t jobs, const gemm::HostPhases& phases) {
    constexpr double ms = 1e3;
    return format("%-44s %8zu %8zu %11.3f %12.3f %9.3f %9.3f %9.3f\n", name, calls, jobs, phases.programs * ms,
                  phases.activations * ms, phases.jobs * ms, phases.results * ms, phases.total() * ms);
}

}  // namespace

void Profile::add(std::span<const gemm::Product> products, std::uint32_t rows, const gemm::MultiplyReport& report) {
    if (!on_) {
        return;
    }
    const std::string name = label(products, rows);
    const std::lock_guard lock(mutex_);
    Row& row = rows_[name];
    row.calls += 1;
    row.jobs += report.submissions;
    row.phases += report.phases;
}

void Profile::add_cpu_range(double seconds) {
    const std::lock_guard lock(mutex_);
    cpu_ranges_ += 1;
    cpu_seconds_ += seconds;
}

std::string Profile::table() const {
    const std::lock_guard lock(mutex_);
    if (rows_.empty() && cpu_ranges_ == 0) {
        return {};
    }
    std::vector<std::pair<std::string, Row>> sorted(rows_.begin(), rows_.end());
    std::ranges::stable_sort(sorted, std::greater<>(), [](const auto& entry) { return entry.second.phases.total(); });
    std::string text = format("%-44s %8s %8s %11s %12s %9s %9s %9s\n", "rows x K -> N, format", "calls", "jobs",
                              "programs ms", "quantise ms", "jobs ms", "untile ms", "all ms");
    Row sum;
    for (const auto& [name, row] : sorted) {
        text += line(name.c_str(), row.calls, row.jobs, row.phases);
        sum.calls += row.calls;
        sum.jobs += row.jobs;
        sum.phases += row.phases;
    }
    text += line("all matmuls on the NPU", sum.calls, sum.jobs, sum.phases);
    return text + format("%zu ranges of other operations on the CPU: %.3f ms\n", cpu_ranges_, cpu_seconds_ * 1e3);
}

}  // namespace npu::plugin
