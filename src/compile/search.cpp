#include "compile/search.h"

#include <algorithm>

namespace npu::compile {

using rockchip::info;

Result<std::vector<PricedPlan>> search_plans(const MatmulShape& shape, const ChipProfile& chip,
                                             const PlanOptions& options, const rockchip::Conditions& conditions) {
    std::vector<PricedPlan> plans;
    Error error{};
    for (const Split split : {Split::channels, Split::rows}) {
        for (const Order order : {Order::rows_last, Order::channels_last}) {
            PlanOptions with = options;
            with.split = split;
            with.order = order;
            auto plan = plan_matmul(shape, chip, with);
            if (!plan) {
                error = plan.error();
                continue;
            }
            const auto same_tasks = [&](const PricedPlan& other) { return other.plan.cores == plan->cores; };
            if (std::ranges::none_of(plans, same_tasks)) {
                const double seconds = predicted_seconds(*plan, chip, conditions);
                plans.push_back({std::move(*plan), seconds});
            }
        }
    }
    if (plans.empty()) {
        return error;
    }
    std::ranges::stable_sort(plans, {}, &PricedPlan::seconds);
    return plans;
}

Result<PricedPlan> best_plan(const MatmulShape& shape, const ChipProfile& chip, const PlanOptions& options,
                             const rockchip::Conditions& conditions) {
    NPU_ASSIGN(std::vector<PricedPlan> plans, search_plans(shape, chip, options, conditions));
    return std::move(plans.front());
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
