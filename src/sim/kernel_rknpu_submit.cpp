// Jobs of the simulated rknpu driver. A job is a range of task descriptors per core. The driver reads the first and
// the last descriptor of the range, starts the core at the first command list and waits for the interrupts of the
// last; everything between is a chain that the core follows by itself.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>

#include "rockchip/command.h"
#include "sim/kernel_rknpu.h"
#include "sim/kernel_rknpu_snapshot.h"

namespace npu::sim {

namespace {

namespace rknpu = uapi::rknpu;

// Cores of a mask, in order; empty for the masks that the driver accepts and then never runs.
std::vector<unsigned> cores_of(std::uint32_t mask) {
    switch (mask) {
        case 0: return {0};  // automatic: the least loaded core, and all are idle
        case 1: return {0};
        case 2: return {1};
        case 4: return {2};
        case 3: return {0, 1};
        case 7: return {0, 1, 2};
        default: return {};
    }
}

rknpu::Task read_task(const BufferObject& tasks, std::uint64_t index) {
    rknpu::Task task;
    std::memcpy(&task, tasks.cpu_view().data() + index * sizeof task, sizeof task);
    return task;
}

// The driver sees interrupts as pairs: either bit of a pair counts as both.
std::uint32_t as_pairs(std::uint32_t status) {
    std::uint32_t pairs = 0;
    for (std::uint32_t pair = 0x3; pair <= rockchip::interrupt_ppu; pair <<= 2) {
        pairs |= (status & pair) != 0 ? pair : 0;
    }
    return pairs;
}

}  // namespace

struct RknpuKernel::CoreRun {
    bool completed = false;
    std::uint32_t tasks = 0;
    double seconds = 0;
    std::vector<TaskWork> work;
    std::vector<Finding> findings;
};

RknpuKernel::CoreRun RknpuKernel::run_core(unsigned core, rknpu::SubcoreTask range, BufferObject& tasks,
                                           const Memory& memory) {
    CoreRun run;
    const auto hang = [&run, core](std::string message) {
        run.findings.push_back({Severity::hang, core, run.tasks, std::move(message)});
    };
    if (range.task_number == 0) {
        hang(
            "the subcore_task entry of this core has no tasks (entry i for core i with one or two cores, entry i + 2 "
            "with three): the core never completes");
        return run;
    }
    if (range.task_start + std::uint64_t{range.task_number} > tasks.bytes() / sizeof(rknpu::Task)) {
        hang(format("tasks %u + %u lie outside the task object of %llu bytes", range.task_start, range.task_number,
                    static_cast<unsigned long long>(tasks.bytes())));
        return run;
    }
    for (std::uint32_t done = 0; done < range.task_number;) {  // the task counter has 12 bits: long jobs are split
        const std::uint32_t count = std::min(range.task_number - done, rknpu::max_tasks_per_submit);
        const std::uint64_t first_index = std::uint64_t{range.task_start} + done;
        const rknpu::Task first = read_task(tasks, first_index);
        rknpu::Task last = read_task(tasks, first_index + count - 1);
        if (first.regcmd_addr >> 32 != 0) {
            hang(format("task %llu: regcmd_addr 0x%llx does not fit the 32-bit register",
                        static_cast<unsigned long long>(first_index),
                        static_cast<unsigned long long>(first.regcmd_addr)));
            return run;
        }
        const Kick kick{.base = static_cast<std::uint32_t>(first.regcmd_addr),
                        .amount = rockchip::fetch_amount(first.regcfg_amount + rockchip::tail_words),
                        .task_number = count};
        KickResult result = cores_[core]->run(kick, memory);
        run.tasks += result.tasks_finished;
        std::ranges::move(result.work, std::back_inserter(run.work));
        std::ranges::move(result.findings, std::back_inserter(run.findings));
        if (!result.finished) {
            return run;
        }
        const std::uint32_t status = as_pairs(result.interrupts);
        if ((result.interrupts & last.int_mask) == 0 || status != last.int_mask) {
            hang(
                format("int_mask 0x%x of the last task %llu: what fires is 0x%x, and the driver waits for exactly the "
                       "mask, in whole pairs",
                       static_cast<unsigned>(last.int_mask), static_cast<unsigned long long>(first_index + count - 1),
                       status));
            return run;
        }
        last.int_status = status;
        std::memcpy(tasks.cpu_view().data() + (first_index + count - 1) * sizeof last, &last, sizeof last);
        done += count;
    }
    run.completed = true;
    if (options_.task_seconds) {
        for (const TaskWork& work : run.work) {
            run.seconds += options_.task_seconds(work);
        }
    }
    return run;
}

int RknpuKernel::check_submit(File& file, const rknpu::Submit& arguments, std::shared_ptr<const Snapshot>& memory,
                              std::shared_ptr<BufferObject>& tasks) {
    if (arguments.task_number == 0 || arguments.core_mask > 7 || arguments.iommu_domain_id >= domains) {
        return -EINVAL;
    }
    if ((arguments.flags & rknpu::job_pc) == 0) {
        journal_.complain(Severity::hang,
                          "SUBMIT without the PC flag: jobs that do not use command lists are not modelled");
        return -EINVAL;
    }
    if ((arguments.flags & (rknpu::job_nonblock | rknpu::job_fence_in | rknpu::job_fence_out)) != 0) {
        journal_.complain(Severity::hang, "SUBMIT with NONBLOCK or a fence: only blocking jobs are modelled");
        return -EINVAL;
    }
    if (arguments.task_base_addr != 0) {
        journal_.complain(Severity::hang, "SUBMIT with task_base_addr: relocation of addresses is not modelled");
        return -EINVAL;
    }
    tasks = find_object(file, arguments.task_obj_addr, "SUBMIT");
    if (!tasks) {
        return -EINVAL;
    }
    if ((tasks->flags & rknpu::mem_kernel_mapping) == 0) {
        journal_.complain(Severity::hang,
                          "SUBMIT with a task object without a kernel mapping: a real driver reads through a "
                          "null pointer");
        return -EINVAL;
    }
    current_domain_ = arguments.iommu_domain_id;
    memory = snapshot(file, arguments.iommu_domain_id);
    return 0;
}

int RknpuKernel::submit(int fd, rknpu::Submit& arguments) {
    const std::lock_guard device(device_mutex_);
    std::shared_ptr<const Snapshot> memory;
    std::shared_ptr<BufferObject> tasks;
    {
        const std::lock_guard lock(mutex_);
        File* file = find_file(fd);
        if (file == nullptr) {
            return -EBADF;
        }
        if (const int error = check_submit(*file, arguments, memory, tasks); error != 0) {
            return error;
        }
    }
    const std::vector<unsigned> used = cores_of(arguments.core_mask);
    std::vector<CoreRun> runs(used.size());
    if (!used.empty()) {
        workers_.run(used.size(), [&](std::size_t i) {
            const std::size_t entry = used.size() == 3 ? used[i] + 2 : used[i];
            runs[i] = run_core(used[i], arguments.subcore_task[entry], *tasks, memory->memory);
        });
    }

    const bool completed = !runs.empty() && std::ranges::all_of(runs, &CoreRun::completed);
    const std::lock_guard lock(mutex_);
    std::uint32_t done = 0;
    double seconds = 0;
    std::vector<TaskWork> work;
    for (CoreRun& run : runs) {
        done += run.tasks;
        seconds = std::max(seconds, run.seconds);
        std::ranges::move(run.work, std::back_inserter(work));
        for (Finding& finding : run.findings) {
            journal_.add(std::move(finding));
        }
    }
    journal_.add_submission(completed, work, seconds);
    arguments.hw_elapse_time = static_cast<std::int64_t>(seconds * 1e9);
    if (completed) {
        arguments.task_counter = arguments.task_number;
        return 0;
    }
    if (used.empty()) {
        journal_.complain(Severity::hang,
                          format("core_mask %u: the driver accepts it and never starts the job", arguments.core_mask));
    }
    arguments.task_counter = done;
    for (const auto& core : cores_) {  // the driver resets all of them after a timeout
        core->soft_reset();
    }
    return -ETIMEDOUT;
}

}  // namespace npu::sim
