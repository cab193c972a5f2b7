// A kernel with the vendor's `rknpu` driver, version 0.9.8, behind the same five system calls: buffer objects with
// addresses for the NPU in 16 domains, cache synchronisation, sharing of buffers between files (PRIME), and jobs,
// blocking or not, on up to three cores. Checks what the driver checks and with the same errno. Where the driver would
// follow a wrong pointer and panic, the call fails and a finding says so; what it accepts and never runs is a finding
// too. Source: the driver's published kernel source and interface; public reports of what boards do.
//
// Time. A job that hangs is known to hang as soon as it has run here. With SimOptions::real_time the caller waits as
// long as on a board: SUBMIT for its timeout (three times that if the job was never started because another one kept its
// core), then 0.2 s for the reset; a domain switch that cannot happen for 6 s. Otherwise all of this takes no time. Jobs
// that do not hang take the host's time, whatever their timeout: the host is slower than silicon.
//
// Signals. A blocking SUBMIT and a wait for a domain are uninterruptible in the driver, so they never fail with EINTR.
// Here the handler runs while the call waits. The wait for a FENCE_IN is interruptible.
//
// Locks, in the order in which they may be taken: the kernel's lock `mutex_` (files, objects, domain, queue; released
// while a core runs and while a call waits), then one of the leaves (the journal, the faults, a fence, the backing file,
// the mappings, an object's cache lines). Waiting for a fence and running a core happen without any of them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/cpu_mappings.h"
#include "sim/kernel.h"
#include "sim/kernel_rknpu_domain.h"
#include "sim/kernel_rknpu_job.h"
#include "sim/kernel_rknpu_objects.h"
#include "sim/kernel_rknpu_queue.h"
#include "sim/sim.h"
#include "uapi/drm.h"
#include "uapi/rknpu.h"
#include "uapi/syscalls.h"

namespace npu::sim {

// What differs between boards with this driver.
struct RknpuBoard {
    // NPU memory on the chip that TRY_SRAM may use: 0, or 956 KiB where kernel and device tree give it to the NPU.
    std::uint32_t sram_bytes = 0;
    // Jobs of files that were opened by a render node (a path with "renderD") run no task. One board is reported to do
    // this; the driver's source treats both nodes alike.
    bool render_node_runs_nothing = false;
    // What a blocking SUBMIT gets when its job was never started because a job before it keeps the core: ETIMEDOUT after a
    // reset, as for any time-out, or EINVAL and no reset (reported: EINVAL while the previous job has not retired).
    bool starved_submit_is_invalid = false;
};

inline constexpr std::uint32_t rk3588_sram_bytes = 956 << 10;

// All calls are thread-safe. Not to be destroyed while another thread is in a call.
class RknpuKernel final : public SimulatedKernel {
  public:
    explicit RknpuKernel(SimOptions options, RknpuBoard board = {});
    ~RknpuKernel() override;

    int open(const char* path, int flags) override;
    int ioctl(int fd, unsigned long request, void* argument) override;
    void* mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) override;
    // A mapping keeps its object alive, so all of the process's munmap calls must come through here.
    int munmap(void* address, std::size_t length) override;
    int close(int fd) override;

    [[nodiscard]] bool owns(int fd) const override;
    [[nodiscard]] std::vector<Finding> findings() const override { return journal_.findings(); }
    void clear_findings() override { journal_.clear_findings(); }
    [[nodiscard]] KernelStatistics statistics() const override { return journal_.statistics(); }
    [[nodiscard]] std::uint64_t memory_in_use() const override;
    void drain() override;

  private:
    using Lock = std::unique_lock<std::mutex>;
    using FilePointer = std::shared_ptr<RknpuFile>;
    struct Export {  // a dma-buf
        std::shared_ptr<RknpuObject> object;
        bool writable = false;  // by mappings
    };
    class Call;     // one system call on an open file
    class Mapping;  // a range of the client's memory that shows an object

    // Handlers of requests: 0 or a negative errno. They take the lock.
    int dispatch(const FilePointer& file, std::uint32_t code, std::uint64_t user);
    int action(RknpuFile& file, uapi::rknpu::Action& arguments);
    int traffic_action(uapi::rknpu::Action& arguments);
    int mem_create(RknpuFile& file, uapi::rknpu::MemCreate& arguments);
    int mem_map(RknpuFile& file, uapi::rknpu::MemMap& arguments);
    int mem_destroy(RknpuFile& file, uapi::rknpu::MemDestroy& arguments);
    int mem_sync(RknpuFile& file, uapi::rknpu::MemSync& arguments);
    int gem_close(RknpuFile& file, uapi::drm::GemClose& arguments);
    int handle_to_fd(RknpuFile& file, uapi::drm::PrimeHandle& arguments);
    int fd_to_handle(RknpuFile& file, uapi::drm::PrimeHandle& arguments);
    int dma_buf_sync(int fd, const uapi::drm::DmaBufSync& arguments);
    int submit(const FilePointer& file, uapi::rknpu::Submit& arguments);

    // All of the following run under the lock.
    void synchronise(RknpuObject& object, bool to_device, bool from_device, std::uint64_t offset, std::uint64_t bytes);
    int make_object(Lock& lock, const uapi::rknpu::MemCreate& arguments, std::shared_ptr<RknpuObject>& made);

    // Parts of submit.
    int check_submit(const uapi::rknpu::Submit& arguments);
    int prepare(const FilePointer& file, const uapi::rknpu::Submit& arguments, RknpuJob& job);
    void assign_cores(RknpuJob& job);
    int wait_for_fence(Lock& lock, uapi::rknpu::Submit& arguments);
    int attach_fence(RknpuJob& job, uapi::rknpu::Submit& arguments);
    void reap_before_nonblock(Lock& lock, std::uint32_t core_mask);
    int wait_for(Lock& lock, const RknpuJob& job, uapi::rknpu::Submit& arguments);
    int give_up(Lock& lock, const RknpuJob& job, uapi::rknpu::Submit& arguments);
    int soft_reset(Lock& lock, const char* why);

    // Waiting releases the lock. -EINVAL: a job that never ends keeps the live domain.
    int enter_domain(Lock& lock, std::uint32_t domain);
    void leave_domain();
    std::shared_ptr<RknpuObject> find_token(const RknpuFile& file, std::uint64_t token, const char* what);
    void drop_handle(RknpuFile& file, std::uint32_t handle);
    void drop_holder(const std::shared_ptr<RknpuObject>& object);
    void release_all(RknpuFile& file);
    bool forget(int fd);
    FilePointer find_file(int fd) const;

    const SimOptions options_;
    const RknpuBoard board_;
    Journal journal_;

    mutable std::mutex mutex_;  // everything below
    std::condition_variable changed_;
    std::map<int, FilePointer> files_;
    std::map<int, Export> exports_;
    std::map<std::uint64_t, std::shared_ptr<RknpuFence>> fences_;  // by the identity of the descriptor's event
    RknpuDomain domain_;
    RknpuMemory memory_;
    bool resetting_ = false;  // real time only: a thread is in the middle of a reset
    CpuMappings mappings_;    // has a lock of its own; what it drops uses what is above
    RknpuQueue queue_;        // last: its threads use what is above
};

}  // namespace npu::sim
