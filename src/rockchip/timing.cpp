#include "rockchip/timing.h"

#include <algorithm>

namespace npu::rockchip {

namespace {

double as_double(std::uint64_t count) { return static_cast<double>(count); }

// Bandwidth that all cores reach together.
double shared_rate(const ChipProfile& chip, const Conditions& conditions) {
    return chip.timing.shared_bytes_per_second * conditions.memory_hz / chip.timing.memory_hz;
}

// Bandwidth of one core: what its requests in flight allow, what its port moves per cycle, what the memory gives.
double core_rate(const ChipProfile& chip, const Conditions& conditions) {
    return std::min({chip.timing.core_bytes_per_second, chip.timing.port_bytes_per_cycle * conditions.clock_hz,
                     shared_rate(chip, conditions)});
}

}  // namespace

const char* kernel_setup_name(KernelSetup setup) {
    switch (setup) {
        case KernelSetup::rknpu: return "rknpu";
        case KernelSetup::rknpu_unpinned: return "rknpu-unpinned";
        case KernelSetup::rocket: return "rocket";
        case KernelSetup::rocket_big_core: return "rocket-big-core";
        case KernelSetup::rocket_same_core: return "rocket-same-core";
        case KernelSetup::rocket_patched: return "rocket-patched";
    }
    return "?";
}

Conditions conditions(const ChipProfile& chip, KernelSetup setup) {
    const TimingConstants& constants = chip.timing;
    const auto vendor = [&constants](double submit_seconds) {
        return Conditions{constants.clock_hz, constants.memory_hz, submit_seconds, 0};
    };
    const auto mainline = [&constants](double submit_seconds) {
        return Conditions{constants.boot_clock_hz, constants.memory_hz, submit_seconds, 1};
    };
    switch (setup) {
        case KernelSetup::rknpu: return vendor(constants.rknpu_submit_seconds);
        case KernelSetup::rknpu_unpinned: return vendor(constants.rknpu_unpinned_submit_seconds);
        case KernelSetup::rocket: return mainline(constants.rocket_submit_seconds);
        case KernelSetup::rocket_big_core: return mainline(constants.rocket_big_core_submit_seconds);
        case KernelSetup::rocket_same_core: return mainline(constants.rocket_same_core_submit_seconds);
        case KernelSetup::rocket_patched:
            return {constants.patched_clock_hz, constants.memory_hz, constants.rocket_submit_seconds, 64};
    }
    return {};
}

double TaskTime::total() const { return start + features + std::max(array, weights) + operands + output; }

TaskTime& TaskTime::operator+=(const TaskTime& other) {
    start += other.start;
    features += other.features;
    array += other.array;
    weights += other.weights;
    operands += other.operands;
    output += other.output;
    return *this;
}

TaskTime task_time(const TaskWork& work, const ChipProfile& chip, const Conditions& conditions) {
    const double rate = core_rate(chip, conditions);
    const std::uint32_t macs_per_cycle = chip.macs_per_cycle(work.precision);
    return {.start = chip.timing.task_start_seconds,
            .features = as_double(work.feature_bytes) / rate,
            .array = macs_per_cycle == 0 ? 0.0 : as_double(work.macs) / macs_per_cycle / conditions.clock_hz,
            .weights = as_double(work.weight_bytes) / rate,
            .operands = as_double(work.operand_bytes) / rate,
            .output = as_double(work.output_bytes) / rate};
}

double task_seconds(const TaskWork& work, const ChipProfile& chip, const Conditions& conditions) {
    return task_time(work, chip, conditions).total();
}

std::uint64_t memory_bytes(const TaskWork& work) {
    return work.feature_bytes + work.weight_bytes + work.operand_bytes + work.output_bytes +
           work.command_words * sizeof(std::uint64_t);
}

SubmissionTime submission_time(std::span<const CoreWork> cores, const ChipProfile& chip, const Conditions& conditions) {
    SubmissionTime time{.tasks = 0, .kicks = conditions.submit_seconds, .memory = 0, .total = 0};
    std::uint64_t bytes = 0;
    for (const CoreWork& tasks : cores) {
        double seconds = 0;
        for (const TaskWork& work : tasks) {
            seconds += task_seconds(work, chip, conditions);
            bytes += memory_bytes(work);
        }
        const std::size_t chained = conditions.tasks_per_kick == 0 ? tasks.size() : conditions.tasks_per_kick;
        const std::size_t kicks = chained == 0 ? 1 : std::max<std::size_t>(1, (tasks.size() + chained - 1) / chained);
        const double kick_seconds = as_double(kicks) * conditions.submit_seconds;
        if (seconds + kick_seconds > time.tasks + time.kicks) {
            time.tasks = seconds;
            time.kicks = kick_seconds;
        }
    }
    time.memory = as_double(bytes) / shared_rate(chip, conditions);
    time.total = std::max(time.tasks + time.kicks, time.memory + conditions.submit_seconds);
    return time;
}

double submission_seconds(std::span<const CoreWork> cores, const ChipProfile& chip, const Conditions& conditions) {
    return submission_time(cores, chip, conditions).total;
}

double cache_sync_seconds(std::uint64_t bytes, const ChipProfile& chip) {
    return chip.timing.sync_start_seconds + as_double(bytes) / chip.timing.sync_bytes_per_second;
}

double read_back_seconds(std::uint64_t bytes, const ChipProfile& chip) {
    return cache_sync_seconds(bytes, chip) + as_double(bytes) / chip.timing.host_copy_bytes_per_second;
}

}  // namespace npu::rockchip
