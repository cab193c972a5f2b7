#include "compile/plan.h"

#include <algorithm>

#include "compile/task.h"
#include "rockchip/registers.h"

namespace npu::compile {

using rockchip::info;

namespace {

struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

// Cuts [first, first + count) into `parts` ranges of whole units, equal to within one unit; empty ones are left out.
std::vector<Range> cut(Range whole, std::uint32_t parts, std::uint32_t unit) {
    const std::uint32_t units = ceil_div(whole.count, unit);
    std::vector<Range> ranges;
    std::uint32_t at = whole.first;
    for (std::uint32_t part = 0; part < parts; ++part) {
        const std::uint32_t count = (units / parts + (part < units % parts ? 1 : 0)) * unit;
        if (count != 0) {
            ranges.push_back({at, count});
        }
        at += count;
    }
    return ranges;
}

// Cuts into as few ranges as `largest` (a multiple of `unit`) allows.
std::vector<Range> cut_to(Range whole, std::uint32_t largest, std::uint32_t unit) {
    return cut(whole, ceil_div(whole.count, largest), unit);
}

struct CoreWork {
    Range rows;
    Range channels;
};

// Deals N to the cores, or M when N's few groups would leave cores idle and M would not.
std::vector<CoreWork> deal(std::uint32_t m, std::uint32_t padded_n, std::uint32_t group, std::uint32_t cores) {
    const std::uint32_t groups = padded_n / group;
    const std::uint64_t busiest_by_n = std::uint64_t{ceil_div(groups, cores)} * m;
    const std::uint64_t busiest_by_m = std::uint64_t{ceil_div(m, cores)} * groups;
    constexpr std::uint32_t few_groups_per_core = 4;  // from here on, dealing N is off by a quarter at most
    std::vector<CoreWork> work;
    if (groups < few_groups_per_core * cores && busiest_by_m < busiest_by_n) {
        for (const Range& rows : cut({0, m}, cores, 1)) {
            work.push_back({rows, {0, padded_n}});
        }
    } else {
        for (const Range& channels : cut({0, padded_n}, cores, group)) {
            work.push_back({{0, m}, channels});
        }
    }
    return work;
}

Result<void> check_arguments(const MatmulShape& shape, const ChipProfile& chip, const PlanOptions& options) {
    if (shape.m == 0 || shape.n == 0 || shape.k == 0) {
        return make_error(ErrorCode::invalid_argument, "matmul of M=%u N=%u K=%u: no dimension may be zero", shape.m,
                          shape.n, shape.k);
    }
    constexpr std::uint32_t largest = 1U << 24;  // keeps padded sizes and byte counts in range
    if (shape.m > largest || shape.n > largest || shape.k > largest) {
        return make_error(ErrorCode::unsupported, "matmul of M=%u N=%u K=%u: at most %u each; split it", shape.m,
                          shape.n, shape.k, largest);
    }
    if (options.cores == 0 || options.cores > chip.cores) {
        return make_error(ErrorCode::invalid_argument, "plan for %u cores: the chip has %u", options.cores, chip.cores);
    }
    if (!builds(shape.input, shape.output)) {
        return make_error(ErrorCode::unsupported,
                          "matmul from %s to %s: built are int8 to int32 or fp32, fp16 to fp32 or fp16",
                          info(shape.input).name, info(shape.output).name);
    }
    // A row-major output line is one row; its gap field counts atoms.
    const std::uint32_t row_atoms =
        padded_kernels(shape.input, shape.n) * element_bytes(shape.output) / rockchip::atom_bytes;
    const std::uint32_t largest_notch = rockchip::reg::DPU::DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_0.maximum();
    if (options.output == Arrangement::row_major && row_atoms - 1 > largest_notch) {
        return make_error(ErrorCode::unsupported,
                          "row-major output of N=%u %s: a row takes %u atoms of at most %u: use native output", shape.n,
                          info(shape.output).name, row_atoms, largest_notch + 1);
    }
    return {};
}

// Rows of a task: the same for all K tiles, since all of them must fit.
Result<std::uint32_t> rows_per_task(const Plan& plan, const ChipProfile& chip) {
    std::uint32_t rows = chip.max_extent;
    for (const KTile& tile : plan.k_tiles) {
        const std::uint32_t fitting = max_rows(tile.k, plan.shape.input, chip, plan.options);
        if (fitting == 0) {
            return make_error(ErrorCode::unsupported,
                              "K tile of %u %s channels needs %u weight banks of %u and leaves no room for one row: "
                              "lower max_k or the hazard options",
                              tile.k, info(plan.shape.input).name,
                              weight_banks(tile.k, plan.shape.input, chip, plan.options), chip.cbuf_banks);
        }
        rows = std::min(rows, fitting);
    }
    return rows;
}

// Marks tasks that find their weights in the CBUF: same slice and K tile as the task before, same bank split, and
// small enough to have stayed.
void mark_weight_reuse(const Plan& plan, std::vector<TaskTile>& tasks, const ChipProfile& chip) {
    for (std::size_t i = 1; i < tasks.size(); ++i) {
        const TaskTile& before = tasks[i - 1];
        TaskTile& task = tasks[i];
        const std::uint64_t bytes =
            std::uint64_t{task.n} * plan.k_tiles[task.k_tile].k * element_bytes(plan.shape.input);
        task.weight_reuse = task.k_tile == before.k_tile && task.n0 == before.n0 && task.n == before.n &&
                            task.data_banks == before.data_banks &&
                            bytes <= std::uint64_t{task.weight_banks} * chip.cbuf_bank_bytes;
    }
}

}  // namespace

FeatureLayout Plan::feature_layout() const { return {shape.input, options.feature, shape.m, padded_k}; }

WeightLayout Plan::weight_layout(std::size_t k_tile) const { return {shape.input, padded_n, k_tiles[k_tile].k}; }

OutputLayout Plan::output_layout() const { return {shape.output, options.output, shape.m, padded_n}; }

std::size_t Plan::weight_offset(std::size_t k_tile) const {
    return std::size_t{k_tiles[k_tile].k0} * padded_n * element_bytes(shape.input);
}

std::size_t Plan::output_offset(std::size_t k_tile) const { return k_tile * output_layout().bytes(); }

std::size_t Plan::feature_bytes() const { return feature_layout().bytes(); }

std::size_t Plan::weight_bytes() const { return std::size_t{padded_n} * padded_k * element_bytes(shape.input); }

std::size_t Plan::output_bytes() const { return k_tiles.size() * output_layout().bytes(); }

std::size_t Plan::task_count() const {
    std::size_t count = 0;
    for (const std::vector<TaskTile>& tasks : cores) {
        count += tasks.size();
    }
    return count;
}

Result<Plan> plan_matmul(const MatmulShape& shape, const ChipProfile& chip, const PlanOptions& options) {
    NPU_TRY(check_arguments(shape, chip, options));
    Plan plan{.shape = shape,
              .options = options,
              .padded_n = padded_kernels(shape.input, shape.n),
              .padded_k = padded_channels(shape.input, shape.k),
              .k_tiles = k_tiles(shape.k, shape.input, chip, options),
              .cores = {}};
    NPU_ASSIGN(const std::uint32_t task_rows, rows_per_task(plan, chip));
    const std::uint32_t group = info(shape.input).kernels_per_group;
    const std::uint32_t task_channels = chip.max_n / group * group;

    for (const CoreWork& work : deal(shape.m, plan.padded_n, group, options.cores)) {
        const std::vector<Range> row_ranges = cut_to(work.rows, task_rows, 1);
        const std::vector<Range> channel_ranges = cut_to(work.channels, task_channels, group);
        const std::uint64_t count = std::uint64_t{plan.k_tiles.size()} * row_ranges.size() * channel_ranges.size();
        if (count > chip.max_tasks_per_submit) {
            return make_error(ErrorCode::unsupported,
                              "matmul of M=%u N=%u K=%u takes %llu tasks on one core, a submission holds %u: split M",
                              shape.m, shape.n, shape.k, static_cast<unsigned long long>(count),
                              chip.max_tasks_per_submit);
        }
        std::vector<TaskTile>& tasks = plan.cores.emplace_back();
        for (std::uint32_t k_tile = 0; k_tile < plan.k_tiles.size(); ++k_tile) {
            for (const Range& channels : channel_ranges) {
                for (const Range& rows : row_ranges) {
                    const bool tall = one_pixel_wide(options);
                    const std::uint32_t banks = data_banks(tall ? 1 : rows.count, tall ? rows.count : 1,
                                                           plan.k_tiles[k_tile].k, shape.input, chip, options);
                    tasks.push_back({.k_tile = k_tile,
                                     .m0 = rows.first,
                                     .m = rows.count,
                                     .n0 = channels.first,
                                     .n = channels.count,
                                     .data_banks = banks,
                                     .weight_banks = chip.cbuf_banks - banks});
                }
            }
        }
        if (options.weight_reuse) {
            mark_weight_reuse(plan, tasks, chip);
        }
    }
    return plan;
}

rockchip::TaskWork tile_work(const Plan& plan, const TaskTile& tile) {
    const std::uint64_t k = plan.k_tiles[tile.k_tile].k;
    const std::uint64_t input_bytes = element_bytes(plan.shape.input);
    const std::uint64_t output_bytes = element_bytes(plan.shape.output);
    const std::uint32_t words = body_words(plan.options.vendor_preamble, plan.options.emit_rdma) + rockchip::tail_words;
    return {.macs = k * tile.m * tile.n,
            .feature_bytes = k * tile.m * input_bytes,
            .weight_bytes = tile.weight_reuse ? 0 : k * tile.n * input_bytes,
            .output_bytes = output_bytes * tile.m * tile.n,
            .command_words = words,
            .precision = plan.shape.input};
}

double predicted_seconds(const Plan& plan, const ChipProfile& chip) {
    std::vector<std::vector<rockchip::TaskWork>> work;
    for (const std::vector<TaskTile>& tasks : plan.cores) {
        std::vector<rockchip::TaskWork>& core = work.emplace_back();
        for (const TaskTile& tile : tasks) {
            core.push_back(tile_work(plan, tile));
        }
    }
    const std::vector<rockchip::CoreWork> cores(work.begin(), work.end());
    return submission_seconds(cores, chip, rockchip::conditions(chip));
}

}  // namespace npu::compile
