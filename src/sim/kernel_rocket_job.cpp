#include "sim/kernel_rocket_job.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "rockchip/command.h"

namespace npu::sim {

namespace {

namespace rocket = uapi::rocket;

}  // namespace

std::uint32_t completing_interrupts(std::uint32_t job_flags) {
    return ((job_flags & rocket::job_no_dpu_done) == 0 ? rockchip::interrupt_dpu : 0) |
           ((job_flags & rocket::job_ppu_done) != 0 ? rockchip::interrupt_ppu : 0);
}

struct RocketCore::Progress {
    std::vector<TaskWork> work;
    std::vector<Finding> findings;

    void hang(unsigned core, std::uint32_t task, std::string message) {
        findings.push_back({Severity::hang, core, task, std::move(message)});
    }
};

RocketCore::RocketCore(unsigned index, const SimOptions& options, Journal& journal)
    : index_(index), options_(options), journal_(journal), core_(core_options(options, index)) {}

// `count` tasks from `first` on in one kick. True when an interrupt that the driver waits for ended it.
bool RocketCore::kick(const RocketJob& job, std::uint32_t first, std::uint32_t count, const Memory& memory,
                      Progress& progress) {
    const rocket::Task& task = job.tasks[first];
    KickResult result =
        core_.run({.base = task.regcmd,
                   .amount = rockchip::fetch_amount(task.regcmd_count) & 0xffff,  // as the field cuts it
                   .task_number = count,
                   .dma_base = 0,
                   .continues_job = first > 0},
                  memory);
    std::ranges::move(result.work, std::back_inserter(progress.work));
    for (Finding& finding : result.findings) {
        finding.task += first;
        progress.findings.push_back(std::move(finding));
    }
    if (!result.finished) {
        return false;
    }
    const std::uint32_t awaited = completing_interrupts(job.flags);
    if (awaited != 0 && (result.interrupts & awaited) == 0) {
        progress.hang(
            index_, first + count - 1,
            format("what fires at the end is interrupt 0x%x, and the driver waits for 0x%x (0x300 DPU, 0xc00 "
                   "PPU): the task ran, but its job never completes. Interface 0.0 knows only the DPU's; since "
                   "1.3 the job flag PPU_DONE asks for the PPU's",
                   result.interrupts, awaited));
        return false;
    }
    return true;
}

// The first `count` tasks of the job.
bool RocketCore::run_tasks(const RocketJob& job, std::uint32_t count, Progress& progress) {
    const RocketJobMemory memory(*job.space);
    if ((job.flags & rocket::job_batched) != 0) {
        return count == 0 || kick(job, 0, count, memory, progress);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        if (!kick(job, i, 1, memory, progress)) {
            return false;
        }
    }
    return true;
}

bool RocketCore::run_with_faults(const RocketJob& job, Progress& progress) {
    const auto count = static_cast<std::uint32_t>(job.tasks.size());
    const Faults& faults = options_.faults;
    // Every job is an opportunity for every kind, whichever of them then decides.
    const bool goes = faults.hits(FaultKind::core_gone, index_);
    const bool never_starts = faults.hits(FaultKind::job_never_starts, index_);
    const bool dma_error = faults.hits(FaultKind::dma_error, index_);
    const bool times_out = faults.hits(FaultKind::time_out, index_);
    const bool loses_interrupt = faults.hits(FaultKind::lost_interrupt, index_);
    const bool stale = faults.hits(FaultKind::stale_output, index_);
    const auto injected = [&](FaultKind kind, const char* effect) {
        progress.findings.push_back(
            {Severity::warning, index_, 0, format("fault on request, %s: %s", fault_name(kind), effect)});
    };
    if (goes && !gone_) {
        gone_ = FaultKind::core_gone;
    }
    if (gone_) {
        injected(*gone_, "this core does not answer any more");
        return false;
    }
    if (never_starts) {
        injected(FaultKind::job_never_starts, "no task of the job runs");
        return false;
    }
    if (dma_error) {
        injected(FaultKind::dma_error, "the driver only warns about it, and the job times out");
        return false;
    }
    if (times_out) {
        injected(FaultKind::time_out, "the job stops after half of its tasks");
        (void)run_tasks(job, count / 2, progress);
        return false;
    }
    if (loses_interrupt) {
        injected(FaultKind::lost_interrupt, "all tasks run, their end is not noticed");
        (void)run_tasks(job, count, progress);
        return false;
    }
    if (stale) {
        injected(FaultKind::stale_output, "the job completes and has written nothing");
        return true;
    }
    return run_tasks(job, count, progress);
}

bool RocketCore::run(const RocketJob& job) {
    Progress progress;
    const bool completed = run_with_faults(job, progress);
    if (options_.on_task) {
        std::ranges::for_each(progress.work, options_.on_task);
    }
    const std::array cores{rockchip::CoreWork(progress.work)};
    const bool batched = (job.flags & rocket::job_batched) != 0;
    const double seconds = options_.submission_seconds ? options_.submission_seconds(cores, batched ? 0 : 1) : 0;
    if (completed && seconds * 1000 > rocket::job_timeout_ms) {
        progress.findings.push_back(
            {Severity::warning, index_, 0,
             format("a job of %zu tasks is predicted to take %.0f ms: after %u ms the driver gives "
                    "it up and resets the core; split it",
                    job.tasks.size(), seconds * 1000, rocket::job_timeout_ms)});
    }
    for (Finding& finding : progress.findings) {
        journal_.add(std::move(finding));
    }
    journal_.add_submission(completed, cores, seconds);
    return completed;
}

void RocketCore::reset() {
    if (options_.faults.hits(FaultKind::reset_fails, index_) && !gone_) {
        gone_ = FaultKind::reset_fails;
    }
    if (!gone_) {
        core_.soft_reset();
    }
}

}  // namespace npu::sim
