#include "sim/kernel_rocket_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace npu::sim {

std::unique_ptr<BufferObject> RocketMemory::take(std::uint64_t bytes) {
    const std::uint64_t before = in_use_.fetch_add(bytes);
    if (limit_bytes_ == 0 || (before <= limit_bytes_ && bytes <= limit_bytes_ - before)) {
        if (auto object = BufferObject::create(file_, bytes, strict_sync_, true)) {
            return object;
        }
    }
    in_use_ -= bytes;
    return nullptr;
}

void RocketMemory::give_back(std::unique_ptr<BufferObject> object) {
    const std::uint64_t bytes = object->bytes();
    object.reset();
    in_use_ -= bytes;
}

std::optional<std::uint64_t> AddressSpace::reserve(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return window_.allocate(bytes);
}

void AddressSpace::map(const std::shared_ptr<RocketBuffer>& buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.insert_or_assign(buffer->iova(), buffer);
}

void AddressSpace::release(std::uint64_t iova, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    buffers_.erase(iova);
    window_.free(iova, bytes);
}

std::shared_ptr<RocketBuffer> AddressSpace::find(std::uint64_t iova) const {
    std::shared_ptr<RocketBuffer> buffer;  // outlives the lock: dropping the last owner locks again
    const std::lock_guard lock(mutex_);
    const auto next = buffers_.upper_bound(iova);
    if (next != buffers_.begin()) {
        buffer = std::prev(next)->second.lock();
    }
    return buffer && iova - buffer->iova() < buffer->bytes() ? buffer : nullptr;
}

std::shared_ptr<RocketBuffer> RocketBuffer::create(std::shared_ptr<RocketMemory> memory,
                                                   std::shared_ptr<AddressSpace> space, std::uint64_t bytes,
                                                   Failure& failure) {
    const auto iova = space->reserve(bytes);
    if (!iova) {
        failure = Failure::window_full;
        return nullptr;
    }
    auto object = memory->take(bytes);
    if (!object) {
        space->release(*iova, bytes);
        failure = Failure::no_memory;
        return nullptr;
    }
    std::shared_ptr<RocketBuffer> buffer(new RocketBuffer);
    buffer->memory_ = std::move(memory);
    buffer->space_ = std::move(space);
    buffer->iova_ = *iova;
    buffer->object_ = std::move(object);
    buffer->space_->map(buffer);
    return buffer;
}

RocketBuffer::~RocketBuffer() {
    space_->release(iova_, bytes());
    memory_->give_back(std::move(object_));
}

std::span<std::byte> RocketJobMemory::from(std::uint64_t iova) const {
    const std::lock_guard lock(mutex_);
    const auto holds = [iova](const auto& buffer) { return iova - buffer->iova() < buffer->bytes(); };
    const auto known = std::ranges::find_if(reached_, holds);
    std::shared_ptr<RocketBuffer> buffer = known != reached_.end() ? *known : space_.find(iova);
    if (!buffer) {
        return {};
    }
    if (known == reached_.end()) {
        reached_.push_back(buffer);
    }
    return buffer->object().device_view().subspan(iova - buffer->iova());
}

}  // namespace npu::sim
