// Where the time of multiplications went, by shape (GGML_NPU_PROFILE=1): what the host spent before, during and after the jobs of
// the NPU, and in the ranges of the graph that its CPU backend computed. Off, it costs a test of a flag.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "gemm/engine.h"

namespace npu::plugin {

// Thread-safe.
class Profile {
  public:
    explicit Profile(bool on) : on_(on) {}
    [[nodiscard]] bool on() const { return on_; }

    // One multiplication of `rows` rows by matrices of these shapes.
    void add(std::span<const gemm::Product> products, std::uint32_t rows, const gemm::MultiplyReport& report);
    // Seconds of a range of nodes on the CPU.
    void add_cpu_range(double seconds);

    // A table with a line per shape, most expensive first, and totals. Empty when nothing was added.
    [[nodiscard]] std::string table() const;

  private:
    struct Row {
        std::size_t calls = 0;
        std::size_t jobs = 0;
        gemm::HostPhases phases;
    };

    const bool on_;
    mutable std::mutex mutex_;
    std::map<std::string, Row> rows_;
    std::size_t cpu_ranges_ = 0;
    double cpu_seconds_ = 0;
};

}  // namespace npu::plugin
