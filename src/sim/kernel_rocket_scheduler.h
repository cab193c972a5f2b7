// Which job of the simulated rocket driver runs where and when. The driver uses the kernel's scheduler for graphics jobs:
// each core has a scheduler that runs one job at a time, and each open file is a queue of jobs. A queue belongs to one
// core as long as it has a job that is not done. Only when it is empty does the next job move it to the core with the
// lowest score, the first of equal ones; a score counts the queues that the core last served and its unfinished jobs. So
// the jobs of one file run one after the other, a file alone alternates between two of the cores and never reaches the
// third, and it takes three files to keep three cores busy. Waiting queues of one core are served in the order in which
// their first job was submitted. Source: the kernel's scheduler; published measurements (one file reaches two cores,
// throughput grows up to three files).
//
// The driver also derives from the buffers that jobs name which has to wait for which. Buffers belong to one file, and
// jobs of one file run in order anyway, so no order is left to derive.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/kernel_rocket_job.h"

namespace npu::sim {

// The jobs of one open file. Everything in it is guarded by the scheduler's lock.
struct RocketQueue {
    std::deque<std::shared_ptr<RocketJob>> waiting;
    std::shared_ptr<const Completion> last;  // of the job that was submitted last
    unsigned core = 0;
    bool attached = false;  // counts in the score of its core
    bool closed = false;    // no more jobs will come
};

// Thread-safe. One host thread per core, started with the first job; they take no signals, those are for the client.
class RocketScheduler {
  public:
    // `options` and `journal` outlive the scheduler.
    RocketScheduler(const SimOptions& options, Journal& journal);
    // Lets running jobs end and drops those that wait; their fences signal.
    ~RocketScheduler();
    RocketScheduler(const RocketScheduler&) = delete;
    RocketScheduler& operator=(const RocketScheduler&) = delete;

    std::shared_ptr<RocketQueue> make_queue();
    void push(RocketQueue& queue, std::shared_ptr<RocketJob> job);
    // The jobs in it still run; then the queue is forgotten.
    void close(const std::shared_ptr<RocketQueue>& queue);
    // Returns when no job waits or runs.
    void drain();

  private:
    struct Lane {  // a core
        std::unique_ptr<RocketCore> core;
        unsigned score = 0;
        std::condition_variable wake;
        std::thread thread;
    };

    void start_threads();
    void serve(unsigned core);
    RocketQueue* next_queue(unsigned core);
    void stop_running();
    void finish(unsigned core, RocketQueue& queue, const RocketJob& job);
    void forget(RocketQueue& queue);

    const bool real_time_;
    const unsigned running_limit_;
    std::vector<std::unique_ptr<Lane>> lanes_;  // the list itself never changes

    std::mutex mutex_;  // everything below, and the lanes' scores
    std::condition_variable idle_;
    std::vector<std::shared_ptr<RocketQueue>> queues_;
    std::uint64_t submitted_ = 0;
    std::uint64_t unfinished_ = 0;
    unsigned running_ = 0;
    bool started_ = false;
    bool stop_ = false;
};

}  // namespace npu::sim
