#include "sim/preload/settings.h"

#include "rockchip/chip.h"
#include "rockchip/timing.h"

namespace npu::sim {

Driver driver_of(const SimulationOptions& options) {
    return options.kernel == "rocket" ? Driver::rocket : Driver::rknpu;
}

Result<SimOptions> simulation_settings(const SimulationOptions& options) {
    NPU_ASSIGN(const rockchip::ChipProfile* chip, rockchip::find_chip(options.chip));
    NPU_ASSIGN(Faults faults, Faults::parse(options.faults));
    SimOptions settings;
    settings.driver = driver_of(options);
    if (options.rocket_interface == "1.5") {
        settings.rocket = {.major = 1, .minor = 5};
    }
    settings.mode = options.mode == "lenient" ? Mode::lenient : Mode::strict;
    settings.real_time = options.real_time;
    settings.faults = std::move(faults);
    settings.chip = chip;
    settings.memory_bytes = static_cast<std::uint64_t>(options.memory_mib) << 20;
    settings.strict_sync = options.coherency;
    settings.poison_seed = static_cast<std::uint64_t>(options.seed);
    settings.log_findings = options.log;
    settings.submission_seconds = submission_model(settings);
    return settings;
}

}  // namespace npu::sim
