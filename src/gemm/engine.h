// Multiplies float activations by resident weights on one device:
//
//   y[m][n] = sum over k of x[m][k] * w[n][k]
//
// Rows of x are converted one by one, packed, multiplied by a program on every core, and the partial sums of the K tiles are
// added on the host (results.h). Nothing in that depends on how many rows there are, so a row's result is the same alone and
// in any batch.
//
// Where all cores share an address space, one program deals the work to all of them; it lies where the weights lie, and so do
// its activations and results. Where each core has its own, each holds a slice of the weights, gets a copy of the
// activations, and runs a program of its own.
//
// Matrices that are multiplied by the same activations go together: x is converted once, and one job does all (submission.h).
// A long batch is cut into jobs (row_cut.h), for memory, for the driver's limits, and so that the host converts the
// rows of the next job and the results of the last one while the device works.
//
// Submissions are made once per (M, weights' shapes) and kept, least recently used first out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "base/team.h"
#include "device/device.h"
#include "gemm/product.h"
#include "gemm/row_cut.h"
#include "gemm/rows.h"
#include "gemm/submission.h"
#include "gemm/weights.h"

namespace npu::gemm {

struct EngineOptions {
    ProgramOptions programs = {};
    std::chrono::milliseconds deadline{2000};  // of one job
    Team team = work_alone;                    // converts activations and results
    // Whether jobs run beside the calling thread, which then converts rows of the job before and after. The blocking system
    // calls are made by a thread for each job. A simulated device works with the caller's own threads: no gain there.
    bool overlap = false;
    std::size_t cached_submissions = 128;
    std::size_t largest_output = std::size_t{64} << 20;  // bytes of partial sums of one job
};

// Seconds of the calling thread.
struct HostPhases {
    double programs = 0;     // found or made, aimed
    double activations = 0;  // quantised and tiled
    double jobs = 0;         // handed to the driver and waited for
    double results = 0;      // partial sums added, scaled and untiled

    [[nodiscard]] double total() const { return programs + activations + jobs + results; }
    HostPhases& operator+=(const HostPhases& other);
};

struct MultiplyReport {
    std::size_t submissions = 0;
    std::size_t tasks = 0;
    std::size_t space_switches = 0;  // submissions in another address space than the one before
    double predicted_seconds = 0;    // by the timing model, on the chip at its nominal clock
    HostPhases phases = {};

    MultiplyReport& operator+=(const MultiplyReport& other);
};

class Engine {
  public:
    // The device must outlive the engine.
    Engine(device::Device& device, const EngineOptions& options);
    ~Engine();

    [[nodiscard]] const rockchip::ChipProfile& chip() const;
    // Slices of a matrix: one, or one per core where each has an address space.
    [[nodiscard]] std::uint32_t parts() const { return slices_on(device_); }

    // Multiplies x by every matrix. Errors: invalid_argument when the matrices differ in K, pipeline or rotation; what
    // planning, the checker or the device say. The outputs are then undefined. Thread-safe; calls are serialised.
    Result<MultiplyReport> multiply(std::span<const Product> products, RowsView x);
    Result<MultiplyReport> multiply(const ResidentWeights& weights, RowsView x, TargetView y);

    // For weights that are not resident: converts them into the engine's own device memory, then hands them to `use`,
    // which may multiply with them (through the report-returning function it is given) until it returns.
    using Multiply = std::function<Result<MultiplyReport>(RowsView, TargetView)>;
    Result<void> with_transient(const WeightsShape& shape, const RowReader& read_row,
                                const std::function<Result<void>(const Multiply&)>& use);

  private:
    struct Batch;

    Result<MultiplyReport> multiply_locked(std::span<const Product> products, RowsView x);
    Result<MultiplyReport> multiply_in_space(std::span<const Product> products, RowsView x);
    Result<Batch> prepare(std::span<const Product> products, RowsView x, std::uint32_t first, std::uint32_t rows,
                          std::uint32_t slot, HostPhases& phases);
    Result<void> write_features(Batch& batch, const WeightsShape& shape, RowsView x);
    Result<void> read_outputs(const Batch& batch, std::span<const Product> products, HostPhases& phases);
    void start(Batch& batch);
    Result<void> finish(Batch& batch, MultiplyReport& report);
    Result<Submission*> submission_for(const SubmissionKey& key);

    device::Device& device_;
    EngineOptions options_;
    std::mutex mutex_;
    std::vector<std::vector<Scratch>> scratch_;               // by slot, by address space
    std::vector<std::unique_ptr<device::Buffer>> transient_;  // by address space
    std::uint32_t last_space_ = 0;
    RowCut cut_;
    std::list<std::unique_ptr<Submission>> submissions_;  // most recently used first
};

}  // namespace npu::gemm
