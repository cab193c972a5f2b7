// What the preload library says about one process, as JSON text, for `npu sim` to add up.
#pragma once

#include <string>

#include "sim/journal.h"

namespace npu::sim {

struct ProcessReport {
    int process = 0;
    std::string program;    // name of the executable
    bool complete = false;  // false: the process may have done more before it was killed
    KernelStatistics statistics;
    std::uint64_t memory_in_use = 0;
    std::vector<Finding> findings;
    std::string faults;  // Faults::report()
};

// One JSON object. Valid UTF-8 whatever the strings hold.
std::string to_json(const ProcessReport& report);

}  // namespace npu::sim
