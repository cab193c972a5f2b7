#include "device/rocket_device.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "device/board.h"
#include "device/canary.h"
#include "device/drm_node.h"
#include "device/host_memory.h"
#include "device/rocket_buffer.h"
#include "device/rocket_job.h"
#include "device/rocket_space.h"
#include "uapi/rocket.h"

namespace npu::device {

namespace {

namespace rocket = uapi::rocket;
using std::chrono::milliseconds;

constexpr std::size_t window = std::size_t{1} << 32;  // an address space
constexpr std::uint32_t newest_known_major = 1;
constexpr milliseconds grace{4 * rocket::job_timeout_ms};  // to be rid of late jobs; other programs' may come first

using Spaces = std::vector<std::shared_ptr<RocketSpace>>;

class RocketDevice final : public Device {
  public:
    RocketDevice(Spaces spaces, RocketVersion version, DeviceInfo info, std::size_t memory_limit)
        : spaces_(std::move(spaces)), version_(version), info_(std::move(info)), memory_limit_(memory_limit) {}

    [[nodiscard]] const DeviceInfo& info() const override { return info_; }
    [[nodiscard]] std::uint32_t spaces() const override { return static_cast<std::uint32_t>(spaces_.size()); }

    [[nodiscard]] MemoryInfo memory() const override {
        const MemoryInfo host = host_memory();
        std::size_t total = std::min(host.total, window * spaces_.size());
        if (memory_limit_ != 0) {
            total = std::min(total, memory_limit_);
        }
        std::size_t used = 0;
        for (const auto& space : spaces_) {
            used += space->allocated();
        }
        return {total, std::min(host.free, total > used ? total - used : 0)};
    }

    Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes, std::uint32_t space) override {
        if (space >= spaces_.size()) {
            return make_error(ErrorCode::invalid_argument,
                              "a buffer in address space %u was asked for; this device has %zu, from 0 on", space,
                              spaces_.size());
        }
        NPU_ASSIGN(auto buffer, RocketBuffer::create(spaces_[space], bytes, memory().free));
        // New memory was zeroed by the kernel, through the CPU's caches.
        NPU_TRY(buffer->to_device(0, buffer->bytes()));
        return std::unique_ptr<Buffer>(std::move(buffer));
    }

    Result<JobReport> run(std::span<const TaskChain> chains, milliseconds deadline, std::uint32_t space) override {
        if (space != 0) {
            return make_error(ErrorCode::invalid_argument,
                              "a job in address space %u was asked for; with this driver chain i lies in space i",
                              space);
        }
        const std::lock_guard lock(run_mutex_);
        NPU_ASSIGN(const std::vector<RocketJob> jobs, make_jobs(chains));
        const std::int64_t until = deadline_after(deadline);
        NPU_TRY(end_earlier_jobs(until, deadline));
        NPU_ASSIGN(const Canaries canaries, Canaries::set(chains, info_.syncs_ranges));
        NPU_TRY(run_jobs(jobs, chains, until, deadline));
        NPU_TRY(canaries.check(chains,
                               "the driver gives up a job that takes more than 500 ms, resets the core and "
                               "reports success"));
        return JobReport{};  // the driver measures nothing
    }

  private:
    [[nodiscard]] Result<std::vector<RocketJob>> make_jobs(std::span<const TaskChain> chains) const {
        const bool any = std::ranges::any_of(chains, [](const TaskChain& chain) { return !chain.tasks.empty(); });
        if (!any || chains.size() > spaces_.size()) {
            return make_error(
                ErrorCode::invalid_argument,
                "a job of %zu chains%s was asked for; 1 to %zu chains, not all of them empty, are possible",
                chains.size(), any ? "" : " without a task", spaces_.size());
        }
        NPU_TRY(check_canary_places(chains));
        std::vector<RocketJob> jobs;
        for (std::size_t core = 0; core < chains.size(); ++core) {
            NPU_ASSIGN(auto job, make_rocket_job(chains[core], core, *spaces_[core], version_));
            jobs.push_back(std::move(job));
        }
        return jobs;
    }

    // They might still write into the outputs of this one, canaries included.
    Result<void> end_earlier_jobs(std::int64_t until, milliseconds deadline) {
        for (const auto& space : spaces_) {
            if (!space->busy()) {
                continue;
            }
            if (const auto waited = space->wait(until); !waited) {
                return waited.error().code != ErrorCode::timeout
                           ? waited
                           : make_error(ErrorCode::timeout,
                                        "an earlier job that did not finish in time still occupies address space %u of "
                                        "the NPU after another %lld ms",
                                        space->index(), static_cast<long long>(deadline.count()));
            }
        }
        return {};
    }

    // Starts all, then waits for what was started, whatever happens. The first error.
    Result<void> run_jobs(const std::vector<RocketJob>& jobs, std::span<const TaskChain> chains, std::int64_t until,
                          milliseconds deadline) {
        Result<void> outcome;
        for (std::size_t core = 0; core < jobs.size() && outcome; ++core) {
            if (!jobs[core].tasks.empty()) {
                outcome = spaces_[core]->submit(jobs[core].tasks, jobs[core].flags, chains[core].canaries);
            }
        }
        for (std::size_t core = 0; core < jobs.size(); ++core) {
            if (!spaces_[core]->busy()) {
                continue;
            }
            const auto waited = spaces_[core]->wait(until);
            if (!waited && outcome) {
                outcome = waited.error().code != ErrorCode::timeout
                              ? waited
                              : make_error(ErrorCode::timeout,
                                           "the NPU did not finish a job of %zu tasks on core %zu within %lld ms",
                                           jobs[core].tasks.size(), core, static_cast<long long>(deadline.count()));
            }
        }
        if (!outcome) {
            const std::int64_t at_last = deadline_after(grace);
            for (const auto& space : spaces_) {
                if (space->busy()) {
                    (void)space->wait(at_last);  // the next run() takes up what is left
                }
            }
        }
        return outcome;
    }

    const Spaces spaces_;
    const RocketVersion version_;
    const DeviceInfo info_;
    const std::size_t memory_limit_;
    std::mutex run_mutex_;
};

Result<std::unique_ptr<DrmNode>> open_node(uapi::Syscalls& calls, const std::string& path) {
    const int fd = calls.open(path.c_str(), O_RDWR);
    if (fd < 0) {
        return make_error(ErrorCode::not_found, "cannot open the NPU node %s: %s%s", path.c_str(), std::strerror(errno),
                          errno == EACCES ? " (is the user in the group render, and does the node belong to it?)" : "");
    }
    return std::make_unique<DrmNode>(calls, fd);
}

}  // namespace

std::optional<std::string> find_rocket_node(uapi::Syscalls& calls) {
    return find_drm_node(calls, "/dev/accel/accel%d", 0, rocket::driver_name);
}

Result<std::unique_ptr<Device>> open_rocket(uapi::Syscalls& calls, const std::string& path,
                                            const RocketOptions& options) {
    NPU_ASSIGN(auto node, open_node(calls, path));
    const DrmDriver driver = drm_driver(*node);
    if (driver.name != rocket::driver_name) {
        return make_error(ErrorCode::unsupported, "%s belongs to the driver '%s', not to '%s'", path.c_str(),
                          driver.name.c_str(), rocket::driver_name);
    }
    const RocketVersion version{driver.major, driver.minor};
    if (version.major > newest_known_major) {
        return make_error(ErrorCode::unsupported,
                          "rocket driver %u.%u on %s is newer than the interface that is known here, %u.x; update "
                          "ggml-npu",
                          version.major, version.minor, path.c_str(), newest_known_major);
    }
    DeviceInfo info;
    info.chip = options.chip;
    if (info.chip == nullptr) {
        NPU_ASSIGN(info.chip, board_chip());
    }
    Spaces spaces;
    for (std::uint32_t core = 0; core < info.chip->cores; ++core) {
        if (core != 0) {
            NPU_ASSIGN(node, open_node(calls, path));
        }
        NPU_ASSIGN(auto space, RocketSpace::open(std::move(node), version, core));
        spaces.push_back(std::move(space));
    }
    info.driver = rocket::driver_name;
    info.driver_version = format("%u.%u", version.major, version.minor);
    info.node = path;
    info.simulated = options.simulated;
    info.description = format("Rockchip %s (%s%s)", std::string(info.chip->name).c_str(),
                              options.simulated ? "simulated, " : "", rocket::driver_name);
    info.chains = version.chains();
    info.space_per_core = true;
    info.needs_rdma = true;
    info.longest_job = milliseconds(rocket::job_timeout_ms);
    info.syncs_ranges = spaces.front()->syncs_ranges();
    return std::unique_ptr<Device>(
        std::make_unique<RocketDevice>(std::move(spaces), version, std::move(info), options.memory_limit));
}

}  // namespace npu::device
