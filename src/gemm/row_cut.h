// How many rows of a batch one job takes. All of them, unless
//
//   - the partial sums would take too much memory, or the job too many tasks
//   - the driver might give the job up: on boards whose clock is a fraction of the nominal one, jobs take several times as long
//     as predicted, so a job is kept to an eighth of what it may take
//   - the host can convert rows while the device works. Cut into p jobs of r rows, with h(r) the host's time for the
//     activations of a job, g(r) that for its results, and d(r) the device's, a batch takes
//         h(r) + (p - 1) * max(d(r), h(r) + g(r)) + d(r) + g(r)
//     where a smaller job keeps the array busy less well: the p with the smallest sum is taken.
//
// Found by planning, kept per shape and batch. Results do not depend on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "gemm/submission.h"

namespace npu::gemm {

struct RowLimits {
    bool overlap = false;            // the host works while the device does
    std::size_t largest_output = 0;  // bytes of partial sums of one job
    double longest_seconds = 0;      // predicted, of one job
};

class RowCut {
  public:
    // Rows of each job, at most `rows`; the last job takes what is left. Errors: what planning says of a single row, or
    // unsupported when even that takes more tasks than a job holds.
    Result<std::uint32_t> rows_per_job(const device::Device& device, std::span<const WeightsShape> shapes,
                                       std::uint32_t rows, const ProgramOptions& programs, const RowLimits& limits);

  private:
    struct Entry {
        std::vector<WeightsShape> shapes;
        std::uint32_t rows = 0;
        std::uint32_t per_job = 0;
    };
    std::vector<Entry> known_;
};

// Seconds that the host takes to convert `rows` activations and results, by the rate at which it copies memory.
struct HostSeconds {
    double activations = 0;
    double results = 0;
};
HostSeconds host_seconds(std::span<const WeightsShape> shapes, std::uint32_t rows, const rockchip::ChipProfile& chip);

}  // namespace npu::gemm
