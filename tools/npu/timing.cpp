// `npu timing`: the timing model against published measurements, or the time of one matmul by resource.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "rockchip/timing_table.h"
#include "timing_breakdown.h"

namespace npu::tools {

using nlohmann::json;
using rockchip::KernelSetup;
using rockchip::Precision;

namespace {

struct Arguments {
    std::uint32_t m = 0;
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    std::string input = "int8";
    std::string output;  // empty: the widest that the operands give
    std::uint32_t cores = 3;
    std::string kernel = "rknpu";
    double clock_mhz = 0;   // 0: that of the driver
    double memory_mhz = 0;  // 0: that of the measurements
    int tasks_per_kick = -1;
    bool json = false;
};

constexpr std::array precisions{Precision::int4, Precision::int8, Precision::int16, Precision::int32,
                                Precision::fp16, Precision::bf16, Precision::tf32,  Precision::fp32};
constexpr std::array kernels{KernelSetup::rknpu, KernelSetup::rknpu_unpinned, KernelSetup::rocket,
                             KernelSetup::rocket_big_core, KernelSetup::rocket_same_core};

std::string name_of(Precision precision) { return rockchip::info(precision).name; }

std::string name_of(KernelSetup setup) { return kernel_setup_name(setup); }

template <typename Values>
std::vector<std::string> names_of(const Values& values) {
    std::vector<std::string> names;
    for (const auto value : values) {
        names.push_back(name_of(value));
    }
    return names;
}

// The value of a name that the command line has checked.
template <typename Values>
auto named(const Values& values, const std::string& name) {
    return *std::find_if(values.begin(), values.end(), [&name](auto value) { return name_of(value) == name; });
}

Precision widest_output(Precision input) {
    return rockchip::info(input).floating ? Precision::fp32
           : input == Precision::int4     ? Precision::int16
                                          : Precision::int32;
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

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

json as_json(const Breakdown& breakdown) {
    const auto us = [](double seconds) { return seconds * 1e6; };
    return {{"m", breakdown.shape.m},
            {"n", breakdown.shape.n},
            {"k", breakdown.shape.k},
            {"input", rockchip::info(breakdown.shape.input).name},
            {"output", rockchip::info(breakdown.shape.output).name},
            {"driver", kernel_setup_name(breakdown.kernel)},
            {"clock_mhz", breakdown.conditions.clock_hz * 1e-6},
            {"memory_mhz", breakdown.conditions.memory_hz * 1e-6},
            {"cores", breakdown.cores},
            {"tasks", breakdown.tasks},
            {"k_tiles", breakdown.k_tiles},
            {"kicks", breakdown.kicks},
            {"bytes", breakdown.bytes},
            {"busiest_core_us",
             {{"start", us(breakdown.busiest.start)},
              {"features", us(breakdown.busiest.features)},
              {"array", us(breakdown.busiest.array)},
              {"weights", us(breakdown.busiest.weights)},
              {"array_and_weights", us(breakdown.array_and_weights)},
              {"operands", us(breakdown.busiest.operands)},
              {"output", us(breakdown.busiest.output)},
              {"tasks", us(breakdown.submission.tasks)},
              {"kicks", us(breakdown.submission.kicks)}}},
            {"memory_us", us(breakdown.submission.memory)},
            {"submission_us", us(breakdown.submission.total)},
            {"feature_sync_us", us(breakdown.feature_sync)},
            {"output_sync_us", us(breakdown.output_sync)},
            {"peak_share", breakdown.peak_share},
            {"limit", limit(breakdown)}};
}

void print_table(const Arguments& arguments) {
    const rockchip::ChipProfile& chip = rockchip::rk3588();
    print(arguments.json ? table_as_json(chip).dump(2) + "\n" : timing_report(chip));
}

void print_matmul(const Arguments& arguments) {
    const rockchip::ChipProfile& chip = rockchip::rk3588();
    const KernelSetup kernel = named(kernels, arguments.kernel);
    rockchip::Conditions conditions = rockchip::conditions(chip, kernel);
    if (arguments.clock_mhz != 0) {
        conditions.clock_hz = arguments.clock_mhz * 1e6;
    }
    if (arguments.memory_mhz != 0) {
        conditions.memory_hz = arguments.memory_mhz * 1e6;
    }
    if (arguments.tasks_per_kick >= 0) {
        conditions.tasks_per_kick = static_cast<std::uint32_t>(arguments.tasks_per_kick);
    }
    const Precision input = named(precisions, arguments.input);
    const Precision output = arguments.output.empty() ? widest_output(input) : named(precisions, arguments.output);
    const Result<Breakdown> breakdown = break_down({arguments.m, arguments.n, arguments.k, input, output},
                                                   {.cores = arguments.cores}, kernel, conditions, chip);
    if (!breakdown) {
        fail(breakdown.error().message);
    }
    print(arguments.json ? as_json(*breakdown).dump(2) + "\n" : describe(*breakdown));
}

}  // namespace

void add_timing(CLI::App& program) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command = program.add_subcommand(
        "timing", "Compares the timing model with published measurements, or prices one matmul (-m -n -k).");
    CLI::Option* m = command->add_option("-m", arguments->m, "Rows");
    CLI::Option* n = command->add_option("-n", arguments->n, "Output channels");
    CLI::Option* k = command->add_option("-k", arguments->k, "Input channels");
    m->needs(n, k);
    n->needs(m, k);
    k->needs(m, n);
    const auto of_matmul = [m](CLI::Option* option) { return option->needs(m); };
    of_matmul(command->add_option("--precision", arguments->input, "Format of the operands (int8)"))
        ->check(CLI::IsMember(names_of(precisions)));
    of_matmul(command->add_option("--output", arguments->output, "Format of the results (int32, or fp32 for floats)"))
        ->check(CLI::IsMember(names_of(precisions)));
    of_matmul(command->add_option("--cores", arguments->cores, "Cores (3)"));
    of_matmul(command->add_option("--kernel", arguments->kernel,
                                  "Driver and set-up (rknpu): rocket runs at 200 MHz with one task a kick"))
        ->check(CLI::IsMember(names_of(kernels)));
    of_matmul(command->add_option("--clock", arguments->clock_mhz, "NPU clock in MHz"))->check(CLI::Range(1.0, 2000.0));
    of_matmul(command->add_option("--ddr", arguments->memory_mhz, "Memory clock in MHz"))
        ->check(CLI::Range(1.0, 10000.0));
    of_matmul(command->add_option("--tasks-per-kick", arguments->tasks_per_kick, "Tasks chained per kick; 0: all"))
        ->check(CLI::Range(0, 4095));
    command->add_flag("--json", arguments->json, "Prints JSON");
    command->callback([arguments, m] { m->count() == 0 ? print_table(*arguments) : print_matmul(*arguments); });
}

}  // namespace npu::tools
