#include "sim/kernel_rknpu_objects.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/integers.h"

namespace npu::sim {

namespace {

namespace rknpu = uapi::rknpu;

constexpr std::uint64_t window_bytes = std::uint64_t{1} << 32;

}  // namespace

RknpuObject::~RknpuObject() {
    if (exporter >= 0) {
        ::close(exporter);
    }
}

RknpuJobMemory::RknpuJobMemory(std::shared_ptr<const RknpuSnapshot> objects)
    : objects_(std::move(objects)), touched_(objects_->size()) {}

std::span<std::byte> RknpuJobMemory::from(std::uint64_t iova) const {
    const auto next = std::ranges::upper_bound(*objects_, iova, {}, &RknpuObject::iova);
    if (next == objects_->begin()) {
        return {};
    }
    const RknpuObject& object = **(next - 1);
    const std::uint64_t offset = iova - object.iova;
    if (offset >= object.buffer->bytes()) {
        return {};
    }
    touched_[static_cast<std::size_t>(next - 1 - objects_->begin())].store(true, std::memory_order_relaxed);
    return object.buffer->device_view().subspan(offset);
}

std::vector<const RknpuObject*> RknpuJobMemory::freed_under_the_job() const {
    std::vector<const RknpuObject*> freed;
    for (std::size_t i = 0; i < touched_.size(); ++i) {
        if (touched_[i] && (*objects_)[i]->freed) {
            freed.push_back((*objects_)[i].get());
        }
    }
    return freed;
}

std::uint32_t RknpuFile::add(std::shared_ptr<RknpuObject> object) {
    const std::uint32_t handle =
        free_handles_.empty() ? next_handle_++ : free_handles_.extract(free_handles_.begin()).value();
    tokens_.emplace(object->token, handle);
    reach(object);
    handles_.emplace(handle, std::move(object));
    return handle;
}

std::shared_ptr<RknpuObject> RknpuFile::remove(std::uint32_t handle) {
    auto entry = handles_.extract(handle);
    if (entry.empty()) {
        return nullptr;
    }
    free_handles_.insert(handle);
    tokens_.erase(entry.mapped()->token);
    lose(entry.mapped());
    return std::move(entry.mapped());
}

std::shared_ptr<RknpuObject> RknpuFile::find(std::uint32_t handle) const {
    const auto found = handles_.find(handle);
    return found == handles_.end() ? nullptr : found->second;
}

std::shared_ptr<RknpuObject> RknpuFile::find_token(std::uint64_t token) const {
    const auto found = tokens_.find(token);
    return found == tokens_.end() ? nullptr : find(found->second);
}

std::uint32_t RknpuFile::handle_of(const RknpuObject& object) const {
    const auto found = tokens_.find(object.token);
    return found == tokens_.end() ? 0 : found->second;
}

std::shared_ptr<RknpuObject> RknpuFile::find_imported(std::uint64_t inode) const {
    const auto found = std::ranges::find_if(
        handles_, [&](const auto& entry) { return entry.second->imported() && entry.second->exporter_inode == inode; });
    return found == handles_.end() ? nullptr : found->second;
}

std::uint32_t RknpuFile::first_handle() const { return handles_.empty() ? 0 : handles_.begin()->first; }

void RknpuFile::reach(const std::shared_ptr<RknpuObject>& object) {
    Reach& reach = reached_[object->token];
    if (reach.count++ == 0) {
        reach.object = object;
        snapshots_[object->domain].reset();
    }
}

void RknpuFile::lose(const std::shared_ptr<RknpuObject>& object) {
    const auto found = reached_.find(object->token);
    if (--found->second.count == 0) {
        reached_.erase(found);
        snapshots_[object->domain].reset();
    }
}

std::shared_ptr<const RknpuSnapshot> RknpuFile::snapshot(std::uint32_t domain) {
    auto& slot = snapshots_[domain];
    if (!slot) {
        auto made = std::make_shared<RknpuSnapshot>();
        for (const auto& [token, reach] : reached_) {
            if (reach.object->domain == domain) {
                made->push_back(reach.object);
            }
        }
        std::ranges::sort(*made, {}, &RknpuObject::iova);
        slot = std::move(made);
    }
    return slot;
}

int RknpuMemory::create(const Request& request, std::shared_ptr<RknpuObject>& made) {
    const bool scattered = (request.flags & rknpu::mem_non_contiguous) != 0;
    const int no_addresses = scattered ? EFAULT : ENOMEM;
    if (request.bytes > window_bytes) {
        return no_addresses;
    }
    const std::uint64_t bytes = align_up(request.bytes, page_bytes);
    if (options_.faults.hits(FaultKind::no_memory) ||
        (options_.memory_bytes != 0 && in_use_ + bytes > options_.memory_bytes)) {
        return ENOMEM;
    }
    if (options_.faults.hits(FaultKind::iova_full)) {
        return no_addresses;
    }
    const std::uint64_t alignment =
        (request.flags & rknpu::mem_iova_limit_alignment) != 0 ? page_bytes : std::bit_ceil(bytes);
    const auto iova = windows_[request.domain].allocate(bytes, alignment);
    if (!iova) {
        return no_addresses;
    }
    auto object = std::make_shared<RknpuObject>();
    const bool cached = (request.flags & rknpu::mem_cacheable) != 0;
    object->buffer = BufferObject::create(backing_, bytes, options_.strict_sync && cached,
                                          (request.flags & rknpu::mem_zeroing) != 0);
    if (!object->buffer) {
        windows_[request.domain].free(*iova, bytes);
        return ENOMEM;
    }
    if ((request.flags & rknpu::mem_try_sram) != 0) {
        const std::uint64_t wanted =
            request.sram_bytes == 0 ? bytes : std::min(bytes, align_up(request.sram_bytes, page_bytes));
        object->sram_bytes = std::min<std::uint64_t>(wanted, sram_free_);
    }
    object->flags = request.flags;
    object->domain = request.domain;
    object->iova = *iova;
    place(object);
    made = std::move(object);
    return 0;
}

int RknpuMemory::import(int descriptor, std::uint32_t domain, std::shared_ptr<RknpuObject>& made) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || status.st_size <= 0) {
        return EINVAL;
    }
    const std::uint64_t bytes = align_up(static_cast<std::uint64_t>(status.st_size), page_bytes);
    const auto iova = bytes <= window_bytes ? windows_[domain].allocate(bytes, std::bit_ceil(bytes)) : std::nullopt;
    if (!iova) {
        return ENOMEM;
    }
    auto object = std::make_shared<RknpuObject>();
    object->buffer = BufferObject::import(descriptor, bytes);
    object->exporter = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    object->exporter_inode = status.st_ino;
    if (!object->buffer || object->exporter < 0) {
        windows_[domain].free(*iova, bytes);
        return object->buffer ? EMFILE : EINVAL;
    }
    object->flags = rknpu::mem_non_contiguous;  // nothing else is known of it: not cacheable, no kernel mapping
    object->domain = domain;
    object->iova = *iova;
    place(object);
    made = std::move(object);
    return 0;
}

void RknpuMemory::place(const std::shared_ptr<RknpuObject>& object) {
    object->token = next_token_;
    next_token_ += 0x400;
    sram_free_ -= static_cast<std::uint32_t>(object->sram_bytes);
    in_use_ += object->buffer->bytes();
    ++objects_in_[object->domain];
    if (!object->imported()) {
        offsets_.emplace(object->fake_offset(), object);
    }
}

void RknpuMemory::hold(RknpuObject& object) { ++object.holders; }

void RknpuMemory::drop(const std::shared_ptr<RknpuObject>& object) {
    if (--object->holders != 0) {
        return;
    }
    const std::uint64_t bytes = object->buffer->bytes();
    windows_[object->domain].free(object->iova, bytes);
    sram_free_ += static_cast<std::uint32_t>(object->sram_bytes);
    in_use_ -= bytes;
    --objects_in_[object->domain];
    if (!object->imported()) {
        offsets_.erase(object->fake_offset());
    }
    object->freed = true;
}

std::shared_ptr<RknpuObject> RknpuMemory::find_offset(std::uint64_t fake_offset) const {
    const auto found = offsets_.find(fake_offset);
    return found == offsets_.end() ? nullptr : found->second.lock();
}

}  // namespace npu::sim
