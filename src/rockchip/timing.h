// What work costs in time: of one task, of the tasks that one submission chains on each core, and of the way a kernel
// driver starts them. Pure functions of the work, the chip's constants (chip.cpp) and the conditions (clocks, driver).
//
// A task passes four phases, one after the other:
//
//   start     the register group is switched. The command list itself is fetched while the task before runs: that is
//             what the two register groups are for, so only this switch is left of it
//   features  the features come into the CBUF; the array has nothing to multiply yet
//   array     the array multiplies while weights stream through their banks behind it: the longer of the two counts
//   output    the DPU reads its operands (partial sums to add, bias, scales) and writes the results
//
// A task retires before the next one starts: published probes of a chain found every read-after-write and
// write-after-read hazard between tasks honoured. So a chain takes the sum of its tasks. Why these phases: int8 tasks
// of 1 to 36 rows with the same weights (published, 80 to 93 us) grow by the time of their features and results alone,
// so those are not hidden and the few multiplications are; and long fp16 chains (published, 41.9 and 44.8 us per task)
// spend 73 % of their time multiplying, the rest being the time of their partial sums and results.
//
// Cores share the memory. A submission takes as long as its busiest core, but no less than all its bytes take at the
// bandwidth that all cores reach together: phases that do not use the memory on one core leave it to the others.
//
// What it does not know: DDR pages and refresh, how far outputs of a task with many kernel groups overlap its
// multiplications, clocks that are parked, and what the host does at the same time. docs/timing-model.md compares it
// with published measurements.
#pragma once

#include <cstdint>
#include <span>

#include "rockchip/chip.h"
#include "rockchip/precision.h"

namespace npu::rockchip {

// The work of one task, counted where the task is made (planner) or where it runs (simulator).
struct TaskWork {
    std::uint64_t macs = 0;           // padding included: the array multiplies whole kernel groups and channel blocks
    std::uint64_t feature_bytes = 0;  // read from memory; 0 if the CBUF still holds them
    std::uint64_t weight_bytes = 0;   // read from memory; 0 if the CBUF still holds them
    std::uint64_t output_bytes = 0;   // written to memory
    std::uint64_t command_words = 0;  // 64-bit words fetched
    Precision precision = Precision::int8;
    std::uint64_t operand_bytes = 0;  // read by the DPU: element-wise operands, bias, scales
};

// How a kernel driver is set up. The cost of a submission is that of its system call, its interrupt and the wake-up of
// the waiter, which depends on the CPU cores that do them.
enum class KernelSetup : std::uint8_t {
    rknpu,             // vendor driver, warm, CPU governors at performance
    rknpu_unpinned,    // vendor driver as people usually meet it
    rocket,            // mainline driver, as shipped: interrupt on a little core, 200 MHz, one kick per task
    rocket_big_core,   // its interrupt moved to a big core
    rocket_same_core,  // and the waiter put on that core
    rocket_patched,    // a patched mainline kernel: 600 MHz, batched jobs
};

// "rknpu", "rknpu-unpinned", "rocket", ...
const char* kernel_setup_name(KernelSetup setup);

struct Conditions {
    double clock_hz = 0;               // of the NPU
    double memory_hz = 0;              // of the DDR; bandwidths of all cores together scale with it
    double submit_seconds = 0;         // of one kick: what passes besides its tasks
    std::uint32_t tasks_per_kick = 0;  // tasks that one kick chains on a core; 0: all of a submission
};

// The conditions that a set-up implies; each may be overwritten. Mainline runs at 200 MHz with one kick per task; patched
// kernels run at 600 MHz and chain (published: programs give them 64 tasks per kick).
Conditions conditions(const ChipProfile& chip, KernelSetup setup = KernelSetup::rknpu);

// Seconds of one task, by resource. `array` and `weights` run side by side; the other parts follow each other.
struct TaskTime {
    double start = 0;
    double features = 0;
    double array = 0;    // multiply-accumulates
    double weights = 0;  // their stream from memory
    double operands = 0;
    double output = 0;

    [[nodiscard]] double total() const;
    TaskTime& operator+=(const TaskTime& other);  // for sums by resource; total() of a sum is not the sum of totals
};

// Seconds of one task on a core that has the memory to itself.
TaskTime task_time(const TaskWork& work, const ChipProfile& chip, const Conditions& conditions);
double task_seconds(const TaskWork& work, const ChipProfile& chip, const Conditions& conditions);

// Bytes that a task moves over the memory bus, its command list included.
std::uint64_t memory_bytes(const TaskWork& work);

// The tasks of one core, in order.
using CoreWork = std::span<const TaskWork>;

// Seconds of one submission.
struct SubmissionTime {
    double tasks = 0;   // of the busiest core's tasks
    double kicks = 0;   // what starting them costs on that core
    double memory = 0;  // all bytes of all cores at the bandwidth they reach together
    double total = 0;   // tasks + kicks, or memory and one kick if that is longer
};

// One entry per core that has work. Without any task, a submission costs one kick.
SubmissionTime submission_time(std::span<const CoreWork> cores, const ChipProfile& chip, const Conditions& conditions);
double submission_seconds(std::span<const CoreWork> cores, const ChipProfile& chip, const Conditions& conditions);

// Seconds the host spends to make `bytes` of one buffer visible to the other side (rknpu MEM_SYNC, rocket PREP_BO or
// FINI_BO). Proportional to the whole buffer, unless the driver syncs ranges. Not part of a submission.
double cache_sync_seconds(std::uint64_t bytes, const ChipProfile& chip);

// Seconds one thread of the host spends to get at `bytes` of results: the synchronisation, and reading them. What it
// computes with them is not counted.
double read_back_seconds(std::uint64_t bytes, const ChipProfile& chip);

}  // namespace npu::rockchip
