#include "compile/search.h"

#include <algorithm>

#include "compile/reduce.h"

namespace npu::compile {

using rockchip::info;

namespace {

std::vector<Reduction> reductions(const MatmulShape& shape, Reduce reduce) {
    const Reduction device = device_reduction(shape.input, shape.output);
    const bool allowed = reduce == Reduce::any || (reduce == Reduce::automatic && agreed(device));
    if (device == Reduction::host || reduce == Reduce::host) {
        return {Reduction::host};
    }
    if (reduce == Reduce::device) {
        return {device};
    }
    return allowed ? std::vector<Reduction>{Reduction::host, device} : std::vector<Reduction>{Reduction::host};
}

}  // namespace

Result<std::vector<PricedPlan>> search_plans(const MatmulShape& shape, const ChipProfile& chip,
                                             const PlanOptions& options, const rockchip::Conditions& conditions,
                                             Reduce reduce) {
    std::vector<PricedPlan> plans;
    Error error{};
    PlanOptions with = options;
    for (const Reduction reduction : reductions(shape, reduce)) {
        with.reduction = reduction;
        for (const Split split : {Split::channels, Split::rows}) {
            with.split = split;
            for (const Order order : {Order::rows_last, Order::channels_last}) {
                with.order = order;
                auto plan = plan_matmul(shape, chip, with);
                if (!plan) {
                    error = plan.error();
                    continue;
                }
                const auto same_tasks = [&](const PricedPlan& other) {
                    return other.plan.cores == plan->cores && other.plan.reduces() == plan->reduces();
                };
                if (std::ranges::none_of(plans, same_tasks)) {
                    const double seconds = predicted_seconds(*plan, chip, conditions);
                    const double reading = read_back_seconds(*plan, chip);
                    plans.push_back({std::move(*plan), seconds, reading});
                }
            }
        }
    }
    if (plans.empty()) {
        return error;
    }
    std::ranges::stable_sort(plans, {}, &PricedPlan::total);
    return plans;
}

Result<PricedPlan> best_plan(const MatmulShape& shape, const ChipProfile& chip, const PlanOptions& options,
                             const rockchip::Conditions& conditions, Reduce reduce) {
    NPU_ASSIGN(std::vector<PricedPlan> plans, search_plans(shape, chip, options, conditions, reduce));
    return std::move(plans.front());
}

Result<Reduce> reduce_named(std::string_view name) {
    if (name == "host") {
        return Reduce::host;
    }
    if (name == "device") {
        return Reduce::device;
    }
    if (name == "auto") {
        return Reduce::automatic;
    }
    return make_error(ErrorCode::invalid_argument, "partial sums are added by host, device or auto, not '%.*s'",
                      static_cast<int>(name.size()), name.data());
}

std::uint32_t best_max_k(std::uint32_t n, std::uint32_t k, Precision input, Precision output, const ChipProfile& chip) {
    constexpr std::uint32_t rows = 512;      // a usual size of a prompt's batches
    constexpr std::uint32_t more_tiles = 8;  // than the fewest
    const rockchip::Conditions conditions = rockchip::conditions(chip);
    const std::uint32_t block = info(input).channels_per_block;
    const std::uint32_t blocks = ceil_div(k, block);
    const auto fewest = static_cast<std::uint32_t>(k_tiles(k, input, chip, {}).size());
    std::uint32_t best = 0;
    double best_seconds = 0;
    for (std::uint32_t count = fewest; count != 0 && count <= std::min(fewest + more_tiles, blocks); ++count) {
        const std::uint32_t max_k = ceil_div(blocks, count) * block;
        const auto plan =
            best_plan({rows, n, k, input, output}, chip, {.cores = chip.cores, .max_k = max_k}, conditions);
        if (plan && (best == 0 || plan->seconds < best_seconds)) {
            best = max_k;
            best_seconds = plan->seconds;
        }
    }
    return best;
}

}  // namespace npu::compile
