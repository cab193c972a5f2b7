// Buffer objects of the simulated rocket driver: creation, waiting and cache synchronisation, release.
#include <cerrno>
#include <chrono>

#include "base/integers.h"
#include "sim/kernel_rocket.h"

namespace npu::sim {

namespace {

namespace rocket = uapi::rocket;

// A range of an object, or all of it.
struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;

    // False when the range is empty or leaves the object.
    bool read(const RocketBuffer& buffer, const std::uint64_t* from, std::uint64_t bytes) {
        offset = from != nullptr ? *from : 0;
        size = from != nullptr ? bytes : buffer.bytes();
        return size != 0 && offset <= buffer.bytes() && size <= buffer.bytes() - offset;
    }
};

}  // namespace

int RocketKernel::create_bo(File& file, rocket::CreateBo& arguments) {
    const bool no_memory = options_.faults.hits(FaultKind::no_memory);
    const bool window_full = options_.faults.hits(FaultKind::iova_full);
    if (arguments.size == 0) {
        return -EINVAL;
    }
    if (no_memory || window_full) {
        return no_memory ? -ENOMEM : -ENOSPC;
    }
    auto failure = RocketBuffer::Failure::no_memory;
    auto buffer =
        RocketBuffer::create(memory_, file.space, align_up<std::uint64_t>(arguments.size, page_bytes), failure);
    if (!buffer) {
        return failure == RocketBuffer::Failure::window_full ? -ENOSPC : -ENOMEM;
    }
    arguments.dma_address = buffer->iova();
    arguments.offset = buffer->fake_offset();
    const std::lock_guard lock(mutex_);
    std::uint32_t handle = 1;  // the lowest free one, as DRM does
    for (auto used = file.buffers.begin(); used != file.buffers.end() && used->first == handle; ++used) {
        ++handle;
    }
    file.buffers.emplace(handle, std::move(buffer));
    arguments.handle = handle;
    return 0;
}

int RocketKernel::gem_close(File& file, std::uint32_t handle) {
    std::shared_ptr<RocketBuffer> buffer;  // outlives the lock
    const std::lock_guard lock(mutex_);
    const auto found = file.buffers.find(handle);
    if (found == file.buffers.end()) {
        return -EINVAL;
    }
    buffer = std::move(found->second);
    file.buffers.erase(found);
    return 0;
}

// The deadline is absolute. A busy object whose deadline has passed, or is 0, is EBUSY without a wait; negative deadlines
// have passed.
int RocketKernel::prep_bo(File& file, std::uint32_t handle, std::int64_t timeout_ns, const std::uint64_t* offset,
                          std::uint64_t size) {
    const std::shared_ptr<RocketBuffer> buffer = find_buffer(file, handle);
    if (!buffer) {
        return -ENOENT;
    }
    Range range;
    if (!range.read(*buffer, offset, size)) {
        return -EINVAL;
    }
    std::shared_ptr<const Completion> fence;
    {
        const std::lock_guard lock(mutex_);
        fence = buffer->write_fence;
    }
    if (fence && !fence->signalled()) {
        const Completion::Clock::time_point deadline{std::chrono::nanoseconds(timeout_ns)};
        if (deadline <= Completion::Clock::now()) {
            return -EBUSY;
        }
        switch (fence->wait(deadline)) {
            case WaitResult::done: break;
            case WaitResult::timed_out: return -ETIMEDOUT;
            case WaitResult::interrupted: return -EINTR;
        }
    }
    buffer->object().from_device(range.offset, range.size);
    return 0;
}

int RocketKernel::fini_bo(File& file, std::uint32_t handle, const std::uint64_t* offset, std::uint64_t size) {
    const std::shared_ptr<RocketBuffer> buffer = find_buffer(file, handle);
    if (!buffer) {
        return -ENOENT;
    }
    Range range;
    if (!range.read(*buffer, offset, size)) {
        return -EINVAL;
    }
    buffer->object().to_device(range.offset, range.size);
    return 0;
}

std::shared_ptr<RocketBuffer> RocketKernel::find_buffer(const File& file, std::uint32_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = file.buffers.find(handle);
    return found == file.buffers.end() ? nullptr : found->second;
}

}  // namespace npu::sim
