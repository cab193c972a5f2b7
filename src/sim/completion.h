// Something that happens once and that threads and poll() wait for: the end of a job. A wait ends at a deadline or when a
// signal arrives, as an interruptible wait inside a real kernel does. Like there, a signal whose handler was installed
// with SA_RESTART does not end it: the wait goes on after the handler. poll() and its relatives cannot do that, they fail
// with EINTR whatever the handler says; a blocking read() can, and so each waiting thread reads from a timer descriptor
// that expires at its deadline or is made to expire when the thing happens. Source: signal(7), which lists the calls.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

namespace npu::sim {

enum class WaitResult { done, timed_out, interrupted };

// Thread-safe. Holds no descriptor unless somebody waits or asked for one, so there may be thousands.
class Completion {
  public:
    using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

    Completion() = default;
    ~Completion();
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;

    void signal();
    [[nodiscard]] bool signalled() const;
    // Without a deadline: until it happens. A deadline in the past only looks. In a process that has no descriptors left
    // signals are not noticed.
    [[nodiscard]] WaitResult wait(std::optional<Clock::time_point> deadline = {}) const;

    // A new descriptor, owned by the caller, that becomes readable (POLLIN) when it happens: a fence file.
    // -1 with errno when the process has no descriptors left.
    [[nodiscard]] int duplicate_descriptor() const;

  private:
    class Waiter;  // a thread in wait()

    mutable std::mutex mutex_;
    mutable std::condition_variable happened_;
    bool signalled_ = false;
    mutable std::vector<int> timers_;  // of the threads that wait
    mutable int descriptor_ = -1;      // an eventfd that is written once and never read
};

}  // namespace npu::sim
