#include "rockchip/timing.h"

#include <algorithm>

namespace npu::rockchip {

double task_seconds(const TaskWork& work, const ChipProfile& chip, std::uint32_t active_cores) {
    const TimingConstants& constants = chip.timing;
    const double mac_rate = chip.macs_per_cycle(work.precision) * constants.clock_hz * constants.mac_efficiency;
    const double byte_rate =
        std::min(constants.core_bytes_per_second, constants.shared_bytes_per_second / std::max(active_cores, 1U));
    const std::uint64_t bytes = work.feature_bytes + work.weight_bytes + work.output_bytes + 8 * work.command_words;
    return std::max(static_cast<double>(work.macs) / mac_rate, static_cast<double>(bytes) / byte_rate) +
           constants.task_seconds;
}

double submission_seconds(std::span<const double> chain_seconds, const ChipProfile& chip) {
    const double longest = chain_seconds.empty() ? 0.0 : *std::max_element(chain_seconds.begin(), chain_seconds.end());
    return longest + chip.timing.submit_seconds;
}

}  // namespace npu::rockchip
