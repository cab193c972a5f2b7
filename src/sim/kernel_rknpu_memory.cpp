// Buffer objects of the simulated rknpu driver: creation, mapping, cache synchronisation, release. All of it runs
// under the kernel's lock.
#include <cerrno>

#include "base/integers.h"
#include "sim/kernel_rknpu.h"
#include "sim/kernel_rknpu_snapshot.h"

namespace npu::sim {

namespace {

namespace rknpu = uapi::rknpu;

constexpr std::uint32_t known_memory_flags = 0x7ff;

}  // namespace

int RknpuKernel::mem_create(File& file, rknpu::MemCreate& arguments) {
    std::shared_ptr<BufferObject> object;
    if (arguments.handle != 0) {  // look up what another call made
        const auto found = file.objects.find(arguments.handle);
        if (found == file.objects.end()) {
            return -EINVAL;
        }
        object = found->second;
    } else {
        if (arguments.size == 0 || (arguments.flags & ~known_memory_flags) != 0 || arguments.iommu_domain_id < 0 ||
            arguments.iommu_domain_id >= static_cast<std::int32_t>(domains)) {
            return -EINVAL;
        }
        constexpr std::uint64_t window = std::uint64_t{1} << 32;
        if (arguments.size >= window) {
            return -ENOMEM;
        }
        const std::uint64_t bytes = align_up(arguments.size, page_bytes);
        if (options_.memory_bytes != 0 && memory_in_use_ + bytes > options_.memory_bytes) {
            return -ENOMEM;
        }
        const auto domain = static_cast<std::uint32_t>(arguments.iommu_domain_id);
        const auto iova = windows_[domain].allocate(bytes);
        if (!iova) {
            return -ENOMEM;
        }
        const bool cached = (arguments.flags & rknpu::mem_cacheable) != 0;
        object = BufferObject::create(backing_, bytes, options_.strict_sync && cached,
                                      (arguments.flags & rknpu::mem_zeroing) != 0);
        if (!object) {
            windows_[domain].free(*iova, bytes);
            return -ENOMEM;
        }
        object->flags = arguments.flags;
        object->domain = domain;
        object->iova = *iova;
        object->token = next_token_;
        next_token_ += 0x400;
        memory_in_use_ += bytes;
        arguments.handle = file.next_handle++;
        file.objects.emplace(arguments.handle, object);
        file.snapshots[domain].reset();
    }
    arguments.size = object->bytes();
    arguments.obj_addr = object->token;
    arguments.dma_addr = object->iova;
    arguments.sram_size = 0;
    return 0;
}

int RknpuKernel::mem_map(File& file, rknpu::MemMap& arguments) {
    const auto found = file.objects.find(arguments.handle);
    if (found == file.objects.end()) {
        return -EINVAL;
    }
    arguments.offset = found->second->file_offset();
    return 0;
}

int RknpuKernel::mem_destroy(File& file, const rknpu::MemDestroy& arguments) {
    const auto object = find_object(file, arguments.obj_addr, "MEM_DESTROY");
    const auto found = file.objects.find(arguments.handle);
    if (!object || found == file.objects.end() || found->second != object) {
        return -EINVAL;
    }
    return release(file, arguments.handle);
}

int RknpuKernel::mem_sync(File& file, const rknpu::MemSync& arguments) {
    const auto object = find_object(file, arguments.obj_addr, "MEM_SYNC");
    constexpr std::uint32_t directions = rknpu::sync_to_device | rknpu::sync_from_device;
    if (!object || (object->flags & rknpu::mem_cacheable) == 0 || arguments.flags == 0 ||
        (arguments.flags & ~directions) != 0 || arguments.offset > object->bytes() ||
        arguments.size > object->bytes() - arguments.offset) {
        return -EINVAL;
    }
    if ((arguments.flags & rknpu::sync_to_device) != 0) {
        object->to_device(arguments.offset, arguments.size);
    }
    if ((arguments.flags & rknpu::sync_from_device) != 0) {
        object->from_device(arguments.offset, arguments.size);
    }
    return 0;
}

int RknpuKernel::release(File& file, std::uint32_t handle) {
    const auto found = file.objects.find(handle);
    if (found == file.objects.end()) {
        return -EINVAL;
    }
    const BufferObject& object = *found->second;
    windows_[object.domain].free(object.iova, object.bytes());
    memory_in_use_ -= object.bytes();
    file.snapshots[object.domain].reset();
    file.objects.erase(found);  // a job that still runs keeps the memory
    return 0;
}

std::shared_ptr<BufferObject> RknpuKernel::find_object(File& file, std::uint64_t token, const char* what) {
    for (const auto& [handle, object] : file.objects) {
        if (object->token == token) {
            return object;
        }
    }
    journal_.complain(Severity::hang,
                      format("%s with obj_addr 0x%llx, which MEM_CREATE of this file never returned or which is "
                             "destroyed: a real driver uses it as a pointer and would panic",
                             what, static_cast<unsigned long long>(token)));
    return nullptr;
}

std::shared_ptr<const RknpuKernel::Snapshot> RknpuKernel::snapshot(File& file, std::uint32_t domain) {
    auto& slot = file.snapshots[domain];
    if (!slot) {
        auto made = std::make_shared<Snapshot>();
        for (const auto& [handle, object] : file.objects) {
            if (object->domain == domain && made->memory.map(object->iova, object->device_view())) {
                made->objects.push_back(object);
            }
        }
        slot = std::move(made);
    }
    return slot;
}

}  // namespace npu::sim
