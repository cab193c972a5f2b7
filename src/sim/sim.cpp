#include "sim/sim.h"

#include "sim/kernel_rknpu.h"

namespace npu::sim {

const char* usual_path(Driver driver) { return driver == Driver::rknpu ? "/dev/dri/card1" : "/dev/accel/accel0"; }

std::unique_ptr<SimulatedKernel> make_simulated_kernel(SimOptions options) {
    if (options.path.empty()) {
        options.path = usual_path(options.driver);
    }
    return std::make_unique<RknpuKernel>(std::move(options));
}

}  // namespace npu::sim
