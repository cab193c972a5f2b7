// What a task costs. A task is limited either by the array (multiply-accumulates over the rate it sustains) or
// by memory (bytes over the share of DDR bandwidth its core gets), whichever takes longer, plus the time to fetch
// and start it; a submission adds the system call and the interrupt. The constants are chip data (chip.cpp), each
// with the published measurement that fixes it; the shape of the model is ours. A first model: it does not know
// DDR page effects, cache synchronisation or clocks below the nominal one.
#pragma once

#include <cstdint>
#include <span>

#include "rockchip/chip.h"
#include "rockchip/precision.h"

namespace npu::rockchip {

// The work of one task, counted where the task is made (planner) or where it runs (simulator).
struct TaskWork {
    std::uint64_t macs = 0;
    std::uint64_t feature_bytes = 0;  // read from memory
    std::uint64_t weight_bytes = 0;   // read from memory
    std::uint64_t output_bytes = 0;   // written to memory
    std::uint64_t command_words = 0;  // 64-bit words fetched
    Precision precision = Precision::int8;
};

// Seconds that one task of a chain takes while `active_cores` cores share the memory.
double task_seconds(const TaskWork& work, const ChipProfile& chip, std::uint32_t active_cores);

// Seconds of one submission whose cores run chains that take `chain_seconds` each.
double submission_seconds(std::span<const double> chain_seconds, const ChipProfile& chip);

}  // namespace npu::rockchip
