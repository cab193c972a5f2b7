#include "gemm/crossover.h"

#include <algorithm>
#include <utility>

#include "gemm/row_cut.h"

namespace npu::gemm {

Result<Race> race(const device::Device& device, std::span<const WeightsShape> shapes, std::uint32_t rows,
                  const ProgramOptions& programs) {
    const rockchip::ChipProfile& chip = *device.info().chip;
    NPU_ASSIGN(const SubmissionPlan planned, plan_submission(device, shapes, rows, programs));
    double weight_bytes = 0;
    double macs = 0;
    for (const WeightsShape& shape : shapes) {
        weight_bytes += static_cast<double>(resident_bytes(shape, chip, 1));
        macs += static_cast<double>(shape.n) * shape.k * rows;
    }
    const HostSeconds conversion = host_seconds(shapes, rows, chip);
    return Race{
        std::max(weight_bytes / chip.timing.host_read_bytes_per_second, macs / chip.timing.host_macs_per_second),
        planned.seconds + conversion.activations + conversion.results};
}

std::uint32_t Crossover::rows(const device::Device& device, std::span<const WeightsShape> shapes,
                              const ProgramOptions& programs) {
    for (const Entry& entry : known_) {
        if (std::ranges::equal(entry.shapes, shapes)) {
            return entry.rows;
        }
    }
    bool planned = true;
    const auto device_wins = [&](std::uint32_t rows) {
        const auto seconds = race(device, shapes, rows, programs);
        planned = planned && seconds;
        return !planned || seconds->device < seconds->host;
    };
    std::uint32_t lost = 0;  // the device is not faster for so many
    std::uint32_t rows = 1;
    while (rows <= most_host_rows && !device_wins(rows)) {
        lost = std::exchange(rows, 2 * rows);
    }
    while (rows <= most_host_rows && rows - lost > 1) {
        const std::uint32_t middle = lost + (rows - lost) / 2;
        (device_wins(middle) ? rows : lost) = middle;
    }
    rows = planned ? std::min(rows, most_host_rows + 1) : 1;
    known_.push_back({{shapes.begin(), shapes.end()}, rows});
    return rows;
}

}  // namespace npu::gemm
