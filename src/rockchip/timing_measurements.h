// Times that others measured on boards and published, with what is known about what ran, and what the timing model
// says of the same work. This is the evidence behind timing.h: tests/rockchip/timing_test.cpp holds the model to it and
// docs/timing-model.md shows it.
//
// A row belongs here if the work is known: shape, formats, how the program tiles (from the source, or by its
// planner's published rule), driver, clock. Rows marked with a star are the calibration rows of our reference. A row
// that a constant was set by is marked too, because it is no check of the model.
//
// Some published times are those of a library call, which packs features and unpacks results on the CPU before and
// after. That part is not the NPU's; HostWork adds it per element, at one rate per kind of call, fitted here.
#pragma once

#include <cstdint>
#include <span>

#include "rockchip/timing.h"
#include "rockchip/timing_workload.h"

namespace npu::rockchip {

// What the published time holds besides the NPU's.
enum class HostWork : std::uint8_t {
    none,          // time on the device, or host work that is hidden behind it
    one_worker,    // resident weights; one thread packs, waits and unpacks
    five_workers,  // resident weights; five threads with a file of their own each
};

// Seconds per feature and result element of the whole call.
double host_seconds_per_element(HostWork work);

// Which tasks run.
enum class Workload : std::uint8_t {
    matmul,     // by its tiling
    attention,  // of 4 query rows with 8 cached key/value heads: per head and tile, Q x K^T and P x V
};

struct Measurement {
    const char* name = "";
    const char* source = "";  // kind of source
    std::uint32_t m = 0;
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    Precision input = Precision::fp16;
    Precision output = Precision::fp32;
    std::uint32_t cores = 1;
    KernelSetup kernel = KernelSetup::rknpu;
    double clock_mhz = 1000;
    double memory_mhz = 2112;
    std::uint32_t tasks_per_kick = 0;  // 0: one chain per core
    std::uint32_t calls = 1;           // the matmul runs so many times, each a submission
    Workload workload = Workload::matmul;
    Tiling tiling = {};
    HostWork host = HostWork::none;
    double slower_clock_mhz = 0;  // not 0: published is what the work takes longer at this clock
    double low_ms = 0;            // as published, from .. to
    double high_ms = 0;
    bool star = false;
    bool fitted = false;           // one of our constants was set by this row
    const char* explanation = "";  // needed where the model is off by more than 40 %

    [[nodiscard]] double published_seconds() const;  // middle of the published range
};

std::span<const Measurement> measurements();

// The tasks of one call, per core.
std::vector<std::vector<TaskWork>> tasks_of(const Measurement& row);

// What the model says of a row, in seconds, on a chip with these constants.
double predicted_seconds(const Measurement& row, const ChipProfile& chip);

// predicted / published - 1
double relative_error(const Measurement& row, const ChipProfile& chip);

// How well a chip's constants fit a set of rows. Absolute values of relative errors.
struct Fit {
    std::size_t rows = 0;
    double median = 0;
    double worst = 0;
    const Measurement* worst_row = nullptr;
};

enum class RowFilter : std::uint8_t { all, star, check };  // check: rows that no constant was set by

Fit fit(const ChipProfile& chip, RowFilter filter = RowFilter::all);

// Constants of the model that the rows exercise, those of the host included: the fit's degrees of freedom.
inline constexpr std::size_t constants_in_use = 9;

}  // namespace npu::rockchip
