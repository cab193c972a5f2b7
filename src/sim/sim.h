// The NPU in software, from the outside: a kernel that answers the system calls of a real NPU driver. Code written
// for the driver runs on it unchanged; jobs compute the same bits as silicon, and what silicon answers with a
// timeout is refused with a reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sim/core.h"

namespace npu::sim {

struct SimOptions {
    std::string path = "/dev/dri/card1";  // the only path that open() knows
    std::uint64_t memory_bytes = 0;       // of all buffer objects together; 0: what the host has
    // The NPU sees what was synchronised to it, and the CPU what was synchronised back. Slower; for tests of clients.
    bool strict_sync = false;
    std::uint64_t poison_seed = 1;         // noise in registers that nobody wrote
    bool poison_before_each_kick = false;  // see CoreOptions
    unsigned host_threads = 0;             // cores that run at once; 0: as many as the host has
    // What a task would take on silicon, in seconds; added up per core, the slowest core counts. Called from several
    // threads at once. Empty: jobs take no time.
    std::function<double(const TaskWork&)> task_seconds;
    bool log_findings = true;  // each distinct finding once, as a warning through base/log.h
};

class SimulatedKernel;

// A kernel with the vendor's `rknpu` driver, version 0.9.8, and one RK3588.
std::unique_ptr<SimulatedKernel> make_simulated_kernel(SimOptions options = {});

}  // namespace npu::sim
