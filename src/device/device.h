// An NPU behind a kernel driver: memory that both sides see, and jobs. This interface is what the rest of the
// product knows of a driver; each driver has one client that implements it over the system-call seam, and the
// same client talks to silicon and to the simulated kernel.
//
// Buffers are owned by one side at a time. Whoever writes with the CPU hands the range over with `to_device`
// before a job reads it, and takes results back with `from_device` before the CPU reads them: the memory is
// cached and the NPU does not snoop.
//
// The NPU's addresses have 32 bits, so an address space holds 4 GiB. A device has one or several; a chain and everything
// it addresses lie in one of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "rockchip/chip.h"

namespace npu::device {

// A buffer object, mapped into this process and into the NPU's address space. Freed by its destructor; it must
// not outlive its device.
class Buffer {
  public:
    virtual ~Buffer() = default;
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    // Address of the first byte as the NPU sees it. 0 is a legal address.
    [[nodiscard]] std::uint64_t iova() const { return iova_; }
    // Makes CPU writes in the range visible to the NPU, or NPU writes visible to the CPU. Where DeviceInfo::syncs_ranges
    // is false the whole buffer is meant: from_device then loses what the CPU wrote anywhere in it and did not hand over.
    virtual Result<void> to_device(std::size_t offset, std::size_t bytes) = 0;
    virtual Result<void> from_device(std::size_t offset, std::size_t bytes) = 0;

  protected:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint64_t iova_ = 0;
};

// Eight bytes that a chain overwrites, somewhere in its output. They get a pattern of their own before each job, and when
// it is still there afterwards the job has failed, whatever the driver says: the mainline driver reports success for jobs
// that it gave up, and both were seen to report jobs that wrote nothing. Tasks of a chain run in order, so the last bytes
// that the last task writes speak for all of them. No task may read them before one has written them.
struct Canary {
    Buffer* buffer = nullptr;
    std::size_t offset = 0;
};

// One command list: `tasks` tasks linked by their tails, which the hardware follows by itself where the driver lets it
// (DeviceInfo::chains).
struct TaskChain {
    struct Entry {
        std::uint64_t iova;        // of the task's first word
        std::uint32_t body_words;  // without the four-word tail
        std::uint32_t enable;      // block bits that the task fires
        std::uint32_t interrupts;  // completion interrupts, whole pairs
    };
    std::span<const Entry> tasks;           // in chain order
    std::span<const Canary> canaries = {};  // all of them must be overwritten
};

struct JobReport {
    double hardware_seconds = 0;  // as the driver reports it; predicted on a simulated device
};

struct DeviceInfo {
    std::string description;     // "Rockchip RK3588 (simulated, rknpu)"
    std::string driver;          // "rknpu"
    std::string driver_version;  // "0.9.8"
    std::string node;            // "/dev/dri/card1"
    bool simulated = false;
    const rockchip::ChipProfile* chip = nullptr;
    bool chains = true;  // false: one kick per task, so nothing stays in the CBUF from one task to the next
    bool space_per_core = false;
    bool needs_rdma = false;                   // programs must write DPU_RDMA and fire it (enable 0x1d)
    std::chrono::milliseconds longest_job{0};  // the driver gives up a job that takes longer; 0: only the deadline does
    bool syncs_ranges = true;  // false: synchronising costs what the whole buffer costs, so keep buffers small
};

struct MemoryInfo {
    std::size_t total = 0;  // bytes this device could hold
    std::size_t free = 0;   // bytes it could hold now
};

class Device {
  public:
    virtual ~Device() = default;
    [[nodiscard]] virtual const DeviceInfo& info() const = 0;
    [[nodiscard]] virtual MemoryInfo memory() const = 0;

    // Address spaces of 4 GiB each. Where DeviceInfo::space_per_core is set, a chain of core i and everything it addresses
    // lie in space i; elsewhere a job has all cores in one space, and jobs in another one make the driver switch.
    [[nodiscard]] virtual std::uint32_t spaces() const { return 1; }

    // Allocates memory for features, weights, outputs or command words. Contents are zero. Errors: out_of_memory
    // with what was asked and what is left; invalid_argument for a space that the device does not have. Thread-safe.
    virtual Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes, std::uint32_t space = 0) = 0;

    // Runs chain i on core i (at most the chip's cores) and waits until all are done or the deadline has passed. On a
    // timeout the driver has reset the cores and nothing of the output may be used; device_failure when the driver
    // refuses the job or a canary still stands. Chains must lie in buffers of this device that were handed over.
    // A chain without tasks leaves its core idle where the driver can do that (rocket). Thread-safe; jobs are serialised.
    // `space` is where the job lies when all cores share one; 0 otherwise.
    virtual Result<JobReport> run(std::span<const TaskChain> chains, std::chrono::milliseconds deadline,
                                  std::uint32_t space = 0) = 0;
};

}  // namespace npu::device
