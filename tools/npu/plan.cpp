// `npu plan`: how a matmul is cut into tasks, and what that costs.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "compile/constraints.h"
#include "compile/reduce.h"
#include "compile/search.h"
#include "names.h"
#include "plan_breakdown.h"

namespace npu::tools {

using nlohmann::json;

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
    std::uint32_t max_k = 0;  // 0: searched
    std::string without;
    std::string reduce = "auto";
    bool reuse = false;
    bool all = false;
    bool tasks = false;
    bool brief = false;
    bool json = false;
};

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
            {"mac_limit_us", us(breakdown.limits.mac_seconds)},
            {"memory_limit_us", us(breakdown.limits.memory_seconds)},
            {"feature_sync_us", us(breakdown.feature_sync)},
            {"output_sync_us", us(breakdown.output_sync)},
            {"reduced_on_the_chip", breakdown.reduces},
            {"read_back_us", us(breakdown.read_back)},
            {"longest_part", limit(breakdown)}};
}

std::string summary(const compile::Plan& plan) {
    const compile::PlanOptions& options = plan.options;
    std::string text =
        format("%s dealt to %zu cores; on each, %s", options.split == compile::Split::rows ? "rows" : "channels",
               plan.cores.size(),
               options.order == compile::Order::rows_last ? "rows follow each other under the same weights"
                                                          : "channels follow each other under the same rows");
    text += "; K tiles:";
    for (const compile::KTile& tile : plan.k_tiles) {
        text += format(" %u", tile.k);
    }
    if (plan.k_tiles.size() > 1) {
        text += plan.reduces() ? "; the chip adds them" : "; the host adds them";
    }
    return text;
}

constexpr const char* brief_head =
    "| dealt | K tiles | added by | tasks | submission µs | host reads µs | both µs |\n|---|---|---|---|---|---|---|\n";

std::string brief_row(const compile::PricedPlan& priced) {
    const compile::Plan& plan = priced.plan;
    return format("| %s to %zu cores | %zu | %s | %zu | %.0f | %.0f | %.0f |\n",
                  plan.options.split == compile::Split::rows ? "rows" : "channels", plan.cores.size(),
                  plan.k_tiles.size(), plan.reduces() ? "the chip" : "the host", plan.task_count(),
                  priced.seconds * 1e6, priced.read_back_seconds * 1e6, priced.total() * 1e6);
}

std::string task_table(const compile::Plan& plan, const rockchip::ChipProfile& chip,
                       const rockchip::Conditions& conditions) {
    std::string text =
        "| core | K | rows | channels | data banks | weight banks | reused | MB moved | µs "
        "|\n|---|---|---|---|---|---|---|---|---|\n";
    for (std::size_t core = 0; core < plan.cores.size(); ++core) {
        for (const compile::TaskTile& task : plan.cores[core]) {
            const compile::KTile& k = plan.k_tiles[task.k_tile];
            const rockchip::TaskWork work = tile_work(plan, task);
            const char* reused = task.weight_reuse ? "weights" : task.data_reuse ? "features" : "";
            text += format("| %zu | %u-%u | %u-%u | %u-%u | %u | %u | %s | %.3f | %.1f |\n", core, k.k0, k.k0 + k.k - 1,
                           task.m0, task.m0 + task.m - 1, task.n0, task.n0 + task.n - 1, task.data_banks,
                           task.weight_banks, reused, static_cast<double>(memory_bytes(work)) * 1e-6,
                           task_seconds(work, chip, conditions) * 1e6);
        }
        for (const compile::AddTask& add : add_tasks(plan, plan.cores[core])) {
            const rockchip::TaskWork work = add_work(add);
            text += format("| %zu | adds 0x%llx and 0x%llx to 0x%llx | %u pixels | %u | | | | %.3f | %.1f |\n", core,
                           static_cast<unsigned long long>(add.augend), static_cast<unsigned long long>(add.addend),
                           static_cast<unsigned long long>(add.sum), add.pixels, add.channels,
                           static_cast<double>(memory_bytes(work)) * 1e-6, task_seconds(work, chip, conditions) * 1e6);
        }
    }
    return text;
}

json tasks_as_json(const compile::Plan& plan) {
    json tasks = json::array();
    for (std::size_t core = 0; core < plan.cores.size(); ++core) {
        for (const compile::TaskTile& task : plan.cores[core]) {
            const compile::KTile& k = plan.k_tiles[task.k_tile];
            tasks.push_back({{"core", core},
                             {"k0", k.k0},
                             {"k", k.k},
                             {"m0", task.m0},
                             {"m", task.m},
                             {"n0", task.n0},
                             {"n", task.n},
                             {"data_banks", task.data_banks},
                             {"weight_banks", task.weight_banks},
                             {"weight_reuse", task.weight_reuse},
                             {"data_reuse", task.data_reuse}});
        }
    }
    return tasks;
}

rockchip::Conditions conditions_of(const Arguments& arguments, rockchip::KernelSetup kernel,
                                   const rockchip::ChipProfile& chip) {
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
    return conditions;
}

void run(const Arguments& arguments) {
    const rockchip::ChipProfile& chip = rockchip::rk3588();
    const rockchip::KernelSetup kernel = named(kernel_setups, arguments.kernel);
    const rockchip::Conditions conditions = conditions_of(arguments, kernel, chip);
    const rockchip::Precision input = named(precisions, arguments.input);
    const rockchip::Precision output =
        arguments.output.empty() ? widest_output(input) : named(precisions, arguments.output);
    const bool mainline = kernel != rockchip::KernelSetup::rknpu && kernel != rockchip::KernelSetup::rknpu_unpinned;

    compile::PlanOptions options{.cores = arguments.cores};
    options.rows_in_fours = options.emit_rdma = mainline;
    options.weight_reuse = options.data_reuse = arguments.reuse;
    options.max_k =
        arguments.max_k != 0 ? arguments.max_k : compile::best_max_k(arguments.n, arguments.k, input, output, chip);
    if (const auto taken = take_away(arguments.without, options); !taken) {
        fail(taken.error().message);
    }
    auto reduce = compile::reduce_named(arguments.reduce);
    if (!reduce) {
        fail(reduce.error().message);
    }
    if (arguments.all && *reduce == compile::Reduce::automatic) {
        reduce = compile::Reduce::any;
    }
    const auto plans =
        search_plans({arguments.m, arguments.n, arguments.k, input, output}, chip, options, conditions, *reduce);
    if (!plans) {
        fail(plans.error().message, 1);
    }
    std::string text;
    json list = json::array();
    for (const compile::PricedPlan& priced : std::span(*plans).first(arguments.all ? plans->size() : 1)) {
        const Breakdown breakdown = break_down(priced.plan, kernel, conditions, chip);
        if (arguments.json) {
            json entry = as_json(breakdown);
            entry["plan"] = summary(priced.plan);
            entry["task_list"] = tasks_as_json(priced.plan);
            list.push_back(std::move(entry));
            continue;
        }
        if (arguments.brief) {
            text += text.empty() ? brief_head : "";
            text += brief_row(priced);
            continue;
        }
        text += (text.empty() ? "" : "\n---\n\n") + summary(priced.plan) + "\n" + describe(breakdown);
        if (arguments.tasks) {
            text += "\n" + task_table(priced.plan, chip, conditions);
        }
    }
    if (arguments.json) {
        text = (arguments.all ? list : list.front()).dump(2) + "\n";
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string constraint_names() {
    std::string names;
    for (const compile::Constraint& constraint : compile::constraints()) {
        names += (names.empty() ? "" : ", ") + std::string(constraint.name);
    }
    return names;
}

}  // namespace

void add_plan(CLI::App& program) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command =
        program.add_subcommand("plan", "Cuts a matmul into tasks for an RK3588 and prices it by the timing model.");
    command->add_option("-m", arguments->m, "Rows")->required();
    command->add_option("-n", arguments->n, "Output channels")->required();
    command->add_option("-k", arguments->k, "Input channels")->required();
    command->add_option("--precision", arguments->input, "Format of the operands (int8)")
        ->check(CLI::IsMember(names_of(precisions)));
    command->add_option("--output", arguments->output, "Format of the results (int32, or fp32 for floats)")
        ->check(CLI::IsMember(names_of(precisions)));
    command->add_option("--cores", arguments->cores, "Cores (3)");
    command->add_option("--kernel", arguments->kernel, "Driver and set-up (rknpu); see docs/timing-model.md")
        ->check(CLI::IsMember(names_of(kernel_setups)));
    command->add_option("--clock", arguments->clock_mhz, "NPU clock in MHz")->check(CLI::Range(1.0, 2000.0));
    command->add_option("--ddr", arguments->memory_mhz, "Memory clock in MHz")->check(CLI::Range(1.0, 10000.0));
    command->add_option("--tasks-per-kick", arguments->tasks_per_kick, "Tasks chained per kick; 0: all")
        ->check(CLI::Range(0, 4095));
    command->add_option("--max-k", arguments->max_k, "Longest K of a task (searched)");
    command->add_option("--without", arguments->without, "Constraints to take away, by comma: " + constraint_names());
    command->add_option("--reduce", arguments->reduce, "Who adds the partial sums of K tiles (auto: the cheaper)")
        ->check(CLI::IsMember({"auto", "host", "device"}));
    command->add_flag("--reuse", arguments->reuse, "Keeps weights and features in the CBUF where they stay");
    command->add_flag("--all", arguments->all, "Prints every plan of the search, cheapest first");
    command->add_flag("--brief", arguments->brief, "Prints a row of a table per plan");
    command->add_flag("--tasks", arguments->tasks, "Prints every task");
    command->add_flag("--json", arguments->json, "Prints JSON");
    command->callback([arguments] { run(*arguments); });
}

}  // namespace npu::tools
