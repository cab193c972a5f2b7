#include "sim/buffer_object.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace npu::sim {

namespace {

constexpr std::uint64_t cache_line_bytes = 64;

std::byte* map_private(std::uint64_t bytes) {
    return static_cast<std::byte*>(
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

// Gives a range of a window back and joins it with the free ranges beside it.
void release_range(std::map<std::uint64_t, std::uint64_t>& free, std::uint64_t begin, std::uint64_t end) {
    auto range = free.emplace(begin, end).first;
    const auto next = std::next(range);
    if (next != free.end() && next->first == range->second) {
        range->second = next->second;
        free.erase(next);
    }
    if (range != free.begin()) {
        const auto previous = std::prev(range);
        if (previous->second == range->first) {
            previous->second = range->second;
            free.erase(range);
        }
    }
}

}  // namespace

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
    std::unique_ptr<BufferObject> object(new BufferObject);
    object->file_ = std::move(file);
    object->offset_ = *offset;
    object->bytes_ = bytes;
    void* cpu = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, object->file_->descriptor(),
                       static_cast<off_t>(*offset));
    if (cpu == MAP_FAILED) {
        return nullptr;
    }
    object->cpu_ = object->device_ = static_cast<std::byte*>(cpu);
    if (shadow) {
        std::byte* device = map_private(bytes);
        if (device == MAP_FAILED) {
            return nullptr;
        }
        object->device_ = device;
        std::byte* synced = map_private(bytes);
        if (synced == MAP_FAILED) {
            return nullptr;
        }
        object->synced_ = synced;
        if (!zeroed) {
            std::memset(object->cpu_, 0xa5, bytes);
            std::memset(object->device_, 0x5a, bytes);
            std::memset(object->synced_, 0x5a, bytes);  // differs: the first synchronisation writes everything
        }
    }
    return object;
}

std::unique_ptr<BufferObject> BufferObject::import(int descriptor, std::uint64_t bytes) {
    void* cpu = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (cpu == MAP_FAILED) {
        return nullptr;
    }
    std::unique_ptr<BufferObject> object(new BufferObject);
    object->bytes_ = bytes;
    object->cpu_ = object->device_ = static_cast<std::byte*>(cpu);
    return object;
}

BufferObject::~BufferObject() {
    if (synced_ != nullptr) {
        ::munmap(synced_, bytes_);
    }
    if (device_ != cpu_) {
        ::munmap(device_, bytes_);
    }
    if (cpu_ != nullptr) {
        ::munmap(cpu_, bytes_);
    }
    if (file_ != nullptr) {
        file_->release(offset_, bytes_);
    }
}

void BufferObject::to_device(std::uint64_t offset, std::uint64_t bytes) {
    if (synced_ == nullptr) {
        return;
    }
    const std::lock_guard lock(sync_mutex_);
    const std::uint64_t end = offset + bytes;
    while (offset < end) {
        const std::uint64_t size = std::min(end - offset, cache_line_bytes - offset % cache_line_bytes);
        if (std::memcmp(cpu_ + offset, synced_ + offset, size) != 0) {
            std::memcpy(synced_ + offset, cpu_ + offset, size);
            std::memcpy(device_ + offset, synced_ + offset, size);
        }
        offset += size;
    }
}

void BufferObject::from_device(std::uint64_t offset, std::uint64_t bytes) {
    if (synced_ == nullptr) {
        return;
    }
    const std::lock_guard lock(sync_mutex_);
    std::memcpy(synced_ + offset, device_ + offset, bytes);
    std::memcpy(cpu_ + offset, synced_ + offset, bytes);
}

std::uint64_t BufferObject::dirty_lines_over_results(std::uint64_t offset, std::uint64_t bytes) {
    if (synced_ == nullptr) {
        return 0;
    }
    const std::lock_guard lock(sync_mutex_);
    const std::uint64_t end = offset + bytes;
    std::uint64_t lines = 0;
    while (offset < end) {
        const std::uint64_t size = std::min(end - offset, cache_line_bytes - offset % cache_line_bytes);
        lines += std::memcmp(cpu_ + offset, synced_ + offset, size) != 0 &&
                         std::memcmp(device_ + offset, synced_ + offset, size) != 0
                     ? 1
                     : 0;
        offset += size;
    }
    return lines;
}

AddressWindow::AddressWindow() : free_{{page_bytes, std::uint64_t{1} << 32}} {}

std::optional<std::uint64_t> AddressWindow::allocate(std::uint64_t bytes, std::uint64_t alignment) {
    for (auto range = free_.rbegin(); range != free_.rend(); ++range) {
        const auto [begin, end] = *range;
        if (end - begin < bytes) {
            continue;
        }
        const std::uint64_t iova = (end - bytes) / alignment * alignment;
        if (iova < begin) {
            continue;
        }
        free_.erase(begin);
        if (iova > begin) {
            free_.emplace(begin, iova);
        }
        if (iova + bytes < end) {
            free_.emplace(iova + bytes, end);
        }
        return iova;
    }
    return std::nullopt;
}

void AddressWindow::free(std::uint64_t iova, std::uint64_t bytes) { release_range(free_, iova, iova + bytes); }

BottomUpWindow::BottomUpWindow() : free_{{0, std::uint64_t{1} << 32}} {}

std::optional<std::uint64_t> BottomUpWindow::allocate(std::uint64_t bytes) {
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range) {
        const std::uint64_t size = range->second - range->first;
        if (size >= bytes && (best == free_.end() || size < best->second - best->first)) {
            best = range;
        }
    }
    if (best == free_.end()) {
        return std::nullopt;
    }
    const auto [begin, end] = *best;
    free_.erase(best);
    if (end - begin > bytes) {
        free_.emplace(begin + bytes, end);
    }
    return begin;
}

void BottomUpWindow::free(std::uint64_t iova, std::uint64_t bytes) { release_range(free_, iova, iova + bytes); }

}  // namespace npu::sim
