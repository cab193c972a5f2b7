// Where the time of one matmul goes: the tasks of a plan, priced by the timing model, resource by resource, and how far that
// is from what the chip could do at best.
#pragma once

#include <string>

#include "compile/limits.h"
#include "compile/plan.h"
#include "rockchip/timing.h"

namespace npu::tools {

struct Breakdown {
    compile::MatmulShape shape;
    rockchip::KernelSetup kernel = rockchip::KernelSetup::rknpu;
    rockchip::Conditions conditions;
    std::size_t cores = 0;  // that have work
    std::size_t tasks = 0;  // of all cores
    std::size_t kicks = 0;  // of the busiest core
    std::size_t k_tiles = 0;
    std::uint64_t bytes = 0;       // over the memory bus, of all cores
    rockchip::TaskTime busiest;    // by resource, of the busiest core's tasks
    double array_and_weights = 0;  // of the busiest core: per task the longer of the two
    rockchip::SubmissionTime submission;
    double feature_sync = 0;  // host: cache synchronisation of the features before, and of the results after
    double output_sync = 0;
    bool reduces = false;  // the chip adds the partial sums of the K tiles
    double read_back = 0;  // host: synchronisation and reading of the results, on one thread
    compile::Limits limits;
};

Breakdown break_down(const compile::Plan& plan, rockchip::KernelSetup kernel, const rockchip::Conditions& conditions,
                     const rockchip::ChipProfile& chip);

// The resource that the matmul waits for most, as a phrase.
std::string limit(const Breakdown& breakdown);

// Markdown.
std::string describe(const Breakdown& breakdown);

}  // namespace npu::tools
