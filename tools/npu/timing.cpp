// `npu timing`: the timing model against published measurements.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "rockchip/timing_table.h"

namespace npu::tools {

using nlohmann::json;

namespace {

json fit_as_json(const rockchip::Fit& fit) {
    return {{"rows", fit.rows}, {"median_error", fit.median}, {"worst_error", fit.worst}};
}

json table_as_json(const rockchip::ChipProfile& chip) {
    json rows = json::array();
    for (const rockchip::Measurement& row : rockchip::measurements()) {
        rows.push_back({{"measured", row.name},
                        {"m", row.m},
                        {"n", row.n},
                        {"k", row.k},
                        {"input", rockchip::info(row.input).name},
                        {"output", rockchip::info(row.output).name},
                        {"cores", row.cores},
                        {"driver", kernel_setup_name(row.kernel)},
                        {"clock_mhz", row.clock_mhz},
                        {"slower_clock_mhz", row.slower_clock_mhz},
                        {"memory_mhz", row.memory_mhz},
                        {"tasks", task_count(row)},
                        {"tasks_per_kick", row.tasks_per_kick},
                        {"task_summary", task_summary(row)},
                        {"published_ms", {row.low_ms, row.high_ms}},
                        {"predicted_ms", 1e3 * predicted_seconds(row, chip)},
                        {"error", relative_error(row, chip)},
                        {"star", row.star},
                        {"fitted", row.fitted},
                        {"published_in", row.source},
                        {"explanation", row.explanation}});
    }
    using rockchip::RowFilter;
    return {{"rows", rows},
            {"constants", rockchip::constants_in_use},
            {"all", fit_as_json(rockchip::fit(chip))},
            {"star", fit_as_json(rockchip::fit(chip, RowFilter::star))},
            {"check", fit_as_json(rockchip::fit(chip, RowFilter::check))}};
}

}  // namespace

void add_timing(CLI::App& program) {
    auto as_json = std::make_shared<bool>(false);
    CLI::App* command =
        program.add_subcommand("timing", "Compares the timing model with published measurements (see also: plan).");
    command->add_flag("--json", *as_json, "Prints JSON");
    command->callback([as_json] {
        const rockchip::ChipProfile& chip = rockchip::rk3588();
        print(*as_json ? table_as_json(chip).dump(2) + "\n" : timing_report(chip));
    });
}

}  // namespace npu::tools
