// A simulated kernel from the outside, whichever driver it has: the system calls that a client makes, and what a test
// or a wrapper wants to know afterwards. Two drivers stand behind it: kernel_rknpu.h (the vendor's) and
// kernel_rocket.h (mainline).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/finding.h"
#include "sim/journal.h"
#include "uapi/syscalls.h"

namespace npu::sim {

// All calls are thread-safe. The numbers that open() returns are real descriptors, free and close-on-exec.
class SimulatedKernel : public uapi::Syscalls {
  public:
    // True for every descriptor that this kernel gave out and that is not closed yet: open device files and exported
    // buffers (dma-buf). mmap, ioctl and close of such a descriptor are for the kernel; everything else (poll, fstat,
    // dup of a fence) works on the real descriptor.
    [[nodiscard]] virtual bool owns(int fd) const = 0;

    // What was refused or looked dangerous so far; see Journal.
    [[nodiscard]] virtual std::vector<Finding> findings() const = 0;
    virtual void clear_findings() = 0;
    [[nodiscard]] virtual KernelStatistics statistics() const = 0;

    // Bytes of all live buffer objects.
    [[nodiscard]] virtual std::uint64_t memory_in_use() const = 0;

    // Returns when no job is queued or running. Called before a process reports its summary.
    virtual void drain() = 0;
};

}  // namespace npu::sim
