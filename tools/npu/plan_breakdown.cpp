#include "plan_breakdown.h"

#include <algorithm>
#include <array>
#include <utility>

namespace npu::tools {

using rockchip::CoreWork;
using rockchip::TaskTime;
using rockchip::TaskWork;

Breakdown break_down(const compile::Plan& plan, rockchip::KernelSetup kernel, const rockchip::Conditions& conditions,
                     const rockchip::ChipProfile& chip) {
    Breakdown result;
    result.shape = plan.shape;
    result.kernel = kernel;
    result.conditions = conditions;
    result.cores = plan.cores.size();
    result.tasks = plan.task_count();
    result.k_tiles = plan.k_tiles.size();

    const std::vector<std::vector<TaskWork>> work = plan_work(plan);
    double busiest_seconds = 0;
    for (const std::vector<TaskWork>& tasks : work) {
        TaskTime sum;
        double array_and_weights = 0;
        for (const TaskWork& task : tasks) {
            result.bytes += memory_bytes(task);
            const TaskTime time = task_time(task, chip, conditions);
            sum += time;
            array_and_weights += std::max(time.array, time.weights);
        }
        const CoreWork alone = tasks;
        const rockchip::SubmissionTime time = submission_time({&alone, 1}, chip, conditions);
        if (time.tasks + time.kicks > busiest_seconds) {
            busiest_seconds = time.tasks + time.kicks;
            result.busiest = sum;
            result.array_and_weights = array_and_weights;
            const std::size_t chained = conditions.tasks_per_kick == 0 ? tasks.size() : conditions.tasks_per_kick;
            result.kicks = (tasks.size() + chained - 1) / chained;
        }
    }
    const std::vector<CoreWork> cores(work.begin(), work.end());
    result.submission = submission_time(cores, chip, conditions);
    result.feature_sync = cache_sync_seconds(plan.feature_bytes(), chip);
    result.output_sync = cache_sync_seconds(plan.result_bytes(), chip);
    result.reduces = plan.reduces();
    result.read_back = read_back_seconds(plan, chip);
    result.limits = compile::limits(plan.shape, chip.cores, chip, conditions);
    return result;
}

std::string limit(const Breakdown& breakdown) {
    const rockchip::SubmissionTime& submission = breakdown.submission;
    if (submission.total > submission.tasks + submission.kicks) {
        return "the memory that the cores share";
    }
    const bool array = breakdown.busiest.array >= breakdown.busiest.weights;
    const std::array<std::pair<double, const char*>, 5> parts{{
        {breakdown.array_and_weights, array ? "the multiply-accumulate array" : "the weights' way from memory"},
        {breakdown.busiest.features, "the features' way from memory"},
        {breakdown.busiest.operands + breakdown.busiest.output, "the results' way to memory"},
        {breakdown.busiest.start, "the start of tasks in the chain"},
        {submission.kicks, "the driver: system call, interrupt, wake-up"},
    }};
    return std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; })
        ->second;
}

std::string describe(const Breakdown& breakdown) {
    const compile::MatmulShape& shape = breakdown.shape;
    const rockchip::SubmissionTime& submission = breakdown.submission;
    std::string text =
        format("matmul M=%u N=%u K=%u, %s to %s; %s, NPU %.0f MHz, DDR %.0f MHz\n", shape.m, shape.n, shape.k,
               rockchip::info(shape.input).name, rockchip::info(shape.output).name, kernel_setup_name(breakdown.kernel),
               breakdown.conditions.clock_hz * 1e-6, breakdown.conditions.memory_hz * 1e-6);
    text +=
        format("tasks: %zu, cores: %zu, K tiles: %zu, kicks on the busiest core: %zu, over the memory bus: %.2f MB\n\n",
               breakdown.tasks, breakdown.cores, breakdown.k_tiles, breakdown.kicks,
               static_cast<double>(breakdown.bytes) * 1e-6);
    text += "| busiest core | µs | share |\n|---|---|---|\n";
    const auto add = [&](const char* name, double seconds) {
        text += format("| %s | %.1f | %.0f %% |\n", name, seconds * 1e6, 100 * seconds / submission.total);
    };
    add("start of tasks", breakdown.busiest.start);
    add("features from memory", breakdown.busiest.features);
    add("multiplications and weights, the longer of each task", breakdown.array_and_weights);
    add("· multiplications", breakdown.busiest.array);
    add("· weights from memory", breakdown.busiest.weights);
    add("DPU operands from memory", breakdown.busiest.operands);
    add("results to memory", breakdown.busiest.output);
    add("**tasks**", submission.tasks);
    add("kicks", submission.kicks);
    add("all cores' bytes at their shared bandwidth", submission.memory);
    add("**submission**", submission.total);
    const double device = submission.total - submission.kicks;
    text += format(
        "\n%.0f GOP/s. Without the kicks %.2f times the least that is possible: %.1f µs for the multiplications on all "
        "cores, %.1f µs for each matrix crossing the memory bus once. Longest part: %s.\n",
        2e-9 * shape.m * shape.n * shape.k / submission.total, device / breakdown.limits.seconds(),
        breakdown.limits.mac_seconds * 1e6, breakdown.limits.memory_seconds * 1e6, limit(breakdown).c_str());
    text += format(
        "Not counted: the host's packing and unpacking, and cache synchronisation of whole buffers "
        "(features %.1f µs, results %.1f µs).\n",
        breakdown.feature_sync * 1e6, breakdown.output_sync * 1e6);
    if (breakdown.k_tiles > 1) {
        text += breakdown.reduces ? format("The chip adds %zu partial results per element.", breakdown.k_tiles)
                                  : format("The host adds %zu partial results per element.", breakdown.k_tiles);
        text += format(" With %.1f µs for one thread of the host to read the results: %.1f µs.\n",
                       breakdown.read_back * 1e6, (submission.total + breakdown.read_back) * 1e6);
    }
    return text;
}

}  // namespace npu::tools
