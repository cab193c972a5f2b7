#include "sim/kernel_rknpu_job.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "rockchip/command.h"

namespace npu::sim {

namespace {

namespace rknpu = uapi::rknpu;

// Loading a table takes one write per entry; no other task comes near.
constexpr std::uint32_t table_entries = 513;

rknpu::Task read_task(const RknpuObject& tasks, std::uint64_t index) {
    rknpu::Task task;
    std::memcpy(&task, tasks.buffer->cpu_view().data() + index * sizeof task, sizeof task);
    return task;
}

bool inside(const RknpuObject& tasks, const rknpu::SubcoreTask& range) {
    return range.task_start + std::uint64_t{range.task_number} <= tasks.buffer->bytes() / sizeof(rknpu::Task);
}

// The driver sees interrupts as pairs: either bit of a pair counts as both. Bits above the PPU's, which are the DMA
// errors, it does not see at all.
std::uint32_t as_pairs(std::uint32_t status) {
    std::uint32_t pairs = 0;
    for (std::uint32_t pair = 0x3; pair <= rockchip::interrupt_ppu; pair <<= 2) {
        pairs |= (status & pair) != 0 ? pair : 0;
    }
    return pairs;
}

// The pairs of the blocks that a convolution passes before the DPU: feature, weights, CSC, CORE.
bool names_an_earlier_block(std::uint32_t mask) { return mask == 0x3 || mask == 0xc || mask == 0x30 || mask == 0xc0; }

// One core's part of a job while it runs.
class CoreRunner {
  public:
    CoreRunner(Core& core, unsigned index, const RknpuJob& job, const SimOptions& options)
        : core_(core), index_(index), job_(job), options_(options) {}

    RknpuCoreRun run(const rknpu::SubcoreTask& range, const RknpuCoreFaults& faults) {
        if (start(range, faults)) {
            for (std::uint32_t done = 0; done < range.task_number;) {
                const std::uint32_t count = std::min(range.task_number - done, options_.chip->max_tasks_per_submit);
                if (!kick(std::uint64_t{range.task_start} + done, count, done != 0, faults)) {
                    return std::move(run_);
                }
                done += count;
            }
            run_.completed = true;
            if (options_.on_task) {
                std::ranges::for_each(run_.work, options_.on_task);
            }
        }
        return std::move(run_);
    }

  private:
    // False: nothing runs.
    bool start(const rknpu::SubcoreTask& range, const RknpuCoreFaults& faults) {
        if (faults.core_dead) {
            hang(faults.why);
        } else if (faults.never_starts) {
            hang("fault job-never-starts: the job is committed, the task counter stays 0, no interrupt comes");
        } else if (faults.dma_error) {
            hang(
                "fault dma-error: the core raises the DMA error interrupt; the driver does not look at it and waits "
                "for the interrupts of the last task");
        } else if (range.task_number == 0) {
            hang(
                "the subcore_task entry of this core has no tasks (entry i for core i with one or two cores, entry "
                "i + 2 with three): the core never completes");
        } else if (!inside(*job_.tasks, range)) {
            hang(format(
                "tasks %u + %u lie outside the task object of %llu bytes: a real driver reads what lies behind "
                "it",
                range.task_start, range.task_number, static_cast<unsigned long long>(job_.tasks->buffer->bytes())));
        } else {
            return true;
        }
        run_.core_hangs = true;
        return false;
    }

    // One start of the core: `count` tasks from descriptor `first_index`. False: it does not complete.
    bool kick(std::uint64_t first_index, std::uint32_t count, bool continues, const RknpuCoreFaults& faults) {
        const std::uint64_t last_index = first_index + count - 1;
        const rknpu::Task first = read_task(*job_.tasks, first_index);
        const std::uint32_t mask = read_task(*job_.tasks, last_index).int_mask;
        std::uint32_t status = mask;
        run_.counter = count;
        if (!job_.stale_output) {
            const std::uint32_t asked = faults.time_out ? count / 2 : count;
            const KickResult result = start_core(first, first_index, asked, continues);
            run_.counter = result.tasks_finished;
            if (faults.time_out) {
                hang(format("fault time-out: the core stops after %u of %u tasks", result.tasks_finished, count));
            }
            if (faults.time_out || !result.finished) {
                run_.core_hangs = true;
                return false;
            }
            status = completion_of(result, mask, last_index);
        } else {
            run_.findings.push_back({Severity::corrupt, index_, 0,
                                     "fault stale-output: the job completes and has written nothing, as a first job "
                                     "after an allocation sometimes does"});
        }
        if (faults.lost_interrupt) {
            hang("fault lost-interrupt: all tasks ran, but the interrupt did not arrive");
            return false;
        }
        if (status == 0) {
            return false;
        }
        if (job_.blocking) {
            std::memcpy(job_.tasks->buffer->cpu_view().data() + last_index * sizeof(rknpu::Task) +
                            offsetof(rknpu::Task, int_status),
                        &status, sizeof status);
        }
        return true;
    }

    KickResult start_core(const rknpu::Task& first, std::uint64_t index, std::uint32_t count, bool continues) {
        if (first.regcmd_addr >> 32 != 0) {
            run_.findings.push_back(
                {Severity::corrupt, index_, static_cast<std::uint32_t>(index),
                 format("task %llu: regcmd_addr 0x%llx does not fit the 32-bit register, which takes the low half",
                        static_cast<unsigned long long>(index), static_cast<unsigned long long>(first.regcmd_addr))});
        }
        KickResult result;
        if (count != 0) {
            result = core_.run({.base = static_cast<std::uint32_t>(first.regcmd_addr),
                                .amount = rockchip::fetch_amount(first.regcfg_amount + rockchip::tail_words),
                                .task_number = count,
                                .dma_base = static_cast<std::uint32_t>(job_.arguments.task_base_addr),
                                .continues_job = continues},
                               *job_.memory);
        }
        std::ranges::move(result.work, std::back_inserter(run_.work));
        std::ranges::move(result.findings, std::back_inserter(run_.findings));
        return result;
    }

    // What the driver takes for the end of the job: the interrupts as it sees them, or 0 if it goes on waiting.
    std::uint32_t completion_of(const KickResult& result, std::uint32_t mask, std::uint64_t last_index) {
        const std::uint32_t status = as_pairs(result.interrupts);
        const auto task = static_cast<std::uint32_t>(last_index);
        if ((result.interrupts & mask) != 0 && status == mask) {
            return status;
        }
        if (names_an_earlier_block(mask) && !result.work.empty() && result.work.back().macs != 0) {
            run_.findings.push_back({Severity::corrupt, index_, task,
                                     format("int_mask 0x%x of the last task names a block before the DPU: the job ends "
                                            "when that block is done, before the outputs are in memory",
                                            mask)});
            return mask;
        }
        const std::string message = format(
            "int_mask 0x%x of the last task %u: what fires is 0x%x, and the driver waits for exactly the mask, "
            "in whole pairs",
            mask, task, status);
        run_.findings.push_back({Severity::hang, index_, task, message});
        return options_.mode == Mode::lenient ? status : 0;
    }

    void hang(std::string message) { run_.findings.push_back({Severity::hang, index_, 0, std::move(message)}); }

    Core& core_;
    const unsigned index_;
    const RknpuJob& job_;
    const SimOptions& options_;
    RknpuCoreRun run_;
};

}  // namespace

void RknpuFence::settle(bool completed) {
    if (!settled) {
        return;
    }
    signalled = completed;
    if (completed) {
        done->signal();
    }
    settled->signal();
    done.reset();
    settled.reset();
}

RknpuCoreRun run_on_core(Core& core, unsigned index, const RknpuJob& job, const rknpu::SubcoreTask& range,
                         const RknpuCoreFaults& faults, const SimOptions& options) {
    return CoreRunner(core, index, job, options).run(range, faults);
}

std::vector<Finding> inspect_descriptors(const RknpuJob& job) {
    std::vector<Finding> findings;
    for (std::size_t i = 0; i < job.cores.size(); ++i) {
        const rknpu::SubcoreTask& range = job.ranges[i];
        if (range.task_number == 0 || !inside(*job.tasks, range)) {
            continue;
        }
        bool loads_table = false;
        for (std::uint32_t task = 0; task < range.task_number; ++task) {
            loads_table |= read_task(*job.tasks, std::uint64_t{range.task_start} + task).regcfg_amount >= table_entries;
        }
        if (!loads_table) {
            continue;
        }
        if ((job.arguments.flags & rknpu::job_pingpong) != 0) {
            findings.push_back({Severity::warning, job.cores[i], 0,
                                "SUBMIT with PINGPONG of a chain that loads a table: published reports say that the "
                                "load races with the tasks that use it; leave the flag out"});
        }
        const std::uint64_t last = std::uint64_t{range.task_start} + range.task_number - 1;
        if (read_task(*job.tasks, last).int_status != 0) {
            findings.push_back({Severity::warning, job.cores[i], static_cast<std::uint32_t>(last),
                                "SUBMIT of the same descriptors again, for a chain that loads a table: published "
                                "reports say that such jobs fail; write the descriptors anew for each submission"});
        }
    }
    return findings;
}

}  // namespace npu::sim
