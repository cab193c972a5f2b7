// The NPU in software, from the outside: a kernel that answers the system calls of a real NPU driver. Code written
// for the driver runs on it unchanged; jobs compute the same bits as silicon, and what silicon answers with a
// timeout is refused with a reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/team.h"
#include "rockchip/timing.h"
#include "sim/core.h"
#include "sim/faults.h"
#include "sim/kernel.h"

namespace npu::sim {

enum class Driver {
    rknpu,   // the vendor's, version 0.9.8
    rocket,  // mainline
};

// Interface version that the rocket driver reports: 0.0 as upstream, 1.5 with batched chained jobs and ranged
// PREP_BO and FINI_BO as patched kernels offer it.
struct RocketInterface {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
};

// What a submission would take on silicon, in seconds: the tasks of each core that takes part, and how many of them one
// start of a core runs (0: all). A rocket job is a submission of its own. Called from several threads at once.
using SubmissionModel = std::function<double(std::span<const rockchip::CoreWork> cores, std::uint32_t tasks_per_kick)>;

struct SimOptions {
    Driver driver = Driver::rknpu;
    RocketInterface rocket;
    std::string path;          // the only path that open() knows; empty: the driver's usual node
    Mode mode = Mode::strict;  // what happens to programs that silicon would hang on or corrupt
    bool real_time = false;    // a job that hangs takes as long to fail as on a board; else it fails at once
    Faults faults;
    const rockchip::ChipProfile* chip = &rockchip::rk3588();
    Convolver::Options array;  // what silicon does where sources leave a choice; see CoreOptions
    std::uint64_t most_operations = CoreOptions{}.most_operations;  // of one task; see CoreOptions
    std::uint64_t memory_bytes = 0;  // of all buffer objects together; 0: what the host has
    // The NPU sees what was synchronised to it, and the CPU what was synchronised back. Slower; for tests of clients.
    bool strict_sync = false;
    std::uint64_t poison_seed = 1;         // noise in registers that nobody wrote
    bool poison_before_each_kick = false;  // see CoreOptions
    unsigned host_threads = 0;             // cores that run at once; 0: as many as the host has
    // Runs what a blocking rknpu SUBMIT has to compute, instead of threads of the kernel's own; called by the thread that
    // submits. Empty: own threads.
    Team team;
    SubmissionModel submission_seconds;            // empty: jobs take no time
    std::function<void(const TaskWork&)> on_task;  // called by the thread of a core for each task that has run
    bool log_findings = true;                      // each distinct finding once, as a warning through base/log.h
};

// How a kernel with these options makes each of its cores.
CoreOptions core_options(const SimOptions& options, unsigned index);

// The node that a driver has on a board: "/dev/dri/card1", "/dev/accel/accel0".
const char* usual_path(Driver driver);

// The timing model (rockchip/timing.h) for kernels with these options; `chip` must outlive it.
SubmissionModel submission_model(const SimOptions& options);

// A kernel with one NPU.
std::unique_ptr<SimulatedKernel> make_simulated_kernel(SimOptions options = {});

}  // namespace npu::sim
