#include "rockchip/timing_measurements.h"

#include <algorithm>
#include <cmath>

namespace npu::rockchip {

double host_seconds_per_element(HostWork work) {
    switch (work) {
        case HostWork::none: return 0;
        case HostWork::one_worker: return 1.5e-9;     // fits the three one-worker calls, whose device time is known
        case HostWork::five_workers: return 3.75e-9;  // fits three calls on both drivers within 14 %
    }
    return 0;
}

double Measurement::published_seconds() const { return (low_ms + high_ms) / 2 * 1e-3; }

std::vector<std::vector<TaskWork>> tasks_of(const Measurement& row) {
    if (row.workload == Workload::matmul) {
        return tiled_tasks({row.m, row.n, row.k, row.input, row.output}, row.tiling, row.cores);
    }
    // Row: M query rows, N cached positions, K channels of a head; a tile of n positions. The published V is padded
    // from 128 to 160 channels.
    constexpr std::uint32_t heads = 8;
    constexpr std::uint32_t value_channels = 160;
    std::vector<std::vector<TaskWork>> lists(row.cores);
    for (std::uint32_t head = 0; head < heads; ++head) {
        std::vector<TaskWork>& tasks = lists[head % row.cores];
        const MatmulWork scores{row.m, row.n, row.k, row.input, row.output};
        const MatmulWork values{row.m, value_channels, row.n, row.input, row.output};
        for (const auto& part : {tiled_tasks(scores, {.n = row.tiling.n}, 1),  //
                                 tiled_tasks(values, {.k = row.tiling.n}, 1)}) {
            tasks.insert(tasks.end(), part[0].begin(), part[0].end());
        }
    }
    return lists;
}

namespace {

double device_seconds(const Measurement& row, const ChipProfile& chip, double clock_mhz) {
    Conditions ran = conditions(chip, row.kernel);
    ran.clock_hz = clock_mhz * 1e6;
    ran.memory_hz = row.memory_mhz * 1e6;
    ran.tasks_per_kick = row.tasks_per_kick;
    const std::vector<std::vector<TaskWork>> tasks = tasks_of(row);
    const std::vector<CoreWork> cores(tasks.begin(), tasks.end());
    return row.calls * submission_seconds(cores, chip, ran);
}

bool passes(const Measurement& row, RowFilter filter) {
    return filter == RowFilter::all || (filter == RowFilter::star ? row.star : !row.fitted);
}

}  // namespace

double predicted_seconds(const Measurement& row, const ChipProfile& chip) {
    const double seconds = device_seconds(row, chip, row.clock_mhz);
    if (row.slower_clock_mhz != 0) {
        return device_seconds(row, chip, row.slower_clock_mhz) - seconds;
    }
    return seconds + host_seconds_per_element(row.host) * row.m * (row.k + row.n);
}

double relative_error(const Measurement& row, const ChipProfile& chip) {
    return predicted_seconds(row, chip) / row.published_seconds() - 1;
}

Fit fit(const ChipProfile& chip, RowFilter filter) {
    Fit result;
    std::vector<double> errors;
    for (const Measurement& row : measurements()) {
        if (!passes(row, filter)) {
            continue;
        }
        errors.push_back(std::abs(relative_error(row, chip)));
        if (result.worst_row == nullptr || errors.back() > result.worst) {
            result.worst = errors.back();
            result.worst_row = &row;
        }
    }
    result.rows = errors.size();
    if (errors.empty()) {
        return result;
    }
    std::sort(errors.begin(), errors.end());
    const std::size_t middle = errors.size() / 2;
    result.median = errors.size() % 2 != 0 ? errors[middle] : (errors[middle - 1] + errors[middle]) / 2;
    return result;
}

}  // namespace npu::rockchip
