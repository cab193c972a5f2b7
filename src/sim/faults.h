// Faults on request: what boards do now and then, made to happen in the simulated kernel at chosen moments, so that a
// client's recovery can be tested. A specification is a list of rules separated by commas:
//
//     KIND[@CONDITION[@CONDITION...]]
//     at=N      the N-th opportunity of that kind, counted from 1        job-never-starts@at=3
//     every=N   each N-th opportunity                                    lost-interrupt@every=10
//     rate=P    each opportunity with probability P, seeded              stale-output@rate=0.01
//     from=N    not before the N-th opportunity
//     times=N   at most N times
//     core=N    only on that core (kinds that concern a core); opportunities on other cores do not count
//     seed=N    as a rule of its own: the seed of all rates              seed=7
//
// Without at, every or rate a rule hits each opportunity; of the three a rule has at most one. An opportunity is what the
// kind's line below says. A rate decides by seed, rule and number of the opportunity alone, so that a run with one
// client repeats exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace npu::sim {

enum class FaultKind {
    job_never_starts,  // a job on a core: no task runs, no interrupt (reported on boards: task counter stays 0)
    time_out,          // a job on a core: stops after half of its tasks, never completes
    lost_interrupt,    // a job on a core: all tasks run, the interrupt does not arrive: the driver times out
    dma_error,         // a job on a core: the DMA error interrupt instead of completion
    no_memory,         // a buffer creation: ENOMEM
    iova_full,         // a buffer creation: no NPU addresses left
    bad_address,       // a submission: EFAULT while copying arguments
    stale_output,      // a job: completes and has written nothing
    core_gone,         // a job on a core: this core never answers again, also after a reset
    reset_fails,       // a reset after a time-out: does not bring the cores back
};

const char* fault_name(FaultKind kind);  // as in a specification: "job-never-starts"

// Thread-safe. Copyable handle to shared counters; a default-made one never hits.
class Faults {
  public:
    Faults() = default;
    // Fails with the part that could not be read, what is accepted, and an example. Empty text: no rules.
    static Result<Faults> parse(std::string_view specification);

    // Counts an opportunity and says whether the fault happens now. `core` is ignored by kinds without a core.
    bool hits(FaultKind kind, unsigned core = 0) const;

    // How often each rule has hit, as lines "job-never-starts@at=3: 1 of 12 opportunities"; empty without rules.
    [[nodiscard]] std::string report() const;

  private:
    struct Plan;
    std::shared_ptr<Plan> plan_;
};

}  // namespace npu::sim
