// What a simulated kernel remembers of all jobs: findings, each distinct one once, and totals. One per kernel.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rockchip/timing.h"
#include "sim/finding.h"

namespace npu::sim {

struct KernelStatistics {
    std::uint64_t submissions = 0;         // accepted, whether they finished or not
    std::uint64_t failed_submissions = 0;  // of these, timed out
    std::uint64_t tasks = 0;
    std::uint64_t macs = 0;
    std::uint64_t feature_bytes = 0;
    std::uint64_t weight_bytes = 0;
    std::uint64_t output_bytes = 0;
    std::uint64_t command_words = 0;
    double device_seconds = 0;  // of all jobs, by SimOptions::submission_seconds
};

// Thread-safe.
class Journal {
  public:
    // With `log_findings` each distinct finding is also logged once, as a warning through base/log.h.
    explicit Journal(bool log_findings) : log_findings_(log_findings) {}

    // Identical findings are merged; at most 1000 distinct ones are kept.
    void add(Finding finding);
    // A finding of the kernel itself: no core, no task.
    void complain(Severity severity, std::string message);
    [[nodiscard]] std::vector<Finding> findings() const;
    void clear_findings();

    void add_submission(bool completed, std::span<const rockchip::CoreWork> cores, double seconds);
    [[nodiscard]] KernelStatistics statistics() const;

  private:
    const bool log_findings_;
    mutable std::mutex mutex_;
    std::vector<Finding> findings_;
    std::unordered_map<std::string, std::size_t> index_;
    KernelStatistics statistics_;
};

}  // namespace npu::sim
