#include "sim/buffer_object.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace npu::sim {

BackingFile::BackingFile() : descriptor_(memfd_create("npu-simulated-memory", MFD_CLOEXEC)) {}

BackingFile::~BackingFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
}

std::optional<std::uint64_t> BackingFile::reserve(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(end_ + bytes)) != 0) {
        return std::nullopt;
    }
    return std::exchange(end_, end_ + bytes);
}

void BackingFile::release(std::uint64_t offset, std::uint64_t bytes) {
    (void)fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(bytes));
}

std::unique_ptr<BufferObject> BufferObject::create(std::shared_ptr<BackingFile> file, std::uint64_t bytes, bool shadow,
                                                   bool zeroed) {
    const auto offset = file->reserve(bytes);
    if (!offset) {
        return nullptr;
    }
    void* cpu =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor(), static_cast<off_t>(*offset));
    void* device = cpu;
    if (cpu != MAP_FAILED && shadow) {
        device = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (cpu == MAP_FAILED || device == MAP_FAILED) {
        if (cpu != MAP_FAILED) {
            ::munmap(cpu, bytes);
        }
        file->release(*offset, bytes);
        return nullptr;
    }
    std::unique_ptr<BufferObject> object(new BufferObject);
    object->file_ = std::move(file);
    object->offset_ = *offset;
    object->bytes_ = bytes;
    object->cpu_ = static_cast<std::byte*>(cpu);
    object->device_ = static_cast<std::byte*>(device);
    if (shadow && !zeroed) {
        std::memset(object->cpu_, 0xa5, bytes);
        std::memset(object->device_, 0x5a, bytes);
    }
    return object;
}

BufferObject::~BufferObject() {
    if (device_ != cpu_) {
        ::munmap(device_, bytes_);
    }
    ::munmap(cpu_, bytes_);
    file_->release(offset_, bytes_);
}

void BufferObject::to_device(std::uint64_t offset, std::uint64_t bytes) {
    if (device_ != cpu_) {
        std::memcpy(device_ + offset, cpu_ + offset, bytes);
    }
}

void BufferObject::from_device(std::uint64_t offset, std::uint64_t bytes) {
    if (device_ != cpu_) {
        std::memcpy(cpu_ + offset, device_ + offset, bytes);
    }
}

AddressWindow::AddressWindow() : free_{{page_bytes, std::uint64_t{1} << 32}} {}

std::optional<std::uint64_t> AddressWindow::allocate(std::uint64_t bytes) {
    for (auto range = free_.rbegin(); range != free_.rend(); ++range) {
        if (range->second - range->first >= bytes) {
            const std::uint64_t iova = range->second - bytes;
            if (iova == range->first) {
                free_.erase(iova);
            } else {
                range->second = iova;
            }
            return iova;
        }
    }
    return std::nullopt;
}

void AddressWindow::free(std::uint64_t iova, std::uint64_t bytes) {
    auto range = free_.emplace(iova, iova + bytes).first;
    const auto next = std::next(range);
    if (next != free_.end() && next->first == range->second) {
        range->second = next->second;
        free_.erase(next);
    }
    if (range != free_.begin()) {
        const auto previous = std::prev(range);
        if (previous->second == range->first) {
            previous->second = range->second;
            free_.erase(range);
        }
    }
}

}  // namespace npu::sim
