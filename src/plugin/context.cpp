#include "plugin/context.h"

#include "base/log.h"
#include "base/options.h"
#include "device/board.h"
#include "device/rknpu_device.h"
#include "plugin/ggml_host.h"
#include "plugin/host_team.h"
#include "sim/kernel_rknpu.h"
#include "uapi/syscalls.h"

namespace npu::plugin {

namespace {

std::unique_ptr<uapi::Syscalls> make_kernel(const Options& options) {
    sim::SimOptions simulation;
    simulation.memory_bytes = static_cast<std::size_t>(options.memory_mib) << 20;
    simulation.team = work_in_team;
    simulation.submission_seconds = sim::submission_model(simulation);
    return sim::make_simulated_kernel(simulation);
}

}  // namespace

Result<std::unique_ptr<DeviceContext>> DeviceContext::open() {
    if (!options()) {
        return options().error();
    }
    const Options& chosen = *options();
    auto context = std::unique_ptr<DeviceContext>(new DeviceContext());
    const auto node = chosen.device == "auto"        ? device::find_rknpu_node(uapi::libc_syscalls())
                      : chosen.device == "simulated" ? std::nullopt
                                                     : std::optional(chosen.device);
    if (node) {
        NPU_ASSIGN(context->device_, device::open_rknpu(uapi::libc_syscalls(), *node, {}));
    } else {
        if (chosen.device == "auto" && device::board_chip()) {
            log(LogLevel::warning,
                "this board carries an RK3588, but no node of the driver 'rknpu' could be opened under /dev/dri (not "
                "there, or no permission: groups video and render); the NPU is simulated");
        }
        context->simulated_kernel_ = make_kernel(chosen);
        const auto simulated_node = device::find_rknpu_node(*context->simulated_kernel_);
        NPU_ASSIGN(context->device_,
                   device::open_rknpu(*context->simulated_kernel_, simulated_node.value_or("(none)"),
                                      {.simulated = true,
                                       .memory_limit = static_cast<std::size_t>(chosen.memory_mib) << 20,
                                       .chip = &rockchip::rk3588()}));
    }
    context->engine_ = std::make_unique<gemm::Engine>(
        *context->device_, gemm::EngineOptions{.cores = static_cast<std::uint32_t>(chosen.cores),
                                               .deadline = std::chrono::milliseconds(chosen.timeout_ms),
                                               .team = work_in_team,
                                               .check_programs = chosen.check_programs});
    return context;
}

DeviceContext::~DeviceContext() = default;

void DeviceContext::backend_opened() {
    const std::lock_guard lock(open_mutex_);
    ++open_backends_;
}

void DeviceContext::backend_closed() {
    const std::lock_guard lock(open_mutex_);
    if (--open_backends_ > 0 || options()->stats_path.empty()) {
        return;
    }
    if (const auto written = write_file(options()->stats_path, statistics_.to_json(description())); !written) {
        GGML_LOG_ERROR("ggml-npu: GGML_NPU_STATS: %s\n", written.error().message.c_str());
    }
}

}  // namespace npu::plugin
