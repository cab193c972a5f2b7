// Something that happens once and that threads and poll() wait for: the end of a job. Waits end at a deadline or when
// a signal arrives, as a wait inside a real kernel does; nothing here waits uninterruptibly.
#pragma once

#include <chrono>
#include <optional>

namespace npu::sim {

enum class WaitResult { done, timed_out, interrupted };

class Completion {
  public:
    using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

    Completion();
    ~Completion();
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;

    void signal();
    [[nodiscard]] bool signalled() const;
    // Without a deadline: until it happens. A deadline in the past only looks.
    [[nodiscard]] WaitResult wait(std::optional<Clock::time_point> deadline = {}) const;

    // A new descriptor, owned by the caller, that becomes readable (POLLIN) when it happens: a fence file.
    // -1 with errno when the process has no descriptors left.
    [[nodiscard]] int duplicate_descriptor() const;

  private:
    int descriptor_;  // an eventfd that is written once and never read
};

}  // namespace npu::sim
