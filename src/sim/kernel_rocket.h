// A kernel with the mainline `rocket` driver, behind the same five system calls: buffer objects in an address space per
// open file, cache synchronisation of whole objects, and jobs that run on simulated cores while the client goes on.
// Checks what the driver checks and with the same errno, under DRM's rule for argument structs of another size. Offers
// interface 0.0 as upstream, or what patched kernels add up to the version in SimOptions::rocket.
//
// 0.0 says less than it knows. SUBMIT drops a job that it cannot run and reports success; a stock kernel even stops with
// a null pointer in the error path of some refusals. The first is done here as there, with a finding; the second is an
// errno with a finding. From 1.1 on the errno of the first refused job is returned, and the jobs after it do not run.
//
// What the sources leave open, and what is done here:
// - PREP_BO synchronises also when its wait fails; a copy would race with the job, so it is left out.
// - Whether a patched kernel takes a struct of more than a page: refused with E2BIG, the rule for growing structs.
// - close() of a file with waiting jobs returns at once; on a board it waits until they were started.
// Not there: PRIME (EINVAL).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/cpu_mappings.h"
#include "sim/journal.h"
#include "sim/kernel.h"
#include "sim/kernel_rocket_memory.h"
#include "sim/kernel_rocket_scheduler.h"
#include "sim/sim.h"
#include "uapi/drm.h"
#include "uapi/rocket.h"

namespace npu::sim {

// All calls are thread-safe. Locks, in the order in which they are taken: mutex_ here, the scheduler's, and under them
// singly those of an address space, the mappings, the journal, the faults and a completion. The client's memory is copied
// and buffers are destroyed without a lock.
class RocketKernel final : public SimulatedKernel {
  public:
    explicit RocketKernel(SimOptions options);
    ~RocketKernel() override;

    int open(const char* path, int flags) override;
    int ioctl(int fd, unsigned long request, void* argument) override;
    void* mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) override;
    int munmap(void* address, std::size_t length) override;
    int close(int fd) override;

    [[nodiscard]] bool owns(int fd) const override;
    [[nodiscard]] std::vector<Finding> findings() const override { return journal_.findings(); }
    void clear_findings() override { journal_.clear_findings(); }
    [[nodiscard]] KernelStatistics statistics() const override { return journal_.statistics(); }
    [[nodiscard]] std::uint64_t memory_in_use() const override { return memory_->in_use(); }
    void drain() override { scheduler_.drain(); }

  private:
    // Lives until it is closed and no thread is inside a call any more.
    struct File {
        explicit File(RocketScheduler& scheduler) : scheduler(scheduler), queue(scheduler.make_queue()) {}
        ~File() { scheduler.close(queue); }
        File(const File&) = delete;
        File& operator=(const File&) = delete;

        RocketScheduler& scheduler;
        const std::shared_ptr<RocketQueue> queue;
        std::map<std::uint32_t, std::shared_ptr<RocketBuffer>> buffers;  // by handle
        std::shared_ptr<AddressSpace> space = std::make_shared<AddressSpace>();
    };
    // Why a job does not run.
    struct Refusal {
        int error = 0;               // 0: it was queued
        bool panics_stock = false;   // a stock kernel does not get as far as returning
        bool always_silent = false;  // no version of the driver reports it
        std::string reason;
    };

    // Return 0 or a negative errno.
    int dispatch(File& file, std::uint32_t code, void* argument);
    int version(uapi::drm::Version& answer) const;
    int gem_close(File& file, std::uint32_t handle);
    int create_bo(File& file, uapi::rocket::CreateBo& arguments);
    int prep_bo(File& file, std::uint32_t handle, std::int64_t timeout_ns, const std::uint64_t* offset,
                std::uint64_t size);
    int fini_bo(File& file, std::uint32_t handle, const std::uint64_t* offset, std::uint64_t size);
    int submit(File& file, const uapi::rocket::Submit& arguments);

    int copy_jobs(const uapi::rocket::Submit& arguments, std::vector<uapi::rocket::JobWithFlags>& jobs);
    Refusal submit_job(File& file, const uapi::rocket::JobWithFlags& job);
    Refusal queue_job(File& file, std::shared_ptr<RocketJob> job, const std::vector<std::uint32_t>& inputs,
                      const std::vector<std::uint32_t>& outputs);
    int report(const Refusal& refusal, std::uint32_t index);

    [[nodiscard]] bool offers(std::uint32_t major, std::uint32_t minor) const;
    std::shared_ptr<File> find_file(int fd) const;
    std::shared_ptr<RocketBuffer> find_buffer(const File& file, std::uint32_t handle) const;

    const SimOptions options_;
    Journal journal_;
    const std::shared_ptr<RocketMemory> memory_;
    CpuMappings mappings_;

    mutable std::mutex mutex_;  // the files, what is in them, and the fences of buffers
    std::map<int, std::shared_ptr<File>> files_;

    RocketScheduler scheduler_;
};

}  // namespace npu::sim
