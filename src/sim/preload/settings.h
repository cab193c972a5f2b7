// From the options that a user gives (`npu sim`, or environment variables of the preload library) to the options of a
// simulated kernel.
#pragma once

#include "base/options.h"
#include "base/result.h"
#include "sim/sim.h"

namespace npu::sim {

Driver driver_of(const SimulationOptions& options);

// Errors: those of the chip's name and of the fault specification, with what would be accepted.
Result<SimOptions> simulation_settings(const SimulationOptions& options);

}  // namespace npu::sim
