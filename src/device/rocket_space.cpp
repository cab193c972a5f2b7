#include "device/rocket_space.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include "base/log.h"
#include "device/rocket_buffer.h"
#include "uapi/drm.h"

namespace npu::device {

namespace {

namespace rocket = uapi::rocket;

constexpr std::uint32_t guard_bytes = 4096;

template <typename T>
std::uint64_t address_of(const T* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

std::int64_t deadline_after(std::chrono::milliseconds wait) {
    constexpr std::int64_t nanoseconds = 1'000'000;                        // of a millisecond
    const auto now = std::chrono::steady_clock::now().time_since_epoch();  // CLOCK_MONOTONIC
    const std::int64_t start = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    const std::int64_t most = (std::numeric_limits<std::int64_t>::max() - start) / nanoseconds;
    return start + std::clamp<std::int64_t>(wait.count(), 0, most) * nanoseconds;
}

Result<std::shared_ptr<RocketSpace>> RocketSpace::open(std::unique_ptr<DrmNode> node, RocketVersion version,
                                                       std::uint32_t index) {
    std::shared_ptr<RocketSpace> space(new RocketSpace(std::move(node), version, index));
    rocket::CreateBo create{};
    create.size = guard_bytes;
    if (const int error = space->node_->ioctl(rocket::ioctl_create_bo, &create); error != 0) {
        return make_error(ErrorCode::device_failure, "the NPU driver refused the first page of address space %u: %s",
                          index, std::strerror(error));
    }
    space->guard_ = create.handle;
    space->node_->allocated += guard_bytes;
    space->syncs_ranges_ = version.syncs_ranges() && space->try_ranges();
    return space;
}

// With other structs than ours the driver would take other bytes for the range, and refuse the good one or accept the bad.
bool RocketSpace::try_ranges() const {
    const auto fini = [this](std::uint64_t offset) {
        rocket::FiniBoRange range{.handle = guard_, .reserved = 0, .offset = offset, .size = guard_bytes};
        return node_->ioctl(rocket::ioctl_fini_bo_range, &range) == 0;
    };
    const auto prep = [this](std::uint64_t offset) {
        rocket::PrepBoRange range{.handle = guard_,
                                  .reserved = 0,
                                  .timeout_ns = deadline_after(std::chrono::milliseconds(0)),
                                  .offset = offset,
                                  .size = guard_bytes};
        return node_->ioctl(rocket::ioctl_prep_bo_range, &range) == 0;
    };
    return fini(0) && prep(0) && !fini(guard_bytes) && !prep(guard_bytes);
}

void RocketSpace::add(RocketBuffer& buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.insert_or_assign(buffer.iova(), &buffer);
}

void RocketSpace::remove(RocketBuffer& buffer) {
    const std::lock_guard lock(mutex_);
    if (const auto found = buffers_.find(buffer.iova()); found != buffers_.end() && found->second == &buffer) {
        buffers_.erase(found);
    }
    uapi::drm::GemClose close{};
    close.handle = buffer.handle();
    if (const int error = node_->ioctl(uapi::drm::ioctl_gem_close, &close); error != 0) {
        log(LogLevel::warning, "the NPU driver did not free a buffer: %s", std::strerror(error));
    }
}

const RocketBuffer* RocketSpace::find(std::uint64_t iova, std::uint64_t bytes) const {
    const std::lock_guard lock(mutex_);
    const auto next = buffers_.upper_bound(iova);
    if (next == buffers_.begin()) {
        return nullptr;
    }
    const auto& [start, buffer] = *std::prev(next);
    const std::uint64_t offset = iova - start;
    return offset <= buffer->bytes() && bytes <= buffer->bytes() - offset ? buffer : nullptr;
}

Result<void> RocketSpace::submit(std::span<const rocket::Task> tasks, std::uint32_t flags,
                                 std::span<const Canary> canaries) {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint32_t> read;
    std::vector<std::uint32_t> written{guard_};
    for (const auto& [iova, buffer] : buffers_) {
        const bool holds_output = std::ranges::find(canaries, buffer, &Canary::buffer) != canaries.end();
        (holds_output ? written : read).push_back(buffer->handle());
    }
    const rocket::JobWithFlags job{.job = {.tasks = address_of(tasks.data()),
                                           .in_bo_handles = address_of(read.data()),
                                           .out_bo_handles = address_of(written.data()),
                                           .task_count = static_cast<std::uint32_t>(tasks.size()),
                                           .task_struct_size = sizeof(rocket::Task),
                                           .in_bo_handle_count = static_cast<std::uint32_t>(read.size()),
                                           .out_bo_handle_count = static_cast<std::uint32_t>(written.size())},
                                   .flags = flags,
                                   .reserved = 0};
    rocket::Submit submit{};
    submit.jobs = address_of(&job);
    submit.job_count = 1;
    submit.job_struct_size = version_.chains() ? sizeof(rocket::JobWithFlags) : sizeof(rocket::Job);
    if (const int error = node_->ioctl(rocket::ioctl_submit, &submit); error != 0) {
        return make_error(ErrorCode::device_failure, "the NPU driver refused a job of %zu tasks: %s", tasks.size(),
                          std::strerror(error));
    }
    ++submitted_;
    return {};
}

Result<void> RocketSpace::wait(std::int64_t deadline) {
    rocket::PrepBo prep{};
    prep.handle = guard_;
    prep.timeout_ns = deadline;
    const int error = node_->ioctl(rocket::ioctl_prep_bo, &prep);
    if (error == EBUSY || error == ETIMEDOUT) {  // the deadline had passed, or passed during the wait
        return make_error(ErrorCode::timeout, "the jobs of address space %u are not done", index_);
    }
    if (error != 0) {
        return make_error(ErrorCode::device_failure, "the NPU driver refused to wait for a job: %s",
                          std::strerror(error));
    }
    finished_ = submitted_.load();
    return {};
}

std::uint64_t RocketSpace::settled() const {
    const std::uint64_t finished = finished_;
    return finished == submitted_ ? finished + 1 : 0;
}

}  // namespace npu::device
