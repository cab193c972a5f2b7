#include "compile/plan.h"

#include <algorithm>

#include "compile/reduce.h"
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

// Rows come in fours where options say so, but for a single one.
std::uint32_t row_unit(std::uint32_t m, const PlanOptions& options) { return options.rows_in_fours && m > 1 ? 4 : 1; }

std::uint32_t padded_rows(std::uint32_t m, const PlanOptions& options) {
    const bool twelve = options.reduction == Reduction::accumulate && options.twelve_rows_to_accumulate;
    return align_up(twelve ? std::max(m, least_rows_to_accumulate) : m, row_unit(m, options));
}

std::vector<CoreWork> deal(std::uint32_t padded_m, std::uint32_t padded_n, std::uint32_t group,
                           const PlanOptions& options) {
    std::vector<CoreWork> work;
    if (options.split == Split::rows) {
        for (const Range& rows : cut({0, padded_m}, options.cores, row_unit(padded_m, options))) {
            work.push_back({rows, {0, padded_n}});
        }
    } else {
        for (const Range& channels : cut({0, padded_n}, options.cores, group)) {
            work.push_back({{0, padded_m}, channels});
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
        return make_error(ErrorCode::unsupported, "matmul from %s to %s: built are %s", info(shape.input).name,
                          info(shape.output).name, built_pairs);
    }
    // A row-major output line is one row; its gap field counts atoms.
    const std::uint32_t row_atoms =
        padded_kernels(shape.input, shape.n) * info(shape.output).bits / 8 / rockchip::atom_bytes;
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
    const std::uint32_t unit = row_unit(plan.padded_m, plan.options);
    if (rows < unit) {
        return make_error(ErrorCode::unsupported,
                          "tasks of %u rows at most, and rows come in fours (rows_in_fours): lower max_k", rows);
    }
    return rows / unit * unit;
}

// Marks tasks that find weights or features of the task before in the CBUF: the same ones, in the same banks, and few
// enough to have stayed. Features always stay.
void mark_reuse(const Plan& plan, std::vector<TaskTile>& tasks, const ChipProfile& chip) {
    for (std::size_t i = 1; i < tasks.size(); ++i) {
        const TaskTile& before = tasks[i - 1];
        TaskTile& task = tasks[i];
        if (task.k_tile != before.k_tile || task.data_banks != before.data_banks) {
            continue;
        }
        const std::uint64_t bytes =
            std::uint64_t{task.n} * plan.k_tiles[task.k_tile].k * info(plan.shape.input).bits / 8;
        task.weight_reuse = plan.options.weight_reuse && task.n0 == before.n0 && task.n == before.n &&
                            bytes <= std::uint64_t{task.weight_banks} * chip.cbuf_bank_bytes;
        task.data_reuse = plan.options.data_reuse && task.m0 == before.m0 && task.m == before.m;
    }
}

// Every pair of a range of rows and a range of channels, in the order of the options.
std::vector<CoreWork> blocks(const std::vector<Range>& rows, const std::vector<Range>& channels, Order order) {
    std::vector<CoreWork> all;
    all.reserve(rows.size() * channels.size());
    const std::size_t outer = order == Order::rows_last ? channels.size() : rows.size();
    const std::size_t inner = order == Order::rows_last ? rows.size() : channels.size();
    for (std::size_t i = 0; i < outer; ++i) {
        for (std::size_t j = 0; j < inner; ++j) {
            all.push_back(order == Order::rows_last ? CoreWork{rows[j], channels[i]} : CoreWork{rows[i], channels[j]});
        }
    }
    return all;
}

}  // namespace

FeatureLayout Plan::feature_layout() const { return {shape.input, options.feature, padded_m, padded_k}; }

WeightLayout Plan::weight_layout(std::size_t k_tile) const { return {shape.input, padded_n, k_tiles[k_tile].k}; }

OutputLayout Plan::output_layout() const { return {shape.output, options.output, padded_m, padded_n}; }

std::size_t Plan::weight_offset(std::size_t k_tile) const {
    return packed_bytes(shape.input, std::size_t{k_tiles[k_tile].k0} * padded_n);
}

std::size_t Plan::output_offset(std::size_t k_tile) const {
    const bool in_turn = options.reduction == Reduction::accumulate;
    return (in_turn ? k_tile % 2 : k_tile) * output_layout().bytes();
}

bool Plan::reduces() const { return options.reduction != Reduction::host && k_tiles.size() > 1; }

std::size_t Plan::sum_offset(std::size_t k_tile) const {
    if (options.reduction != Reduction::flying_add || k_tile == 0) {
        return output_offset(k_tile);
    }
    return (k_tile % 2 != 0 ? k_tiles.size() : 0) * output_layout().bytes();
}

std::size_t Plan::result_tiles() const { return reduces() ? 1 : k_tiles.size(); }

std::size_t Plan::result_offset(std::size_t result) const {
    return reduces() ? sum_offset(k_tiles.size() - 1) : output_offset(result);
}

std::size_t Plan::result_bytes() const { return result_tiles() * output_layout().bytes(); }

std::size_t Plan::end_of_core(std::size_t core) const {
    if (const std::vector<AddTask> adds = add_tasks(*this, cores[core]); !adds.empty()) {
        return adds.back().sum + adds.back().bytes();
    }
    const TaskTile& last = cores[core].back();
    return output_offset(last.k_tile) + output_layout().offset(last.m0 + last.m - 1, last.n0 + last.n - 1) +
           info(shape.output).bits / 8;
}

std::size_t Plan::feature_bytes() const { return feature_layout().bytes(); }

std::size_t Plan::weight_bytes() const { return packed_bytes(shape.input, std::size_t{padded_n} * padded_k); }

std::size_t Plan::output_bytes() const {
    std::size_t slots = k_tiles.size();
    if (reduces()) {
        slots = options.reduction == Reduction::flying_add ? slots + 1 : 2;
    }
    return slots * output_layout().bytes();
}

std::uint32_t Plan::result_shift() const {
    if (shape.input != Precision::int8 || (shape.output != Precision::int16 && shape.output != Precision::fp16)) {
        return 0;
    }
    constexpr std::uint64_t largest_product = 127 * 127;
    const std::uint64_t largest_result = shape.output == Precision::int16 ? 32767 : 65504;
    std::uint64_t largest_sum = 0;
    for (const KTile& tile : k_tiles) {
        largest_sum = std::max(largest_sum, tile.k * largest_product);
    }
    std::uint32_t shift = 0;
    while (largest_sum >> shift > largest_result) {
        ++shift;
    }
    return shift;
}

std::size_t Plan::task_count() const {
    std::size_t count = 0;
    for (const std::vector<TaskTile>& tasks : cores) {
        count += tasks.size() + add_tasks(*this, tasks).size();
    }
    return count;
}

Result<Plan> plan_matmul(const MatmulShape& shape, const ChipProfile& chip, const PlanOptions& options) {
    NPU_TRY(check_arguments(shape, chip, options));
    Plan plan{.shape = shape,
              .options = options,
              .padded_m = padded_rows(shape.m, options),
              .padded_n = padded_kernels(shape.input, shape.n),
              .padded_k = padded_channels(shape.input, shape.k),
              .k_tiles = k_tiles(shape.k, shape.input, chip, options),
              .cores = {}};
    NPU_ASSIGN(const std::uint32_t task_rows, rows_per_task(plan, chip));
    const std::uint32_t group = info(shape.input).kernels_per_group;
    const std::uint32_t task_channels = chip.max_n / group * group;
    const bool tall = one_pixel_wide(options);

    for (const CoreWork& work : deal(plan.padded_m, plan.padded_n, group, options)) {
        const std::vector<Range> rows = cut_to(work.rows, task_rows, row_unit(plan.padded_m, options));
        const std::vector<Range> channels = cut_to(work.channels, task_channels, group);
        const std::uint64_t count = std::uint64_t{plan.k_tiles.size()} * rows.size() * channels.size();
        if (count > chip.max_tasks_per_submit) {
            return make_error(ErrorCode::unsupported,
                              "matmul of M=%u N=%u K=%u takes %llu tasks on one core, a submission holds %u: split M",
                              shape.m, shape.n, shape.k, static_cast<unsigned long long>(count),
                              chip.max_tasks_per_submit);
        }
        std::vector<TaskTile>& tasks = plan.cores.emplace_back();
        for (std::uint32_t k_tile = 0; k_tile < plan.k_tiles.size(); ++k_tile) {
            for (const CoreWork& block : blocks(rows, channels, options.order)) {
                const std::uint32_t m = block.rows.count;
                const std::uint32_t banks =
                    data_banks(tall ? 1 : m, tall ? m : 1, plan.k_tiles[k_tile].k, shape.input, chip, options);
                tasks.push_back({.k_tile = k_tile,
                                 .m0 = block.rows.first,
                                 .m = m,
                                 .n0 = block.channels.first,
                                 .n = block.channels.count,
                                 .data_banks = banks,
                                 .weight_banks = chip.cbuf_banks - banks});
            }
        }
        mark_reuse(plan, tasks, chip);
    }
    NPU_TRY(check_reduction(plan, chip));
    return plan;
}

rockchip::TaskWork tile_work(const Plan& plan, const TaskTile& tile) {
    const std::uint64_t k = plan.k_tiles[tile.k_tile].k;
    const std::uint64_t input_bits = info(plan.shape.input).bits;
    const std::uint64_t output_bytes = info(plan.shape.output).bits / 8;
    const bool accumulates = plan.reduces() && plan.options.reduction == Reduction::accumulate;
    const std::uint32_t words =
        body_words(plan.options.vendor_preamble, plan.options.emit_rdma || accumulates) + rockchip::tail_words;
    const std::uint64_t result_bytes = output_bytes * tile.m * tile.n;
    return {.macs = k * tile.m * tile.n,
            .feature_bytes = tile.data_reuse ? 0 : k * tile.m * input_bits / 8,
            .weight_bytes = tile.weight_reuse ? 0 : k * tile.n * input_bits / 8,
            .output_bytes = result_bytes,
            .command_words = words,
            .precision = plan.shape.input,
            .operand_bytes = accumulates && tile.k_tile != 0 ? result_bytes : 0};
}

std::vector<std::vector<rockchip::TaskWork>> plan_work(const Plan& plan) {
    std::vector<std::vector<rockchip::TaskWork>> work;
    for (const std::vector<TaskTile>& tasks : plan.cores) {
        std::vector<rockchip::TaskWork>& core = work.emplace_back();
        core.reserve(tasks.size());
        for (const TaskTile& tile : tasks) {
            core.push_back(tile_work(plan, tile));
        }
        for (const AddTask& add : add_tasks(plan, tasks)) {
            core.push_back(add_work(add));
        }
    }
    return work;
}

double predicted_seconds(const Plan& plan, const ChipProfile& chip, const rockchip::Conditions& conditions) {
    const std::vector<std::vector<rockchip::TaskWork>> work = plan_work(plan);
    const std::vector<rockchip::CoreWork> cores(work.begin(), work.end());
    return submission_seconds(cores, chip, conditions);
}

double read_back_seconds(const Plan& plan, const ChipProfile& chip) {
    return rockchip::read_back_seconds(plan.result_bytes(), chip);
}

}  // namespace npu::compile
