// Which plan is best, by predicted cost. The space is small because most choices have one best answer: equal parts, as few
// as fit. What is left to try is what is dealt to the cores, the order of a core's tasks, and how K is cut.
//
// How K is cut decides in which order partial sums are added and how weights lie in memory, so it may depend on the
// weights (N, K, formats) and the chip, never on the batch, the cores that are left or the driver: it is chosen once for a
// long prompt on all cores. A full-length K leaves the CBUF room for few rows, and the weights are streamed again for each
// handful; a short one writes more partial sums.
#pragma once

#include <string_view>
#include <vector>

#include "compile/plan.h"

namespace npu::compile {

struct PricedPlan {
    Plan plan;
    double seconds = 0;            // of one submission
    double read_back_seconds = 0;  // what the host spends to get at the results
    // One after the other: what counts where the host waits before it reads. One that reads beside the next matmul has
    // `seconds` alone to pay.
    [[nodiscard]] double total() const { return seconds + read_back_seconds; }
};

// Who may add the partial sums of K tiles.
enum class Reduce : std::uint8_t {
    host,
    device,     // the chip, wherever there is a way for the formats (reduce.h), the host else
    automatic,  // the chip where that is cheaper, its sums are exact and two sources agree on the words
    any,        // as automatic, whoever agrees: to compare
};

// All plans of the space for a shape, cheapest first, equal ones in the order of the space. `options` gives what is not
// searched: cores, how K is cut (max_k), arrangements, constraints, which reuse is allowed. options.reduction is not
// read: `reduce` says it. Errors: those of plan_matmul when no plan is possible.
Result<std::vector<PricedPlan>> search_plans(const MatmulShape& shape, const ChipProfile& chip,
                                             const PlanOptions& options, const rockchip::Conditions& conditions,
                                             Reduce reduce = Reduce::host);

// The first of them.
Result<PricedPlan> best_plan(const MatmulShape& shape, const ChipProfile& chip, const PlanOptions& options,
                             const rockchip::Conditions& conditions, Reduce reduce = Reduce::host);

// "host", "device" or "auto", as options and the command line have it. Errors: invalid_argument, with these.
Result<Reduce> reduce_named(std::string_view name);

// PlanOptions::max_k for weights of N x K: the largest K tile of the cut that makes 512 rows cheapest. 0 when nothing can
// be planned.
std::uint32_t best_max_k(std::uint32_t n, std::uint32_t k, Precision input, Precision output, const ChipProfile& chip);

}  // namespace npu::compile
