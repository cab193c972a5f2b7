// Which plan is best, by predicted cost. The space is small because most choices have one best answer: equal parts, as few
// as fit. What is left to try is what is dealt to the cores, the order of a core's tasks, and how K is cut.
//
// How K is cut decides in which order partial sums are added and how weights lie in memory, so it may depend on the
// weights (N, K, formats) and the chip, never on the batch, the cores that are left or the driver: it is chosen once for a
// long prompt on all cores. A full-length K leaves the CBUF room for few rows, and the weights are streamed again for each
// handful; a short one writes more partial sums.
#pragma once

#include <vector>

#include "compile/plan.h"

namespace npu::compile {

struct PricedPlan {
    Plan plan;
    double seconds = 0;  // of one submission
};

// All plans of the space for a shape, cheapest first, equal ones in the order of the space. `options` gives what is not
// searched: cores, how K is cut (max_k), arrangements, constraints, which reuse is allowed. Errors: those of plan_matmul
// when no plan is possible.
Result<std::vector<PricedPlan>> search_plans(const MatmulShape& shape, const ChipProfile& chip,
                                             const PlanOptions& options, const rockchip::Conditions& conditions);

// The first of them.
Result<PricedPlan> best_plan(const MatmulShape& shape, const ChipProfile& chip, const PlanOptions& options,
                             const rockchip::Conditions& conditions);

// PlanOptions::max_k for weights of N x K: the largest K tile of the cut that makes 512 rows cheapest. 0 when nothing can
// be planned.
std::uint32_t best_max_k(std::uint32_t n, std::uint32_t k, Precision input, Precision output, const ChipProfile& chip);

}  // namespace npu::compile
