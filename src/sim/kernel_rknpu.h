// A kernel with the vendor's `rknpu` driver, behind the same five system calls: buffer objects with addresses for
// the NPU, cache synchronisation, and jobs that run on simulated cores before SUBMIT returns. Checks what the driver
// checks and with the same errno; where the driver would trust a pointer and panic, the call fails and a finding
// says so. Source: the driver's published kernel source and interface.
//
// Time is virtual: a job that hangs fails with ETIMEDOUT at once, leaves the number of tasks that ran in
// task_counter, and all cores are reset.
//
// Not there: NONBLOCK and fences (EINVAL, with a finding), PRIME, bandwidth counters, SRAM.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "sim/buffer_object.h"
#include "sim/core.h"
#include "sim/kernel.h"
#include "sim/sim.h"
#include "sim/worker_pool.h"
#include "uapi/rknpu.h"
#include "uapi/syscalls.h"

namespace npu::sim {

// All calls are thread-safe; jobs run one after the other.
class RknpuKernel final : public SimulatedKernel {
  public:
    explicit RknpuKernel(SimOptions options);
    ~RknpuKernel() override;

    int open(const char* path, int flags) override;
    int ioctl(int fd, unsigned long request, void* argument) override;
    void* mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) override;
    int munmap(void* address, std::size_t length) override;
    int close(int fd) override;

    [[nodiscard]] bool owns(int fd) const override;
    [[nodiscard]] std::vector<Finding> findings() const override { return journal_.findings(); }
    void clear_findings() override { journal_.clear_findings(); }
    [[nodiscard]] KernelStatistics statistics() const override { return journal_.statistics(); }
    [[nodiscard]] std::uint64_t memory_in_use() const override;
    void drain() override;

  private:
    static constexpr std::uint32_t domains = 16;

    struct Snapshot;  // the objects that a job may reach
    struct File {
        std::map<std::uint32_t, std::shared_ptr<BufferObject>> objects;  // by handle
        std::uint32_t next_handle = 1;
        std::array<std::shared_ptr<const Snapshot>, domains> snapshots;  // empty: out of date
    };
    struct CoreRun;

    // Return 0 or a negative errno. All but submit and reset run under mutex_.
    int action(uapi::rknpu::Action& arguments);
    int mem_create(File& file, uapi::rknpu::MemCreate& arguments);
    int mem_map(File& file, uapi::rknpu::MemMap& arguments);
    int mem_destroy(File& file, const uapi::rknpu::MemDestroy& arguments);
    int mem_sync(File& file, const uapi::rknpu::MemSync& arguments);
    int release(File& file, std::uint32_t handle);
    int submit(int fd, uapi::rknpu::Submit& arguments);
    int check_submit(File& file, const uapi::rknpu::Submit& arguments, std::shared_ptr<const Snapshot>& snapshot,
                     std::shared_ptr<BufferObject>& tasks);
    CoreRun run_core(unsigned core, uapi::rknpu::SubcoreTask range, BufferObject& tasks, const Memory& memory);

    File* find_file(int fd);
    std::shared_ptr<BufferObject> find_object(File& file, std::uint64_t token, const char* what);
    std::shared_ptr<const Snapshot> snapshot(File& file, std::uint32_t domain);

    const SimOptions options_;
    Journal journal_;
    std::shared_ptr<BackingFile> backing_ = std::make_shared<BackingFile>();

    std::mutex device_mutex_;  // one job at a time; taken before mutex_
    std::vector<std::unique_ptr<Core>> cores_;
    WorkerPool workers_;

    mutable std::mutex mutex_;  // everything below
    std::map<int, File> files_;
    std::array<AddressWindow, domains> windows_;
    std::uint64_t next_token_ = 0xffffff8100000000U;
    std::uint64_t memory_in_use_ = 0;
    std::uint32_t current_domain_ = 0;
};

}  // namespace npu::sim
