// Buffer objects of the simulated rknpu driver: creation, mapping, cache synchronisation, release, and the address domain
// that all of these need.
#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/integers.h"
#include "sim/kernel_rknpu.h"

namespace npu::sim {

namespace {

namespace rknpu = uapi::rknpu;

constexpr std::uint64_t cache_line_bytes = 64;
constexpr std::chrono::seconds longest_domain_wait{6};

}  // namespace

int RknpuKernel::enter_domain(Lock& lock, std::uint32_t domain) {
    const auto deadline = std::chrono::steady_clock::now() + longest_domain_wait;
    const std::uint32_t before = domain_.live();
    while (!domain_.enter(domain)) {
        if (queue_.can_progress()) {
            changed_.wait(lock);
        } else if (!options_.real_time || changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
            journal_.complain(
                Severity::hang,
                format("domain %u cannot become live: a job in domain %u never ends. The driver waits for "
                       "it for 6 s and gives up with EINVAL; reset the NPU first",
                       domain, domain_.live()));
            return -EINVAL;
        }
    }
    if (before != domain && queue_.references_may_leak()) {
        journal_.complain(Severity::warning,
                          "the address domain changes after NONBLOCK jobs stood in a queue: the driver sometimes loses "
                          "count of who uses the old domain (about 5 % of such changes stall for 6 s); submit a small "
                          "blocking job to every core first");
    }
    return 0;
}

void RknpuKernel::leave_domain() {
    domain_.leave();
    if (domain_.users() == 0) {
        changed_.notify_all();
    }
}

std::shared_ptr<RknpuObject> RknpuKernel::find_token(const RknpuFile& file, std::uint64_t token, const char* what) {
    auto object = file.find_token(token);
    if (!object) {
        journal_.complain(Severity::hang,
                          format("%s with obj_addr 0x%llx, which MEM_CREATE of this file never returned or which is "
                                 "destroyed: a real driver uses it as a pointer and would panic",
                                 what, static_cast<unsigned long long>(token)));
    }
    return object;
}

int RknpuKernel::mem_create(RknpuFile& file, rknpu::MemCreate& arguments) {
    Lock lock(mutex_);
    auto object = file.find(arguments.handle);
    if (!object) {
        if (arguments.handle != 0) {
            journal_.complain(Severity::warning,
                              format("MEM_CREATE with handle %u, which this file does not have: the driver makes a new "
                                     "object; pass 0 for that, or an imported handle to learn its addresses",
                                     arguments.handle));
        }
        if (const int error = make_object(lock, arguments, object); error != 0) {
            return error;
        }
        memory_.hold(*object);
        arguments.handle = file.add(object);
    }
    arguments.size = object->buffer->bytes();
    arguments.obj_addr = object->token;
    arguments.dma_addr = object->iova;
    arguments.sram_size = object->sram_bytes;
    return 0;
}

int RknpuKernel::make_object(Lock& lock, const rknpu::MemCreate& arguments, std::shared_ptr<RknpuObject>& made) {
    const std::int32_t wanted = arguments.iommu_domain_id;
    if (arguments.size == 0 || (arguments.flags & ~rknpu::mem_all_flags) != 0 || wanted < rknpu::live_domain ||
        wanted >= static_cast<std::int32_t>(rknpu::domains)) {
        return -EINVAL;
    }
    const std::uint32_t domain = wanted == rknpu::live_domain ? domain_.live() : static_cast<std::uint32_t>(wanted);
    if (const int error = enter_domain(lock, domain); error != 0) {
        return error;
    }
    const int error = memory_.create(
        {.flags = arguments.flags, .bytes = arguments.size, .sram_bytes = arguments.sram_size, .domain = domain}, made);
    leave_domain();
    if (error == EFAULT) {
        journal_.complain(
            Severity::warning,
            format("MEM_CREATE of %llu bytes: no room among the NPU addresses of domain %u, which has %llu "
                   "objects and 4 GiB for all of them. Reported of boards: after this failure the driver "
                   "resets the NPU and the next domain is corrupt. Keep domains below 3.0 GiB, objects "
                   "below 1 GiB, and use several domains",
                   static_cast<unsigned long long>(arguments.size), domain,
                   static_cast<unsigned long long>(memory_.objects_in(domain))));
    }
    return -error;
}

int RknpuKernel::mem_map(RknpuFile& file, rknpu::MemMap& arguments) {
    const Lock lock(mutex_);
    const auto object = file.find(arguments.handle);
    if (!object || object->imported()) {
        return -EINVAL;
    }
    arguments.offset = object->fake_offset();
    return 0;
}

int RknpuKernel::mem_destroy(RknpuFile& file, rknpu::MemDestroy& arguments) {
    Lock lock(mutex_);
    auto object = file.find(arguments.handle);
    // Drivers that read the address instead of the handle follow it; 0 is what such clients pass that never had one.
    if (arguments.obj_addr != 0 && (!object || object->token != arguments.obj_addr)) {
        journal_.complain(
            Severity::hang,
            format("MEM_DESTROY with obj_addr 0x%llx, which is not that of handle %u: a real driver uses it "
                   "as a pointer and would panic",
                   static_cast<unsigned long long>(arguments.obj_addr), arguments.handle));
        return -EINVAL;
    }
    if (!object) {
        return -EINVAL;
    }
    if (enter_domain(lock, object->domain) == 0) {
        leave_domain();
    }
    if (file.find(arguments.handle) == object) {  // another thread may have been faster while this one waited
        drop_handle(file, arguments.handle);
    }
    return 0;
}

int RknpuKernel::gem_close(RknpuFile& file, uapi::drm::GemClose& arguments) {
    const Lock lock(mutex_);
    if (!file.find(arguments.handle)) {
        return -EINVAL;
    }
    drop_handle(file, arguments.handle);
    return 0;
}

int RknpuKernel::mem_sync(RknpuFile& file, rknpu::MemSync& arguments) {
    Lock lock(mutex_);
    const auto object = find_token(file, arguments.obj_addr, "MEM_SYNC");
    if (!object) {
        return -EINVAL;
    }
    if ((object->flags & rknpu::mem_cacheable) == 0) {
        if (object->imported()) {
            journal_.complain(Severity::corrupt,
                              "MEM_SYNC of an imported object: the driver does not know it as cacheable and refuses; "
                              "synchronise by its exporter (DMA_BUF_IOCTL_SYNC)");
        }
        return -EINVAL;
    }
    const std::uint64_t bytes = object->buffer->bytes();
    if (arguments.offset > bytes || arguments.size > bytes - arguments.offset) {
        journal_.complain(
            Severity::corrupt,
            format("MEM_SYNC of %llu bytes at %llu of an object of %llu bytes leaves the object",
                   static_cast<unsigned long long>(arguments.size), static_cast<unsigned long long>(arguments.offset),
                   static_cast<unsigned long long>(bytes)));
        return -EINVAL;
    }
    const bool to_device = (arguments.flags & rknpu::sync_to_device) != 0;
    const bool from_device = (arguments.flags & rknpu::sync_from_device) != 0;
    if (!to_device && !from_device) {
        journal_.complain(Severity::corrupt,
                          format("MEM_SYNC with flags 0x%x names no direction (1 to the device, 2 from it): the driver "
                                 "answers success and synchronises nothing",
                                 arguments.flags));
        return 0;
    }
    if (const int error = enter_domain(lock, object->domain); error != 0) {
        return error;
    }
    synchronise(*object, to_device, from_device, arguments.offset, arguments.size);
    leave_domain();
    return 0;
}

// Caches work by lines: what shares a line with the range goes along.
void RknpuKernel::synchronise(RknpuObject& object, bool to_device, bool from_device, std::uint64_t offset,
                              std::uint64_t bytes) {
    if (bytes == 0) {
        return;
    }
    const std::uint64_t begin = offset / cache_line_bytes * cache_line_bytes;
    const std::uint64_t size = align_up(offset + bytes, cache_line_bytes) - begin;
    if (from_device) {
        const std::uint64_t lines = object.buffer->dirty_lines_over_results(begin, size);
        if (lines != 0) {
            journal_.complain(
                Severity::warning,
                format("the CPU wrote to an output buffer (%llu cache lines) and did not synchronise it to "
                       "the device before the job: on a board the cache may write those lines back over "
                       "the NPU's results at any moment; MEM_SYNC to the device before SUBMIT",
                       static_cast<unsigned long long>(lines)));
        }
    }
    if (to_device) {
        object.buffer->to_device(begin, size);
    }
    if (from_device) {
        object.buffer->from_device(begin, size);
    }
}

void RknpuKernel::drop_handle(RknpuFile& file, std::uint32_t handle) {
    if (const auto object = file.remove(handle)) {
        drop_holder(object);
    }
}

void RknpuKernel::drop_holder(const std::shared_ptr<RknpuObject>& object) {
    if (object->holders == 1) {  // the addresses go with it, which needs its domain
        if (domain_.enter(object->domain)) {
            leave_domain();
        } else {
            journal_.complain(
                Severity::warning,
                format("an object of domain %u is freed while jobs are in domain %u: the driver waits for "
                       "their end, for up to 6 s, and leaves the addresses taken if it does not come",
                       object->domain, domain_.live()));
        }
    }
    memory_.drop(object);
}

}  // namespace npu::sim
