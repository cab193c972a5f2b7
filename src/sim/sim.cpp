#include "sim/sim.h"

#include "sim/kernel_rknpu.h"
#include "sim/kernel_rocket.h"

namespace npu::sim {

CoreOptions core_options(const SimOptions& options, unsigned index) {
    return {.index = index,
            .mode = options.mode,
            .poison_seed = options.poison_seed,
            .poison_before_each_kick = options.poison_before_each_kick,
            .most_operations = options.most_operations,
            .chip = options.chip,
            .kernels = &best_kernels(),
            .array = options.array};
}

const char* usual_path(Driver driver) { return driver == Driver::rknpu ? "/dev/dri/card1" : "/dev/accel/accel0"; }

std::unique_ptr<SimulatedKernel> make_simulated_kernel(SimOptions options) {
    if (options.path.empty()) {
        options.path = usual_path(options.driver);
    }
    if (options.driver == Driver::rocket) {
        return std::make_unique<RocketKernel>(std::move(options));
    }
    return std::make_unique<RknpuKernel>(std::move(options));
}

}  // namespace npu::sim
