#include "sim/journal.h"

#include "base/log.h"
#include "base/result.h"

namespace npu::sim {

void Journal::add(Finding finding) {
    constexpr std::size_t most_findings = 1000;
    const std::string key = format("%u %u ", static_cast<unsigned>(finding.severity), finding.core) + finding.message;
    const std::lock_guard lock(mutex_);
    const auto known = index_.find(key);
    if (known != index_.end()) {
        ++findings_[known->second].count;
        return;
    }
    if (findings_.size() == most_findings) {
        return;
    }
    if (log_findings_) {
        log(LogLevel::warning, "simulated NPU, core %u, task %u, %s: %s", finding.core, finding.task,
            severity_name(finding.severity), finding.message.c_str());
    }
    index_.emplace(key, findings_.size());
    findings_.push_back(std::move(finding));
}

void Journal::complain(Severity severity, std::string message) {
    add({.severity = severity, .core = 0, .task = 0, .message = std::move(message)});
}

std::vector<Finding> Journal::findings() const {
    const std::lock_guard lock(mutex_);
    return findings_;
}

void Journal::clear_findings() {
    const std::lock_guard lock(mutex_);
    findings_.clear();
    index_.clear();
}

void Journal::add_submission(bool completed, std::span<const rockchip::CoreWork> cores, double seconds) {
    const std::lock_guard lock(mutex_);
    ++statistics_.submissions;
    statistics_.failed_submissions += completed ? 0 : 1;
    statistics_.device_seconds += seconds;
    for (const rockchip::CoreWork& tasks : cores) {
        for (const rockchip::TaskWork& work : tasks) {
            ++statistics_.tasks;
            statistics_.macs += work.macs;
            statistics_.feature_bytes += work.feature_bytes;
            statistics_.weight_bytes += work.weight_bytes;
            statistics_.output_bytes += work.output_bytes;
            statistics_.command_words += work.command_words;
        }
    }
}

KernelStatistics Journal::statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
}

}  // namespace npu::sim
