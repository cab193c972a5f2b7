// An NPU behind a kernel driver: memory that both sides see, and jobs. This interface is what the rest of the
// product knows of a driver; each driver has one client that implements it over the system-call seam, and the
// same client talks to silicon and to the simulated kernel.
//
// Buffers are owned by one side at a time. Whoever writes with the CPU hands the range over with `to_device`
// before a job reads it, and takes results back with `from_device` before the CPU reads them: the memory is
// cached and the NPU does not snoop.
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
    // Makes CPU writes in the range visible to the NPU, or NPU writes visible to the CPU.
    virtual Result<void> to_device(std::size_t offset, std::size_t bytes) = 0;
    virtual Result<void> from_device(std::size_t offset, std::size_t bytes) = 0;

  protected:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint64_t iova_ = 0;
};

// One command list that the hardware follows by itself: `tasks` tasks linked by their tails.
struct TaskChain {
    struct Entry {
        std::uint64_t iova;        // of the task's first word
        std::uint32_t body_words;  // without the four-word tail
        std::uint32_t enable;      // block bits that the task fires
        std::uint32_t interrupts;  // completion interrupts, whole pairs
    };
    std::span<const Entry> tasks;  // in chain order
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

    // Allocates memory for features, weights, outputs or command words. Contents are zero. Errors: out_of_memory
    // with what was asked and what is left. Thread-safe.
    virtual Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes) = 0;

    // Runs one chain per core (as many as chains are given, at most the chip's cores) and waits until all are
    // done or the deadline has passed; on a timeout the driver has reset the cores and nothing of the output may
    // be used. Chains must lie in buffers of this device that were handed over. Thread-safe; jobs are serialised.
    virtual Result<JobReport> run(std::span<const TaskChain> chains, std::chrono::milliseconds deadline) = 0;
};

}  // namespace npu::device
