// A job of the simulated rknpu driver, from SUBMIT to its end. It takes the cores of its mask one by one, in the order
// of each core's queue, and starts when it has them all. Then one of three things happens: all cores raise the interrupts
// that the driver waits for (done); a core does not (stuck: it keeps the core until somebody resets the NPU); or a reset
// takes the core away (dropped). Source: the driver's published kernel source.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/completion.h"
#include "sim/core.h"
#include "sim/faults.h"
#include "sim/kernel_rknpu_objects.h"
#include "uapi/rknpu.h"

namespace npu::sim {

// What FENCE_OUT makes. The client's descriptor shows `done` only: the fence of a job that fails never signals. Both are
// given up once the job has settled, so that old fences hold no descriptors. Guarded by the kernel's lock.
struct RknpuFence {
    std::shared_ptr<Completion> done = std::make_shared<Completion>();
    std::shared_ptr<Completion> settled = std::make_shared<Completion>();  // done, or known never to be
    bool signalled = false;

    void settle(bool completed);  // a second time: no effect
};

// What one core made of its part of a job.
struct RknpuCoreRun {
    bool completed = false;     // the driver got the interrupts that it waits for
    bool core_hangs = false;    // and the core answers nothing until it is reset
    std::uint32_t counter = 0;  // of the core's register: tasks of the last kick
    std::vector<TaskWork> work;
    std::vector<Finding> findings;
};

// Faults that were drawn for one core's part.
struct RknpuCoreFaults {
    bool core_dead = false;  // answers nothing, for the reason in `why`
    const char* why = "";
    bool never_starts = false;
    bool time_out = false;
    bool lost_interrupt = false;
    bool dma_error = false;
};

struct RknpuJob {
    enum class State { queued, committed, done, stuck, dropped };
    using Clock = std::chrono::steady_clock;

    // Set by SUBMIT, then constant.
    uapi::rknpu::Submit arguments{};
    std::shared_ptr<RknpuFile> file;
    bool blocking = true;                          // a thread waits for it and resets the NPU when it fails
    bool known_mask = true;                        // false: the driver takes the cores and starts none of them
    std::vector<unsigned> cores;                   // in order
    std::vector<uapi::rknpu::SubcoreTask> ranges;  // of the task list, one per core
    std::shared_ptr<RknpuObject> tasks;
    std::unique_ptr<RknpuJobMemory> memory;
    std::shared_ptr<RknpuFence> fence;  // with FENCE_OUT
    Clock::time_point submitted;

    // Guarded by the kernel's lock.
    State state = State::queued;
    double seconds = 0;   // on silicon; known when it is done
    bool waited = false;  // was not started at once
    std::size_t cores_held = 0;
    std::size_t runs_left = 0;  // parts that wait for a host thread or run on one
    bool stale_output = false;  // fault: completes without having run
    std::optional<Clock::time_point> committed;
    std::vector<RknpuCoreRun> runs;  // one per core

    [[nodiscard]] bool settled() const { return state != State::queued && state != State::committed; }
};

// Runs the range of the task list on the core: a kick for every 4095 tasks, each from the first descriptor of its piece,
// with the interrupts of its last. Writes int_status into that last descriptor if the job is a blocking one. Called
// without the kernel's lock.
RknpuCoreRun run_on_core(Core& core, unsigned index, const RknpuJob& job, const uapi::rknpu::SubcoreTask& range,
                         const RknpuCoreFaults& faults, const SimOptions& options);

// What looks dangerous in the descriptors of a job before it runs; empty if nothing does.
std::vector<Finding> inspect_descriptors(const RknpuJob& job);

}  // namespace npu::sim
