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

SubmissionModel submission_model(const SimOptions& options) {
    using rockchip::KernelSetup;
    const KernelSetup setup = options.driver == Driver::rknpu ? KernelSetup::rknpu
                              : options.rocket.major == 0     ? KernelSetup::rocket
                                                              : KernelSetup::rocket_patched;
    return [chip = options.chip, conditions = rockchip::conditions(*options.chip, setup)](
               std::span<const rockchip::CoreWork> cores, std::uint32_t tasks_per_kick) {
        rockchip::Conditions these = conditions;
        these.tasks_per_kick = tasks_per_kick;
        return rockchip::submission_seconds(cores, *chip, these);
    };
}

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
