// One job of the simulated rocket driver, and a core as that driver uses it. The driver does not let the hardware follow
// the chain: it starts task after task by hand (TASK_NUMBER = 1), each from the interrupt of the one before, and it takes
// only the DPU's interrupt for an end, so a task that ends in the PPU runs and never completes. A job that is not done
// after half a second is given up: the core is reset and the job's fence signals as if all were well; the client gets no
// error and finds old bytes where results should be. A DMA error makes the driver write a warning and nothing else.
// Patched kernels (interface 1.1 and later) hand a whole chain to the core in one kick, and may wait for the PPU.
// Source: mainline driver; published notes on the patches.
//
// Unknown: what a patched kernel does when the interrupt of the wrong block fires ("waits for a grace time" is all that
// is published); here it is a time-out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/completion.h"
#include "sim/core.h"
#include "sim/journal.h"
#include "sim/kernel_rocket_memory.h"
#include "sim/sim.h"
#include "uapi/rocket.h"

namespace npu::sim {

struct RocketJob {
    std::vector<uapi::rocket::Task> tasks;
    std::uint32_t flags = 0;     // job flags
    std::uint64_t sequence = 0;  // order of submission over all files
    std::shared_ptr<AddressSpace> space;
    std::vector<std::shared_ptr<RocketBuffer>> buffers;  // that it names; held until it is over
    const std::shared_ptr<Completion> done = std::make_shared<Completion>();
};

// The interrupts of which one ends a kick; 0 with job_no_dpu_done alone: any end will do.
std::uint32_t completing_interrupts(std::uint32_t job_flags);

// A core and what the driver knows of it. Not thread-safe: one thread per core.
class RocketCore {
  public:
    RocketCore(unsigned index, const SimOptions& options, Journal& journal);

    // Runs the job and records findings and totals. True when its end was signalled; false when the driver would wait for
    // it until the time-out.
    bool run(const RocketJob& job);

    // What the driver does after a time-out.
    void reset();

  private:
    struct Progress;  // of the job that runs

    bool kick(const RocketJob& job, std::uint32_t first, std::uint32_t count, const Memory& memory, Progress& progress);
    bool run_tasks(const RocketJob& job, std::uint32_t count, Progress& progress);
    bool run_with_faults(const RocketJob& job, Progress& progress);

    const unsigned index_;
    const SimOptions& options_;
    Journal& journal_;
    Core core_;
    std::optional<FaultKind> gone_;  // why the core never answers again
};

}  // namespace npu::sim
