// `npu predict`: the time that the NPU would take for the matmuls of a prompt, against the least that is possible and
// against how others cut matmuls.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "commands.h"
#include "compile/limits.h"
#include "compile/search.h"
#include "names.h"
#include "shapes.h"
#include "tilings.h"

namespace npu::tools {

namespace {

struct Arguments {
    std::vector<std::string> files;
    std::uint32_t m = 512;
    std::string input = "int8";
    std::string output;
    std::string kernel = "rknpu";
};

struct Times {
    double mac_limit = 0;
    double memory_limit = 0;
    double limit = 0;  // per matmul the longer of the two
    double ours = 0;
    double ours_with_kicks = 0;
    std::vector<double> theirs;  // by published_tilings()
};

using Work = std::vector<std::vector<rockchip::TaskWork>>;

// Adds the tasks of another matmul to the same cores, so that one submission runs both.
void append(Work& work, const Work& more) {
    work.resize(std::max(work.size(), more.size()));
    for (std::size_t core = 0; core < more.size(); ++core) {
        work[core].insert(work[core].end(), more[core].begin(), more[core].end());
    }
}

rockchip::SubmissionTime time_of(const Work& work, const rockchip::ChipProfile& chip,
                                 const rockchip::Conditions& conditions) {
    const std::vector<rockchip::CoreWork> cores(work.begin(), work.end());
    return submission_time(cores, chip, conditions);
}

void add_group(const MatmulGroup& group, const Arguments& arguments, Times& times) {
    const rockchip::ChipProfile& chip = rockchip::rk3588();
    const rockchip::Conditions conditions = rockchip::conditions(chip, named(kernel_setups, arguments.kernel));
    const rockchip::Precision input = named(precisions, arguments.input);
    const rockchip::Precision output =
        arguments.output.empty() ? widest_output(input) : named(precisions, arguments.output);
    Work ours;
    std::vector<Work> theirs(published_tilings().size());
    const double count = group.front().count;
    for (const ModelMatmul& matmul : group) {
        const compile::MatmulShape shape{matmul.m == 0 ? arguments.m : matmul.m, matmul.n, matmul.k, input, output};
        const compile::Limits limits = compile::limits(shape, chip.cores, chip, conditions);
        times.mac_limit += count * limits.mac_seconds;
        times.memory_limit += count * limits.memory_seconds;
        times.limit += count * limits.seconds();
        const std::uint32_t max_k = compile::best_max_k(shape.n, shape.k, input, output, chip);
        const auto best = compile::best_plan(shape, chip, {.cores = chip.cores, .max_k = max_k}, conditions);
        if (!best) {
            fail(matmul.name + ": " + best.error().message, 1);
        }
        append(ours, plan_work(best->plan));
        for (std::size_t i = 0; i < theirs.size(); ++i) {
            append(theirs[i], published_tilings()[i].cut(shape, chip));
        }
    }
    const rockchip::SubmissionTime time = time_of(ours, chip, conditions);
    times.ours += count * (time.total - time.kicks);
    times.ours_with_kicks += count * time.total;
    times.theirs.resize(theirs.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) {
        rockchip::Conditions with = conditions;
        with.tasks_per_kick = published_tilings()[i].tasks_per_kick;
        times.theirs[i] += count * time_of(theirs[i], chip, with).total;
    }
}

void run(const Arguments& arguments) {
    std::string text = format("Matmuls of %u rows, %s, three cores, driver %s. Times in ms.\n\n", arguments.m,
                              arguments.input.c_str(), arguments.kernel.c_str());
    text += "| model | MAC limit | DDR limit | limit | NPU | NPU / limit | with submissions |";
    for (const Tiling& tiling : published_tilings()) {
        text += format(" %s |", tiling.name);
    }
    text += "\n|---|---|---|---|---|---|---|";
    for (std::size_t i = 0; i < published_tilings().size(); ++i) {
        text += "---|";
    }
    text += "\n";
    for (const std::string& file : arguments.files) {
        const auto groups = read_shapes(file);
        if (!groups) {
            fail(groups.error().message);
        }
        Times times;
        for (const MatmulGroup& group : *groups) {
            add_group(group, arguments, times);
        }
        text += format("| %s | %.1f | %.1f | %.1f | %.1f | %.2f | %.1f |", std::filesystem::path(file).stem().c_str(),
                       times.mac_limit * 1e3, times.memory_limit * 1e3, times.limit * 1e3, times.ours * 1e3,
                       times.ours / times.limit, times.ours_with_kicks * 1e3);
        for (const double seconds : times.theirs) {
            text += format(" %.1f |", seconds * 1e3);
        }
        text += "\n";
    }
    text +=
        "\nLimit: for each matmul the longer of its two. NPU: what the busiest core computes and moves. With "
        "submissions: "
        "what starting it costs, too. Others, with submissions:\n";
    for (const Tiling& tiling : published_tilings()) {
        text += format("%s: %s.\n", tiling.name, tiling.rule);
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_predict(CLI::App& program) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command = program.add_subcommand(
        "predict", "Predicts the time of a model's matmuls on an RK3588, against the limits and other tilings.");
    command->add_option("--shapes", arguments->files, "Files of matmuls (see bench/shapes)")->required();
    command->add_option("-m", arguments->m, "Rows of the prompt (512)")->check(CLI::Range(1U, 65536U));
    command->add_option("--precision", arguments->input, "Format of the operands (int8)")
        ->check(CLI::IsMember(names_of(precisions)));
    command->add_option("--output", arguments->output, "Format of the results (int32, or fp32 for floats)")
        ->check(CLI::IsMember(names_of(precisions)));
    command->add_option("--kernel", arguments->kernel, "Driver and set-up (rknpu)")
        ->check(CLI::IsMember(names_of(kernel_setups)));
    command->callback([arguments] { run(*arguments); });
}

}  // namespace npu::tools
