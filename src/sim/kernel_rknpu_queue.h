// Which job runs where and when. Each core has a queue; a job stands in the queue of every core of its mask and starts
// when it is at the head of all of them (first come, first served; `priority` is not looked at). A job without a mask
// goes to the core with the fewest tasks in its queue, the first of equal ones. A core whose part of a job ended takes
// the next job, also while other cores still work on the same job. A core that hangs keeps its job, and everybody
// behind it waits, until the NPU is reset. A reset has no favourites: whatever is on a core or waits for one is gone, and
// who waits for such a job is told so. Source: the driver's published kernel source; public reports (two processes that
// submit at once stall each other; recovery takes a reset of everything).
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sim/journal.h"
#include "sim/kernel_rknpu_domain.h"
#include "sim/kernel_rknpu_job.h"

namespace npu::sim {

// Everything is guarded by the kernel's lock, which is released while a core runs.
class RknpuQueue {
  public:
    using Lock = std::unique_lock<std::mutex>;

    // What executed jobs moved since the last clearing, in bytes.
    struct Traffic {
        std::uint64_t written = 0;
        std::uint64_t read = 0;
        std::uint64_t weights = 0;
    };

    // `mutex` is the kernel's lock; `changed` is notified whenever a job settles or a domain becomes free. All outlive
    // the queue.
    RknpuQueue(const SimOptions& options, Journal& journal, RknpuDomain& domain, std::mutex& mutex,
               std::condition_variable& changed);
    // Running parts of jobs are waited for, the rest is forgotten. Not under the lock.
    ~RknpuQueue();
    RknpuQueue(const RknpuQueue&) = delete;
    RknpuQueue& operator=(const RknpuQueue&) = delete;

    // Core 0 of 1 to 3 with the least load.
    [[nodiscard]] unsigned least_loaded() const;
    // The job has entered its domain; the queue leaves it when the job is done or dropped.
    void enqueue(const std::shared_ptr<RknpuJob>& job);
    // Runs one part of the job in the calling thread, or with a team all parts; those that are ready. False: nothing to
    // do.
    bool help(Lock& lock, const RknpuJob& job);

    // The job that holds the core now; nullptr: idle.
    [[nodiscard]] const RknpuJob* current(unsigned core) const { return slots_[core].current.get(); }
    // True for a queued job that waits behind one that nobody will ever take off its core.
    [[nodiscard]] bool blocked_forever(const RknpuJob& job) const;
    // False when all jobs in flight will stay where they are until somebody else does something.
    [[nodiscard]] bool can_progress() const;
    // True once a NONBLOCK job had to wait in a queue and no blocking job has completed since.
    [[nodiscard]] bool references_may_leak() const { return references_may_leak_; }

    // Takes a queued job out of the queues.
    void withdraw(const RknpuJob& job);
    // Resets all cores and drops all jobs. `why` is for the finding of each blocked thread that loses its job.
    void reset(const char* why);
    // Returns when no job runs or can be run.
    void drain(Lock& lock);

    Traffic traffic;

  private:
    struct Slot {  // a core
        std::unique_ptr<Core> core;
        std::deque<std::shared_ptr<RknpuJob>> waiting;
        std::shared_ptr<RknpuJob> current;
        std::uint64_t load = 0;  // tasks in the queue and on the core
        bool executing = false;  // a host thread is in it
        bool reset_when_free = false;
        bool hangs = false;  // answers nothing until a reset
        bool gone = false;   // fault: answers nothing, whatever happens
        bool fresh = false;  // was reset and has run nothing since
    };
    struct Part {
        std::shared_ptr<RknpuJob> job;
        std::size_t index;  // in the job's cores
    };

    void advance(unsigned core);
    void commit(const std::shared_ptr<RknpuJob>& job);
    bool run(Lock& lock, const RknpuJob* only);
    void finish(const Part& part, RknpuCoreRun run);
    void settle(RknpuJob& job);
    void remove(const std::shared_ptr<RknpuJob>& job);
    void drop(const std::shared_ptr<RknpuJob>& job, const char* why);
    void release(RknpuJob& job);
    void count(RknpuJob& job);
    void give_up_fences();
    RknpuCoreFaults draw_faults(unsigned core, const RknpuJob& job);
    void wake(std::size_t parts);
    void work();

    const SimOptions& options_;
    Journal& journal_;
    RknpuDomain& domain_;
    std::mutex& mutex_;
    std::condition_variable& changed_;

    const unsigned thread_limit_;  // parts that run at once
    std::vector<Slot> slots_;
    std::list<std::shared_ptr<RknpuJob>> in_flight_;
    std::deque<Part> ready_;
    unsigned running_ = 0;
    bool references_may_leak_ = false;

    std::condition_variable work_;
    unsigned idle_threads_ = 0;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace npu::sim
