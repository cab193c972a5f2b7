// From how many rows on the device is faster than the host's CPU. Both have to read all weights, at rates that differ little, so
// for one row what counts is the price of a job; and the more rows, the more the array's multipliers count. By the timing
// model for the device and two published rates for the host (chip.h), on the chip at its nominal clock:
//
//   host     the longer of reading the weights and multiplying
//   device   the job, and converting activations and results before and after
//
// The same on a simulated device: what runs where is what a board would do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "gemm/submission.h"

namespace npu::gemm {

// Predicted seconds of one batch.
struct Race {
    double host = 0;
    double device = 0;
};

// Errors: what planning says.
Result<Race> race(const device::Device& device, std::span<const WeightsShape> shapes, std::uint32_t rows,
                  const ProgramOptions& programs);

// The fewest rows for which the device is predicted to be faster, by a search up to `most_rows`; one more when it never is.
inline constexpr std::uint32_t most_host_rows = 256;

class Crossover {
  public:
    // Kept for each set of shapes. 1 when planning fails: the device then says why.
    std::uint32_t rows(const device::Device& device, std::span<const WeightsShape> shapes,
                       const ProgramOptions& programs);

  private:
    struct Entry {
        std::vector<WeightsShape> shapes;
        std::uint32_t rows = 0;
    };
    std::vector<Entry> known_;
};

}  // namespace npu::gemm
