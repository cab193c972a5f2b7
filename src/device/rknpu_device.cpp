#include "device/rknpu_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/integers.h"
#include "base/log.h"
#include "device/board.h"
#include "device/canary.h"
#include "device/drm_node.h"
#include "device/host_memory.h"
#include "rockchip/command.h"
#include "uapi/drm.h"
#include "uapi/rknpu.h"

namespace npu::device {

namespace {

namespace rk = uapi::rknpu;

constexpr std::size_t page = 4096;
// One IOMMU domain; register addresses are 32 bits. There are 16, of which one is live at a time, for all cores (published
// kernel source): a job in another one waits for the NPU to be idle and makes the driver switch.
constexpr std::size_t address_window = std::size_t{1} << 32;
constexpr std::uint32_t buffer_flags =
    rk::mem_non_contiguous | rk::mem_cacheable | rk::mem_iova_limit_alignment | rk::mem_zeroing;
constexpr std::uint32_t domains = 16;
constexpr std::uint32_t oldest_with_domains = 908;   // 0.9.8: the interface that this client is written to
constexpr std::uint32_t oldest_known_version = 906;  // 0.9.6: the oldest whose interface was published as working

class RknpuBuffer final : public Buffer {
  public:
    static Result<std::unique_ptr<RknpuBuffer>> create(std::shared_ptr<DrmNode> node, std::size_t bytes,
                                                       std::uint32_t space, std::uint32_t flags,
                                                       std::size_t free_bytes) {
        const std::size_t rounded = align_up(std::max<std::size_t>(bytes, 1), page);
        auto buffer = std::unique_ptr<RknpuBuffer>(new RknpuBuffer(std::move(node), rounded));
        rk::MemCreate create{};
        create.flags = flags;
        create.size = rounded;
        create.iommu_domain_id = static_cast<std::int32_t>(space);
        if (const int error = buffer->node_->ioctl(rk::ioctl_mem_create, &create); error != 0) {
            return make_error(ErrorCode::out_of_memory,
                              "the NPU driver refused a buffer of %zu bytes (%s); about %zu bytes are left for the "
                              "NPU. Use a smaller or more strongly quantised model, fewer layers on the NPU (-ngl) or "
                              "a smaller batch (-ub)",
                              rounded, std::strerror(error), free_bytes);
        }
        buffer->handle_ = create.handle;
        buffer->object_ = create.obj_addr;
        buffer->iova_ = create.dma_addr;
        buffer->node_->allocated += rounded;
        if (create.dma_addr + rounded > address_window) {
            return make_error(ErrorCode::out_of_memory,
                              "the NPU driver placed a buffer of %zu bytes at address 0x%llx, beyond the 4 GiB that "
                              "the NPU can address",
                              rounded, static_cast<unsigned long long>(create.dma_addr));
        }
        rk::MemMap map{};
        map.handle = create.handle;
        if (const int error = buffer->node_->ioctl(rk::ioctl_mem_map, &map); error != 0) {
            return make_error(ErrorCode::device_failure, "the NPU driver gave no mapping of a buffer: %s",
                              std::strerror(error));
        }
        void* address = buffer->node_->calls().mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED,
                                                    buffer->node_->fd(), static_cast<off_t>(map.offset));
        if (address == MAP_FAILED) {
            return make_error(ErrorCode::out_of_memory, "mapping %zu bytes of NPU memory failed: %s", rounded,
                              std::strerror(errno));
        }
        buffer->data_ = static_cast<std::byte*>(address);
        return buffer;
    }

    ~RknpuBuffer() override {
        if (data_ != nullptr) {
            node_->calls().munmap(data_, bytes_);
        }
        if (handle_ != 0) {
            rk::MemDestroy destroy{};
            destroy.handle = handle_;
            destroy.obj_addr = object_;
            if (const int error = node_->ioctl(rk::ioctl_mem_destroy, &destroy); error != 0) {
                log(LogLevel::warning, "the NPU driver did not free a buffer: %s", std::strerror(error));
            }
            node_->allocated -= bytes_;
        }
    }

    Result<void> to_device(std::size_t offset, std::size_t bytes) override {
        return sync(rk::sync_to_device, offset, bytes);
    }
    Result<void> from_device(std::size_t offset, std::size_t bytes) override {
        return sync(rk::sync_from_device, offset, bytes);
    }

    [[nodiscard]] std::uint64_t object() const { return object_; }

  private:
    RknpuBuffer(std::shared_ptr<DrmNode> node, std::size_t bytes) : node_(std::move(node)) { bytes_ = bytes; }

    Result<void> sync(std::uint32_t flags, std::size_t offset, std::size_t bytes) {
        rk::MemSync request{};
        request.flags = flags;
        request.obj_addr = object_;
        request.offset = offset;
        request.size = bytes;
        if (const int error = node_->ioctl(rk::ioctl_mem_sync, &request); error != 0) {
            return make_error(ErrorCode::device_failure, "synchronising %zu bytes at %zu of a %zu byte buffer: %s",
                              bytes, offset, bytes_, std::strerror(error));
        }
        return {};
    }

    std::shared_ptr<DrmNode> node_;
    std::uint32_t handle_ = 0;
    std::uint64_t object_ = 0;
};

class RknpuDevice final : public Device {
  public:
    RknpuDevice(std::shared_ptr<DrmNode> node, DeviceInfo info, std::uint32_t spaces, std::size_t memory_limit)
        : node_(std::move(node)), info_(std::move(info)), memory_limit_(memory_limit), descriptors_(spaces) {}

    [[nodiscard]] std::uint32_t spaces() const override { return static_cast<std::uint32_t>(descriptors_.size()); }

    [[nodiscard]] const DeviceInfo& info() const override { return info_; }

    [[nodiscard]] MemoryInfo memory() const override {
        const MemoryInfo host = host_memory();
        std::size_t total = std::min(host.total, address_window * spaces());
        if (memory_limit_ != 0) {
            total = std::min(total, memory_limit_);
        }
        const std::size_t used = node_->allocated;
        return {total, std::min(host.free, total > used ? total - used : 0)};
    }

    Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes, std::uint32_t space) override {
        NPU_TRY(check_space(space));
        NPU_ASSIGN(auto buffer, RknpuBuffer::create(node_, bytes, space, buffer_flags, memory().free));
        // New memory was zeroed by the kernel; both directions once, as the vendor's runtime does.
        NPU_TRY(buffer->to_device(0, buffer->bytes()));
        return std::unique_ptr<Buffer>(std::move(buffer));
    }

    Result<JobReport> run(std::span<const TaskChain> chains, std::chrono::milliseconds deadline,
                          std::uint32_t space) override {
        const std::lock_guard lock(submit_mutex_);
        NPU_TRY(check_space(space));
        std::size_t total = 0;
        bool any_empty = false;  // the driver would start that core and wait for it
        for (const TaskChain& chain : chains) {
            total += chain.tasks.size();
            any_empty = any_empty || chain.tasks.empty();
        }
        if (chains.empty() || chains.size() > info_.chip->cores || any_empty || total > rk::max_tasks_per_submit) {
            return make_error(
                ErrorCode::invalid_argument,
                "a job of %zu chains and %zu tasks was asked for; 1 to %u chains, none of them empty, and at "
                "most %u tasks are possible",
                chains.size(), total, info_.chip->cores, rk::max_tasks_per_submit);
        }
        NPU_TRY(check_canary_places(chains));
        NPU_TRY(reserve_descriptors(space, total));
        RknpuBuffer& descriptors = *descriptors_[space];
        NPU_ASSIGN(const Canaries canaries, Canaries::set(chains, info_.syncs_ranges));

        rk::Submit submit{};
        submit.flags = rk::job_pc | rk::job_pingpong;
        submit.timeout = static_cast<std::uint32_t>(deadline.count());
        submit.task_number = static_cast<std::uint32_t>(total);
        submit.task_obj_addr = descriptors.object();
        submit.iommu_domain_id = space;
        submit.core_mask = (1U << chains.size()) - 1;
        submit.fence_fd = -1;
        // Which entry a core reads depends on the number of cores (see rknpu.h). The driver reads what it likes of
        // the five, so all of them name a valid range.
        const std::size_t first_entry = chains.size() == 3 ? 2 : 0;
        auto* descriptor = reinterpret_cast<rk::Task*>(descriptors.data());
        std::uint32_t start = 0;
        for (rk::SubcoreTask& entry : submit.subcore_task) {
            entry = {0, static_cast<std::uint32_t>(chains[0].tasks.size())};
        }
        for (std::size_t core = 0; core < chains.size(); ++core) {
            for (const TaskChain::Entry& task : chains[core].tasks) {
                *descriptor++ = rk::Task{.flags = 0,
                                         .op_idx = 1,
                                         .enable_mask = task.enable,
                                         .int_mask = task.interrupts,
                                         .int_clear = rockchip::interrupt_clear_all,
                                         .int_status = 0,
                                         .regcfg_amount = task.body_words,
                                         .regcfg_offset = 0,
                                         .regcmd_addr = task.iova};
            }
            const auto count = static_cast<std::uint32_t>(chains[core].tasks.size());
            submit.subcore_task[first_entry + core] = {start, count};
            start += count;
        }
        NPU_TRY(descriptors.to_device(0, total * sizeof(rk::Task)));

        if (const int error = node_->ioctl(rk::ioctl_submit, &submit); error != 0) {
            if (error == ETIMEDOUT) {
                return make_error(ErrorCode::timeout,
                                  "the NPU did not finish a job of %zu tasks within %lld ms (%u tasks were done); the "
                                  "driver has reset it",
                                  total, static_cast<long long>(deadline.count()), submit.task_counter);
            }
            return make_error(ErrorCode::device_failure, "the NPU driver refused a job of %zu tasks: %s", total,
                              std::strerror(error));
        }
        NPU_TRY(canaries.check(chains, "the driver reported success"));
        return JobReport{static_cast<double>(submit.hw_elapse_time) * 1e-9};
    }

  private:
    Result<void> check_space(std::uint32_t space) const {
        if (space >= spaces()) {
            return make_error(ErrorCode::invalid_argument, "address space %u was asked for; this driver has %u, from 0",
                              space, spaces());
        }
        return {};
    }

    Result<void> reserve_descriptors(std::uint32_t space, std::size_t count) {
        const std::size_t bytes = count * sizeof(rk::Task);
        std::unique_ptr<RknpuBuffer>& descriptors = descriptors_[space];
        if (descriptors == nullptr || descriptors->bytes() < bytes) {
            // The kernel reads descriptors through its own mapping, which must be asked for.
            NPU_ASSIGN(descriptors, RknpuBuffer::create(node_, std::max(bytes, std::size_t{64} * 1024), space,
                                                        buffer_flags | rk::mem_kernel_mapping, memory().free));
        }
        return {};
    }

    std::shared_ptr<DrmNode> node_;
    DeviceInfo info_;
    std::size_t memory_limit_;
    std::mutex submit_mutex_;
    std::vector<std::unique_ptr<RknpuBuffer>> descriptors_;  // by space
};

Result<std::uint32_t> query(const DrmNode& node, std::uint32_t action) {
    rk::Action request{};
    request.flags = action;
    if (const int error = node.ioctl(rk::ioctl_action, &request); error != 0) {
        return make_error(ErrorCode::device_failure, "the NPU driver refused query %u: %s", action,
                          std::strerror(error));
    }
    return request.value;
}

}  // namespace

std::optional<std::string> find_rknpu_node(uapi::Syscalls& calls) {
    const auto card = find_drm_node(calls, "/dev/dri/card%d", 0, rk::driver_name);
    return card ? card : find_drm_node(calls, "/dev/dri/renderD%d", 128, rk::driver_name);
}

Result<std::unique_ptr<Device>> open_rknpu(uapi::Syscalls& calls, const std::string& path,
                                           const RknpuOptions& options) {
    const int fd = calls.open(path.c_str(), O_RDWR);
    if (fd < 0) {
        return make_error(ErrorCode::not_found, "cannot open the NPU node %s: %s%s", path.c_str(), std::strerror(errno),
                          errno == EACCES ? " (is the user in the groups video and render?)" : "");
    }
    auto node = std::make_shared<DrmNode>(calls, fd);
    if (const std::string name = drm_driver(*node).name; name != rk::driver_name) {
        return make_error(ErrorCode::unsupported, "%s belongs to the driver '%s', not to '%s'", path.c_str(),
                          name.c_str(), rk::driver_name);
    }
    NPU_ASSIGN(const std::uint32_t version, query(*node, rk::action_driver_version));
    if (version < oldest_known_version) {
        return make_error(ErrorCode::unsupported,
                          "rknpu driver %u.%u.%u on %s is older than 0.9.6, the oldest whose interface is known to "
                          "work; update the board's kernel",
                          version / 10000, version / 100 % 100, version % 100, path.c_str());
    }
    DeviceInfo info;
    info.chip = options.chip;
    if (info.chip == nullptr) {
        NPU_ASSIGN(info.chip, board_chip());
    }
    info.driver = rk::driver_name;
    info.driver_version = format("%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    info.node = path;
    info.simulated = options.simulated;
    info.description = format("Rockchip %s (%s%s)", std::string(info.chip->name).c_str(),
                              options.simulated ? "simulated, " : "", rk::driver_name);
    return std::unique_ptr<Device>(std::make_unique<RknpuDevice>(
        std::move(node), std::move(info), version < oldest_with_domains ? 1 : domains, options.memory_limit));
}

}  // namespace npu::device
