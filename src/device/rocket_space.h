// An open file of the mainline driver. The driver gives each file an IOMMU domain of its own, which makes a file an address
// space of 4 GiB; and a queue of jobs that run one after the other, so it takes one file per core to keep all cores busy.
//
// What the driver knows of time: a job names buffers that it reads and buffers that it writes, and PREP_BO waits until
// those that write its buffer are done. A buffer that is named twice makes the driver drop the job and report success. So
// a space keeps a guard, one page that every job claims to write and that is cheap to wait for, and lists every other live
// buffer exactly once: as written if a canary lies in it, else as read, which only keeps it alive. Waiting for a result
// therefore never waits for a later job that writes elsewhere. The guard is the file's first buffer: it also takes
// address 0, where a pointer that somebody forgot to fill in would lead.
// Source: kernel interface of rocket; published measurements of its schedule and of what it drops in silence.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/result.h"
#include "device/device.h"
#include "device/drm_node.h"
#include "uapi/rocket.h"

namespace npu::device {

class RocketBuffer;

// Absolute CLOCK_MONOTONIC nanoseconds, as PREP_BO wants them; a wait too long for the clock ends with it.
std::int64_t deadline_after(std::chrono::milliseconds wait);

// Version of the driver's interface: 0.0 in mainline kernels, 1.1 to 1.5 in patched ones.
struct RocketVersion {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;

    [[nodiscard]] bool chains() const { return major == 1 && minor >= 1; }         // job flag BATCHED
    [[nodiscard]] bool waits_for_ppu() const { return major == 1 && minor >= 3; }  // job flag PPU_DONE
    [[nodiscard]] bool syncs_ranges() const { return major == 1 && minor >= 5; }
};

// Thread-safe, except that one thread at a time submits and waits. Closes the file when the last buffer is gone.
class RocketSpace {
  public:
    // Makes the guard. Errors: those of CREATE_BO, as device_failure.
    static Result<std::shared_ptr<RocketSpace>> open(std::unique_ptr<DrmNode> node, RocketVersion version,
                                                     std::uint32_t index);

    [[nodiscard]] const DrmNode& node() const { return *node_; }
    [[nodiscard]] std::atomic<std::size_t>& allocated() { return node_->allocated; }
    [[nodiscard]] std::uint32_t index() const { return index_; }
    // Whether parts of a buffer can be synchronised. Tried out, because the structs of those requests are not published.
    [[nodiscard]] bool syncs_ranges() const { return syncs_ranges_; }

    void add(RocketBuffer& buffer);
    // Takes the buffer off the list and frees its handle in one step: a submission that names a handle which is gone
    // stops a stock kernel.
    void remove(RocketBuffer& buffer);
    // The live buffer of this space that holds `bytes` bytes from `iova` on; nullptr when there is none.
    [[nodiscard]] const RocketBuffer* find(std::uint64_t iova, std::uint64_t bytes) const;

    // Queues a job and returns. Errors: device_failure with what the driver said.
    Result<void> submit(std::span<const uapi::rocket::Task> tasks, std::uint32_t flags,
                        std::span<const Canary> canaries);
    // Waits for all jobs so far. Errors: timeout; device_failure when the driver refuses to wait.
    Result<void> wait(std::int64_t deadline);
    // True while a job may still run.
    [[nodiscard]] bool busy() const { return finished_ != submitted_; }
    // Jobs that are over, plus one; 0 while one may still run.
    [[nodiscard]] std::uint64_t settled() const;

  private:
    RocketSpace(std::unique_ptr<DrmNode> node, RocketVersion version, std::uint32_t index)
        : node_(std::move(node)), version_(version), index_(index) {}
    [[nodiscard]] bool try_ranges() const;

    const std::unique_ptr<DrmNode> node_;
    const RocketVersion version_;
    const std::uint32_t index_;
    std::uint32_t guard_ = 0;  // handle; freed with the file
    bool syncs_ranges_ = false;
    std::atomic<std::uint64_t> submitted_{0};
    std::atomic<std::uint64_t> finished_{0};

    mutable std::mutex mutex_;                        // buffers_, and which handles are alive
    std::map<std::uint64_t, RocketBuffer*> buffers_;  // by address
};

}  // namespace npu::device
