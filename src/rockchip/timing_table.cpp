#include "rockchip/timing_table.h"

#include <algorithm>
#include <cmath>

#include "base/result.h"

namespace npu::rockchip {

namespace {

// Three significant digits, at most three after the point.
std::string milliseconds(double ms) {
    const int decimals = ms >= 100 ? 0 : ms >= 10 ? 1 : ms >= 1 ? 2 : 3;
    return format("%.*f", decimals, ms);
}

std::string published(const Measurement& row) {
    return row.low_ms == row.high_ms ? format("%.4g", row.low_ms) : format("%.4g–%.4g", row.low_ms, row.high_ms);
}

std::string clocks(const Measurement& row) {
    std::string text = format("%.0f", row.clock_mhz);
    if (row.slower_clock_mhz != 0) {
        text = format("%.0f against ", row.slower_clock_mhz) + text;
    }
    if (row.memory_mhz != Measurement{}.memory_mhz) {
        text += format(", DDR %.0f", row.memory_mhz);
    }
    return text;
}

std::string signed_percent(double share) {
    const double rounded = std::round(100 * share);
    return format("%+.0f %%", rounded == 0 ? 0.0 : rounded);  // not "-0"
}

std::string percent(double share) { return format("%.1f %%", 100 * share); }

std::string table_row(const Measurement& row, const ChipProfile& chip) {
    return format("| %s | %s | %u | %u | %u | %s → %s | %u | %s | %s | %s | %s | %s | %s | %s | %s |\n",
                  row_role(row).c_str(), row.name, row.m, row.n, row.k, info(row.input).name, info(row.output).name,
                  row.cores, kernel_setup_name(row.kernel), clocks(row).c_str(), task_summary(row).c_str(),
                  published(row).c_str(), milliseconds(1e3 * predicted_seconds(row, chip)).c_str(),
                  signed_percent(relative_error(row, chip)).c_str(), row.source, row.explanation);
}

}  // namespace

std::string row_role(const Measurement& row) {
    return std::string(row.star ? "★ " : "") + (row.fitted ? "fit" : "check");
}

std::size_t task_count(const Measurement& row) {
    std::size_t count = 0;
    for (const std::vector<TaskWork>& tasks : tasks_of(row)) {
        count += tasks.size();
    }
    return count * row.calls;
}

std::string task_summary(const Measurement& row) {
    const std::size_t count = task_count(row);
    std::string text = format("%zu", count);
    if (row.workload == Workload::attention) {
        text += format(" of %u positions", row.tiling.n);
    } else if (count > row.calls) {
        const std::uint32_t m = row.tiling.m != 0 ? std::min(row.m, row.tiling.m) : row.m;
        const std::uint32_t k = row.tiling.k != 0 ? row.tiling.k : row.k;
        text += format(" of %u×%llu×%u", m, static_cast<unsigned long long>(tasks_of(row)[0][0].macs / m / k), k);
    }
    switch (row.tasks_per_kick) {
        case 0: return text + (count > row.cores ? ", chained" : "");
        case 1: return text + ", one a kick";
        default: return text + format(", %u a kick", row.tasks_per_kick);
    }
}

std::string constants_table(const ChipProfile& chip) {
    const TimingConstants& constants = chip.timing;
    std::string text =
        "| constant | value |\n"
        "|---|---|\n";
    const auto add = [&text](const char* name, double value, const char* unit) {
        text += format("| %s | %.4g %s |\n", name, value, unit);
    };
    add("bandwidth of one core", constants.core_bytes_per_second * 1e-9, "GB/s");
    add("its memory port", constants.port_bytes_per_cycle, "bytes per NPU cycle");
    add("bandwidth of all cores", constants.shared_bytes_per_second * 1e-9,
        "GB/s at DDR 2112 MHz, in proportion to it");
    add("start of a task in a chain", constants.task_start_seconds * 1e6, "µs");
    add("kick, vendor driver, governors at performance", constants.rknpu_submit_seconds * 1e6, "µs");
    add("kick, vendor driver, else", constants.rknpu_unpinned_submit_seconds * 1e6, "µs");
    add("kick, mainline driver", constants.rocket_submit_seconds * 1e6, "µs");
    add("host, call of one worker", host_seconds_per_element(HostWork::one_worker) * 1e9,
        "ns per feature and result element");
    add("host, call of five workers", host_seconds_per_element(HostWork::five_workers) * 1e9,
        "ns per feature and result element");
    return text;
}

std::string measurement_table(const ChipProfile& chip) {
    std::string text =
        "| role | measured | M | N | K | formats | cores | driver | NPU MHz | tasks, M×N×K | published ms | predicted "
        "ms "
        "| error | published in | explanation |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (const Measurement& row : measurements()) {
        text += table_row(row, chip);
    }
    const Fit all = fit(chip);
    const Fit star = fit(chip, RowFilter::star);
    const Fit check = fit(chip, RowFilter::check);
    text += format("\n%zu rows, %zu constants. Absolute error, median and worst: all rows %s and %s (%s, M = %u); ",
                   all.rows, constants_in_use, percent(all.median).c_str(), percent(all.worst).c_str(),
                   all.worst_row->name, all.worst_row->m);
    text += format("the %zu rows marked ★ %s and %s; the %zu rows that no constant was set by %s and %s.\n", star.rows,
                   percent(star.median).c_str(), percent(star.worst).c_str(), check.rows, percent(check.median).c_str(),
                   percent(check.worst).c_str());
    return text;
}

std::string timing_report(const ChipProfile& chip) { return constants_table(chip) + "\n" + measurement_table(chip); }

}  // namespace npu::rockchip
