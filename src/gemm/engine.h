// Multiplies float activations by resident weights on one device:
//
//   y[m][n] = sum over k of x[m][k] * w[n][k]
//
// Rows of x are converted one by one, packed, multiplied by a program on every core, and the partial sums of the K tiles are
// added on the chip (compile/reduce.h) or on the host (results.h). Nothing in that depends on how many rows there are, so a row's result is the same alone and
// in any batch.
//
// Where all cores share an address space, one program deals the work to all of them; it lies where the weights lie, and so do
// its activations and results. Where each core has its own, each holds a slice of the weights, gets a copy of the
// activations, and runs a program of its own.
//
// Programs are planned and written once per (M, weights, slice) and kept, in device memory, least recently used first out;
// a multiplication re-aims one at its weights by rewriting the words that hold addresses.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/team.h"
#include "compile/search.h"
#include "device/device.h"
#include "gemm/rows.h"
#include "gemm/weights.h"

namespace npu::gemm {

struct EngineOptions {
    std::uint32_t cores = 3;  // where they share an address space; elsewhere all work
    std::chrono::milliseconds deadline{2000};
    Team team = work_alone;      // converts activations and results
    bool check_programs = true;  // every new program passes rockchip::check_program before its first run
    compile::Reduce reduce = compile::Reduce::automatic;  // who adds partial sums: compile/search.h
    std::string without = {};                             // constraints to take away, by comma: compile/constraints.h
    std::size_t cached_programs = 128;
    // More rows than these allow are split into several submissions.
    std::size_t largest_output = std::size_t{64} << 20;  // bytes of partial sums
    std::uint32_t largest_rows = 4096;                   // keeps the tasks of a core below the driver's 4095
};

struct MultiplyReport {
    std::size_t submissions = 0;
    std::size_t tasks = 0;
    std::size_t space_switches = 0;  // submissions in another address space than the one before
    double predicted_seconds = 0;    // by the timing model, on the chip at its nominal clock
};

class Engine {
  public:
    // The device must outlive the engine.
    Engine(device::Device& device, const EngineOptions& options);
    ~Engine();

    [[nodiscard]] const rockchip::ChipProfile& chip() const;
    // Slices of a matrix: one, or one per core where each has an address space.
    [[nodiscard]] std::uint32_t parts() const { return device_.info().space_per_core ? device_.spaces() : 1; }

    // Writes x.rows rows of N floats. Errors: what planning, the checker or the device say; the output is then
    // undefined. Thread-safe; calls are serialised.
    Result<MultiplyReport> multiply(const ResidentWeights& weights, RowsView x, TargetView y);

    // For weights that are not resident: converts them into the engine's own device memory, then hands them to `use`,
    // which may multiply with them (through the report-returning function it is given) until it returns.
    using Multiply = std::function<Result<MultiplyReport>(RowsView, TargetView)>;
    Result<void> with_transient(const WeightsShape& shape, const RowReader& read_row,
                                const std::function<Result<void>(const Multiply&)>& use);

  private:
    struct CachedProgram;
    struct Space;  // an address space and the engine's buffers in it

    Result<MultiplyReport> multiply_locked(const ResidentWeights& weights, RowsView x, TargetView y);
    Result<void> multiply_rows(const ResidentWeights& weights, RowsView x, TargetView y, MultiplyReport& report);
    Result<std::vector<CachedProgram*>> prepare(const ResidentWeights& weights, std::uint32_t rows);
    std::vector<float> write_features(const ResidentWeights& weights, const std::vector<CachedProgram*>& programs,
                                      RowsView x);  // returns row scales
    Result<CachedProgram*> program_for(const WeightsShape& shape, const Slice& slice, std::uint32_t space,
                                       std::uint32_t rows);
    Result<std::unique_ptr<CachedProgram>> make_program(const WeightsShape& shape, const Slice& slice,
                                                        std::uint32_t space, std::uint32_t rows);
    Result<void> aim(CachedProgram& program, const ResidentWeights& weights);
    Result<void> check(const CachedProgram& program, const ResidentWeights& weights) const;

    device::Device& device_;
    EngineOptions options_;
    std::mutex mutex_;
    std::vector<Space> spaces_;
    std::uint32_t last_space_ = 0;
    std::list<std::unique_ptr<CachedProgram>> programs_;  // most recently used first
};

}  // namespace npu::gemm
