// SUBMIT of the simulated rocket driver: reading jobs out of the client's memory, refusing what cannot run, queueing the
// rest. Structs in arrays may be larger than the driver knows: it walks with the client's sizes.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "sim/kernel_rocket.h"
#include "sim/user_memory.h"

namespace npu::sim {

namespace {

namespace rocket = uapi::rocket;

constexpr std::uint64_t most_bytes_at_once = INT_MAX;  // that the kernel allocates for an array

// Appends `count` elements that lie `stride` bytes apart in the client's memory. Returns 0 or a negative errno.
template <typename T>
int copy_array(std::vector<T>& array, std::uint64_t user, std::uint32_t count, std::uint64_t stride) {
    constexpr std::uint32_t most_at_once = 4096;
    if (count > most_bytes_at_once / sizeof(T)) {
        return -ENOMEM;
    }
    while (count > 0) {
        const std::uint32_t piece = stride == sizeof(T) ? std::min(count, most_at_once) : 1;
        const std::size_t old = array.size();
        array.resize(old + piece);
        if (!copy_from_user(&array[old], user, piece * sizeof(T))) {
            return -EFAULT;
        }
        user += piece * stride;
        count -= piece;
    }
    return 0;
}

// A handle that is listed twice, in one list or in both; 0 when there is none.
std::uint32_t repeated_handle(std::vector<std::uint32_t> handles) {
    std::ranges::sort(handles);
    const auto twice = std::ranges::adjacent_find(handles);
    return twice == handles.end() ? 0 : *twice;
}

}  // namespace

int RocketKernel::submit(File& file, const rocket::Submit& arguments) {
    const bool bad_address = options_.faults.hits(FaultKind::bad_address);
    if (arguments.job_count == 0) {
        return 0;  // before anything else is looked at
    }
    if (arguments.job_struct_size < sizeof(rocket::Job) || arguments.reserved != 0) {
        return -EINVAL;
    }
    std::vector<rocket::JobWithFlags> jobs;
    if (const int error = bad_address ? -EFAULT : copy_jobs(arguments, jobs); error != 0) {
        return error;
    }
    for (std::uint32_t i = 0; i < jobs.size(); ++i) {
        if (const int error = report(submit_job(file, jobs[i]), i); error != 0) {
            return error;
        }
    }
    return 0;
}

int RocketKernel::copy_jobs(const rocket::Submit& arguments, std::vector<rocket::JobWithFlags>& jobs) {
    const std::uint64_t stride = arguments.job_struct_size;
    if (!offers(1, 1)) {  // the driver does not look at what lies behind the fields that it knows
        std::vector<rocket::Job> plain;
        const int error = copy_array(plain, arguments.jobs, arguments.job_count, stride);
        for (std::uint32_t i = 0; i < plain.size(); ++i) {
            jobs.push_back({.job = plain[i], .flags = 0, .reserved = 0});
            rocket::JobWithFlags whole{};
            if (stride >= sizeof whole && copy_from_user(&whole, arguments.jobs + i * stride, sizeof whole) &&
                whole.flags != 0) {
                journal_.complain(Severity::warning,
                                  format("SUBMIT, job %u: flags 0x%x are ignored by interface 0.0", i, whole.flags));
            }
        }
        return error;
    }
    if (stride > page_bytes) {
        return -E2BIG;
    }
    if (arguments.job_count > most_bytes_at_once / sizeof(rocket::JobWithFlags)) {
        return -ENOMEM;
    }
    std::vector<std::byte> bytes(std::max<std::uint64_t>(stride, sizeof(rocket::JobWithFlags)));
    for (std::uint32_t i = 0; i < arguments.job_count; ++i) {
        if (!copy_from_user(bytes.data(), arguments.jobs + i * stride, stride)) {
            return -EFAULT;
        }
        const auto tail = bytes.begin() + sizeof(rocket::JobWithFlags);
        if (std::any_of(tail, bytes.end(), [](std::byte value) { return value != std::byte{0}; })) {
            return -E2BIG;
        }
        std::memcpy(&jobs.emplace_back(), bytes.data(), sizeof(rocket::JobWithFlags));
    }
    return 0;
}

RocketKernel::Refusal RocketKernel::submit_job(File& file, const rocket::JobWithFlags& arguments) {
    const rocket::Job& job = arguments.job;
    const std::uint32_t known_flags =
        offers(1, 3) ? rocket::job_batched | rocket::job_no_dpu_done | rocket::job_ppu_done : rocket::job_batched;
    if (job.task_count == 0) {
        return {.error = EINVAL, .reason = "task_count is 0"};
    }
    if ((arguments.flags & ~known_flags) != 0 || arguments.reserved != 0) {
        return {.error = EINVAL,
                .reason = format("flags 0x%x or reserved 0x%x holds bits that this version does not know (flags 0x%x)",
                                 arguments.flags, arguments.reserved, known_flags)};
    }
    if ((arguments.flags & rocket::job_batched) != 0 && job.task_count > rocket::max_batched_tasks) {
        return {.error = EINVAL,
                .reason = format("BATCHED with %u tasks: the hardware counts to %u", job.task_count,
                                 rocket::max_batched_tasks)};
    }
    if (job.task_struct_size < sizeof(rocket::Task)) {
        return {.error = EINVAL,
                .panics_stock = true,
                .reason = format("task_struct_size %u is less than %zu", job.task_struct_size, sizeof(rocket::Task))};
    }
    auto made = std::make_shared<RocketJob>();
    made->flags = arguments.flags;
    made->space = file.space;
    if (const int error = copy_array(made->tasks, job.tasks, job.task_count, job.task_struct_size); error != 0) {
        return {.error = -error, .panics_stock = true, .reason = "the tasks cannot be read"};
    }
    const auto empty = std::ranges::find(made->tasks, 0U, &rocket::Task::regcmd_count);
    if (empty != made->tasks.end()) {
        return {.error = EINVAL, .reason = format("task %td: regcmd_count is 0", empty - made->tasks.begin())};
    }
    std::vector<std::uint32_t> inputs;
    std::vector<std::uint32_t> outputs;
    int error = copy_array(inputs, job.in_bo_handles, job.in_bo_handle_count, sizeof(std::uint32_t));
    if (error == 0) {
        error = copy_array(outputs, job.out_bo_handles, job.out_bo_handle_count, sizeof(std::uint32_t));
    }
    if (error != 0) {
        return {.error = -error, .panics_stock = true, .reason = "the lists of handles cannot be read"};
    }
    return queue_job(file, std::move(made), inputs, outputs);
}

RocketKernel::Refusal RocketKernel::queue_job(File& file, std::shared_ptr<RocketJob> job,
                                              const std::vector<std::uint32_t>& inputs,
                                              const std::vector<std::uint32_t>& outputs) {
    std::vector<std::uint32_t> handles = inputs;
    handles.insert(handles.end(), outputs.begin(), outputs.end());
    const std::lock_guard lock(mutex_);
    for (const std::uint32_t handle : handles) {
        const auto found = file.buffers.find(handle);
        if (found == file.buffers.end()) {
            return {
                .error = ENOENT, .panics_stock = true, .reason = format("there is no buffer with handle %u", handle)};
        }
        job->buffers.push_back(found->second);
    }
    if (const std::uint32_t twice = repeated_handle(handles); twice != 0) {
        return {
            .error = EALREADY,
            .always_silent = true,
            .reason = format("handle %u is listed twice, and the driver cannot lock a buffer twice (list what a job "
                             "writes and reads again only as output)",
                             twice)};
    }
    for (const std::uint32_t handle : outputs) {
        file.buffers.at(handle)->write_fence = job->done;
    }
    scheduler_.push(*file.queue, std::move(job));
    return {};
}

// What the client hears of a refused job; see the header.
int RocketKernel::report(const Refusal& refusal, std::uint32_t index) {
    if (refusal.error == 0) {
        return 0;
    }
    const char* name = strerrorname_np(refusal.error);
    const std::string text = format("SUBMIT, job %u: %s (%s)", index, refusal.reason.c_str(), name);
    if (!refusal.always_silent && offers(1, 1)) {
        journal_.complain(Severity::warning, text);
        return -refusal.error;
    }
    if (refusal.panics_stock) {
        journal_.complain(Severity::hang,
                          text + ": the error path of a stock driver follows a null pointer here and stops the kernel");
        return -refusal.error;
    }
    journal_.complain(Severity::corrupt,
                      text +
                          ": the driver drops the job and reports success; nothing runs, waits return at once and the "
                          "outputs keep what they held");
    return 0;
}

}  // namespace npu::sim
