// SUBMIT of the simulated rknpu driver: what is checked before a job stands in a queue, fences, and the wait of a blocking
// call with its ways to fail. The driver reads of a job: the first descriptor of each core's range (where the command
// list is and how long), the last one's interrupt mask; the core follows the chain between them by itself.
//
// Not checked by the driver, and therefore a finding here: tokens that are no objects, task lists without a kernel
// mapping, cores without tasks, masks that never run, jobs without command lists.
//
// Unknown: whether the wait for a FENCE_IN also happens for fences of this driver. Its source leaves out fences of its
// own context, as other drivers do that have one queue; the cores have one each. Here every fence is waited for.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "sim/kernel_rknpu.h"

namespace npu::sim {

namespace {

namespace rknpu = uapi::rknpu;

using Clock = RknpuJob::Clock;

constexpr std::chrono::milliseconds pause_before_reset{100};
constexpr std::chrono::milliseconds reset_duration{107};  // published measurement
constexpr int most_waits = 3;
constexpr std::chrono::seconds harmless_in_microseconds{1};  // timeouts beyond are meant as microseconds

// What all descriptors of one event have in common, however often they are duplicated; 0: no event, or a host kernel that
// does not tell (before 5.2).
std::uint64_t event_identity(int fd) {
    const int info = ::open(format("/proc/self/fdinfo/%d", fd).c_str(), O_RDONLY | O_CLOEXEC);
    if (info < 0) {
        return 0;
    }
    std::array<char, 1024> text{};
    const ssize_t bytes = ::read(info, text.data(), text.size() - 1);
    ::close(info);
    constexpr std::string_view label = "eventfd-id:";
    const std::string_view lines(text.data(), bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    const auto found = lines.find(label);
    return found == std::string_view::npos ? 0 : std::strtoull(text.data() + found + label.size(), nullptr, 10) + 1;
}

}  // namespace

int RknpuKernel::check_submit(const rknpu::Submit& arguments) {
    if (options_.faults.hits(FaultKind::bad_address)) {
        return -EFAULT;
    }
    const std::uint32_t all_cores = (1U << options_.chip->cores) - 1;
    if (arguments.task_number == 0 || arguments.core_mask > all_cores) {
        return -EINVAL;
    }
    const auto domain = static_cast<std::int32_t>(arguments.iommu_domain_id);
    if (domain != rknpu::live_domain && arguments.iommu_domain_id >= rknpu::domains) {
        return -EINVAL;
    }
    if (resetting_) {
        journal_.complain(
            Severity::hang,
            "SUBMIT while the NPU is being reset: published reports of boards that wedged; wait until the "
            "reset is over");
        return -EINVAL;
    }
    if ((arguments.flags & rknpu::job_pc) == 0) {
        journal_.complain(
            Severity::hang,
            "SUBMIT without the PC flag: the driver knows jobs by command lists only and fails it when it "
            "starts it");
        return -EINVAL;
    }
    return 0;
}

int RknpuKernel::prepare(const FilePointer& file, const rknpu::Submit& arguments, RknpuJob& job) {
    job.arguments = arguments;
    job.file = file;
    job.blocking = (arguments.flags & rknpu::job_nonblock) == 0;
    job.submitted = Clock::now();
    job.tasks = find_token(*file, arguments.task_obj_addr, "SUBMIT");
    if (!job.tasks) {
        return -EINVAL;
    }
    if ((job.tasks->flags & rknpu::mem_kernel_mapping) == 0) {
        journal_.complain(Severity::hang,
                          format("SUBMIT with a task object without a kernel mapping%s: a real driver reads through a "
                                 "null pointer",
                                 job.tasks->imported() ? " (an imported object never has one)" : ""));
        return -EINVAL;
    }
    return 0;
}

// Cores and what each reads of the task list. A chip with one core has no subcore_task.
void RknpuKernel::assign_cores(RknpuJob& job) {
    rknpu::Submit& arguments = job.arguments;
    if (arguments.core_mask == 0) {
        arguments.core_mask = 1U << queue_.least_loaded();
    }
    for (unsigned core = 0; core < options_.chip->cores; ++core) {
        if ((arguments.core_mask >> core & 1) != 0) {
            job.cores.push_back(core);
        }
    }
    job.known_mask = arguments.core_mask != 5 && arguments.core_mask != 6;
    for (const unsigned core : job.cores) {
        job.ranges.push_back(options_.chip->cores == 1
                                 ? rknpu::SubcoreTask{arguments.task_start, arguments.task_number}
                                 : arguments.subcore_task[job.cores.size() == 3 ? core + 2 : core]);
    }
    if (options_.chip->cores > 1 && arguments.task_start != 0 && arguments.task_start != job.ranges[0].task_start) {
        journal_.complain(
            Severity::warning,
            format("SUBMIT with task_start %u: the driver reads subcore_task[].task_start (%u) instead on a "
                   "chip with several cores",
                   arguments.task_start, job.ranges[0].task_start));
    }
}

int RknpuKernel::wait_for_fence(Lock& lock, rknpu::Submit& arguments) {
    const std::uint64_t identity = event_identity(arguments.fence_fd);
    const auto known = fences_.find(identity);
    if (identity == 0 || known == fences_.end()) {
        return -EINVAL;
    }
    const std::shared_ptr<RknpuFence> fence = known->second;
    arguments.fence_fd = -1;
    if (fence->settled) {
        const auto until = options_.real_time ? fence->done : fence->settled;
        const auto deadline = options_.real_time
                                  ? std::optional(Clock::now() + std::chrono::milliseconds(arguments.timeout))
                                  : std::nullopt;
        lock.unlock();
        const WaitResult result = until->wait(deadline);
        lock.lock();
        if (result == WaitResult::interrupted) {
            return -EINTR;
        }
    }
    if (!fence->signalled) {
        journal_.complain(
            Severity::corrupt,
            format("FENCE_IN did not signal within %u ms: the driver starts the job all the same", arguments.timeout));
    }
    return 0;
}

int RknpuKernel::attach_fence(RknpuJob& job, rknpu::Submit& arguments) {
    auto fence = std::make_shared<RknpuFence>();
    const int fd = fence->done->duplicate_descriptor();
    if (fd < 0) {
        return -errno;
    }
    fences_.insert_or_assign(event_identity(fd), fence);
    job.fence = std::move(fence);
    arguments.fence_fd = fd;
    return 0;
}

int RknpuKernel::submit(const FilePointer& file, rknpu::Submit& arguments) {
    Lock lock(mutex_);
    if (const int error = check_submit(arguments); error != 0) {
        return error;
    }
    const auto job = std::make_shared<RknpuJob>();
    if (const int error = prepare(file, arguments, *job); error != 0) {
        return error;
    }
    if ((arguments.flags & rknpu::job_fence_in) != 0) {
        if (const int error = wait_for_fence(lock, arguments); error != 0) {
            return error;
        }
    }
    const bool live = static_cast<std::int32_t>(arguments.iommu_domain_id) == rknpu::live_domain;
    const std::uint32_t domain = live ? domain_.live() : arguments.iommu_domain_id;
    if (const int error = enter_domain(lock, domain); error != 0) {
        return error;
    }
    if ((arguments.flags & rknpu::job_fence_out) != 0) {
        if (const int error = attach_fence(*job, arguments); error != 0) {
            leave_domain();
            return error;
        }
    }
    if (domain != job->tasks->domain) {
        journal_.complain(
            live ? Severity::hang : Severity::warning,
            format("SUBMIT with iommu_domain_id %d runs in domain %u%s; the task list is an object of domain "
                   "%u. The NPU reaches only objects of the domain it runs in: command lists, operands and "
                   "outputs must be there",
                   static_cast<std::int32_t>(arguments.iommu_domain_id), domain,
                   live ? ", which happens to be live" : "", job->tasks->domain));
    }
    job->memory = std::make_unique<RknpuJobMemory>(file->snapshot(domain));
    if (!job->blocking) {
        reap_before_nonblock(lock, arguments.core_mask);
    }
    assign_cores(*job);
    for (Finding& finding : inspect_descriptors(*job)) {
        journal_.add(std::move(finding));
    }
    queue_.enqueue(job);
    if (!job->blocking) {
        return 0;
    }
    arguments.core_mask = job->arguments.core_mask;
    return wait_for(lock, *job, arguments);
}

// Before a NONBLOCK job is queued, the driver resets the NPU if one of the cores of its mask holds a job that is older
// than that job's timeout, and takes the timeout for microseconds. Without real time only a job that hangs is old.
void RknpuKernel::reap_before_nonblock(Lock& lock, std::uint32_t core_mask) {
    for (unsigned core = 0; core < options_.chip->cores; ++core) {
        const RknpuJob* const current = (core_mask >> core & 1) != 0 ? queue_.current(core) : nullptr;
        if (current == nullptr) {
            continue;
        }
        const std::chrono::microseconds limit{current->arguments.timeout};
        const bool hangs = current->state == RknpuJob::State::stuck || queue_.blocked_forever(*current);
        const bool old = options_.real_time ? Clock::now() - current->submitted >= limit : hangs;
        if (!hangs && (old || limit < harmless_in_microseconds)) {
            journal_.complain(Severity::warning,
                              format("NONBLOCK submit while the core works on a job with a timeout of %u: the driver "
                                     "takes it for microseconds here and resets the NPU if that job is older",
                                     current->arguments.timeout));
        }
        if (old) {
            (void)soft_reset(lock, "a NONBLOCK submit found a job older than its timeout in microseconds");
        }
    }
}

int RknpuKernel::wait_for(Lock& lock, const RknpuJob& job, rknpu::Submit& arguments) {
    using State = RknpuJob::State;
    const std::chrono::milliseconds timeout{arguments.timeout};
    for (;;) {
        if (job.state == State::done) {
            arguments.task_counter = arguments.task_number;
            arguments.hw_elapse_time = static_cast<std::int64_t>(job.seconds * 1e9);
            return 0;
        }
        if (job.state == State::dropped) {
            return -EINVAL;
        }
        if (queue_.help(lock, job)) {
            continue;
        }
        if (job.state == State::committed || (job.state == State::queued && !queue_.blocked_forever(job))) {
            changed_.wait(lock);
            continue;
        }
        // It hangs, or waits for a job that does. The driver waits once if the job was started, then as often as the time
        // since its start is shorter than the timeout, but no more than three times.
        int waits = most_waits;
        if (job.committed) {
            waits = 1;
            while (waits < most_waits && job.submitted + waits * timeout < *job.committed + timeout) {
                ++waits;
            }
        }
        const auto end = job.submitted + waits * timeout;
        if (!options_.real_time || Clock::now() >= end) {
            return give_up(lock, job, arguments);
        }
        changed_.wait_until(lock, end);
    }
}

int RknpuKernel::give_up(Lock& lock, const RknpuJob& job, rknpu::Submit& arguments) {
    const bool started = job.committed.has_value();
    arguments.task_counter = started ? job.runs[0].counter : 0;
    if (!started) {
        journal_.complain(
            Severity::hang,
            format("a blocking SUBMIT waits behind a job that keeps its core: the driver sleeps three times "
                   "its timeout of %u ms, and no signal wakes it (reported: up to two minutes). Use "
                   "NONBLOCK and a deadline of your own, and reset before you submit again",
                   arguments.timeout));
        if (board_.starved_submit_is_invalid) {
            queue_.withdraw(job);
            return -EINVAL;
        }
    }
    if (options_.real_time) {
        lock.unlock();
        std::this_thread::sleep_for(pause_before_reset);
        lock.lock();
    }
    (void)soft_reset(lock, "a blocking SUBMIT timed out");
    return -ETIMEDOUT;
}

// All cores, whoever asks. A reset during a reset does nothing.
int RknpuKernel::soft_reset(Lock& lock, const char* why) {
    if (resetting_) {
        return 0;
    }
    if (options_.real_time) {
        resetting_ = true;
        lock.unlock();
        std::this_thread::sleep_for(reset_duration);
        lock.lock();
        resetting_ = false;
    }
    queue_.reset(why);
    return 0;
}

}  // namespace npu::sim
