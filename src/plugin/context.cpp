#include "plugin/context.h"

#include "base/log.h"
#include "base/options.h"
#include "compile/constraints.h"
#include "compile/search.h"
#include "device/board.h"
#include "device/rknpu_device.h"
#include "device/rocket_device.h"
#include "plugin/ggml_host.h"
#include "plugin/host_team.h"
#include "plugin/native_multiplier.h"
#include "plugin/precision_policy.h"
#include "plugin/rknn_multiplier.h"
#include "sim/sim.h"
#include "uapi/syscalls.h"

namespace npu::plugin {

namespace {

std::unique_ptr<uapi::Syscalls> make_kernel(const Options& options, sim::Driver driver) {
    sim::SimOptions simulation;
    simulation.driver = driver;
    simulation.memory_bytes = static_cast<std::size_t>(options.memory_mib) << 20;
    simulation.team = work_in_team;
    simulation.submission_seconds = sim::submission_model(simulation);
    return sim::make_simulated_kernel(simulation);
}

struct Node {
    sim::Driver driver;
    std::string path;
};

// The NPU of this board that the options ask for: a certain node, or any. Empty: none, or a simulated one is asked for.
std::optional<Node> find_node(const std::string& device) {
    if (device == "simulated" || device == "simulated-rocket") {
        return std::nullopt;
    }
    if (device != "auto") {
        return Node{device.starts_with("/dev/accel/") ? sim::Driver::rocket : sim::Driver::rknpu, device};
    }
    if (const auto path = device::find_rknpu_node(uapi::libc_syscalls())) {
        return Node{sim::Driver::rknpu, *path};
    }
    if (const auto path = device::find_rocket_node(uapi::libc_syscalls())) {
        return Node{sim::Driver::rocket, *path};
    }
    return std::nullopt;
}

// What the device is told that it is: of this board (nullptr: it asks), or simulated, less what the user has taken away.
Result<const rockchip::ChipProfile*> chip_for(bool simulated, const compile::PlanOptions& without) {
    const rockchip::ChipProfile* chip = simulated ? &rockchip::rk3588() : nullptr;
    if (without.limit_k && without.avoid_k_hazard) {
        return chip;
    }
    if (chip == nullptr) {
        NPU_ASSIGN(chip, device::board_chip());
    }
    static const rockchip::ChipProfile changed = compile::with_limits_of_k(*chip, without);  // options never change
    return &changed;
}

Result<std::unique_ptr<device::Device>> open_node(uapi::Syscalls& calls, const Node& node, bool simulated,
                                                  std::size_t memory_limit, const compile::PlanOptions& without) {
    NPU_ASSIGN(const rockchip::ChipProfile* chip, chip_for(simulated, without));
    if (node.driver == sim::Driver::rocket) {
        return device::open_rocket(calls, node.path,
                                   {.simulated = simulated, .memory_limit = memory_limit, .chip = chip});
    }
    return device::open_rknpu(calls, node.path, {.simulated = simulated, .memory_limit = memory_limit, .chip = chip});
}

Result<std::unique_ptr<Multiplier>> open_native_multiplier(const Options& chosen, Statistics& statistics) {
    std::unique_ptr<uapi::Syscalls> simulated_kernel;
    std::unique_ptr<device::Device> device;
    gemm::EngineOptions engine;
    compile::PlanOptions without;
    NPU_TRY(compile::take_away(chosen.without, without));  // a wrong name is an error now, not at the first matmul
    engine.programs.without = chosen.without;
    NPU_ASSIGN(engine.programs.reduce, compile::reduce_named(chosen.reduce));
    if (chosen.reduce == "auto" && chosen.overlap != "0") {
        engine.programs.reduce =
            compile::Reduce::host;  // it reads while the next job runs; a simulated board does as one would
    }
    if (const auto node = find_node(chosen.device)) {
        NPU_ASSIGN(device, open_node(uapi::libc_syscalls(), *node, false, 0, without));
    } else {
        if (chosen.device == "auto" && device::board_chip()) {
            log(LogLevel::warning,
                "this board carries an RK3588, but no node of the drivers 'rknpu' under /dev/dri and 'rocket' under "
                "/dev/accel could be opened (not there, or no permission: groups video and render); the NPU is "
                "simulated");
        }
        const sim::Driver driver = chosen.device == "simulated-rocket" ? sim::Driver::rocket : sim::Driver::rknpu;
        simulated_kernel = make_kernel(chosen, driver);
        NPU_ASSIGN(device, open_node(*simulated_kernel, {driver, sim::usual_path(driver)}, true,
                                     static_cast<std::size_t>(chosen.memory_mib) << 20, without));
    }
    engine.programs.cores = static_cast<std::uint32_t>(chosen.cores);
    engine.deadline = std::chrono::milliseconds(chosen.timeout_ms);
    engine.team = work_in_team;
    engine.overlap = chosen.overlap == "auto" ? !device->info().simulated : chosen.overlap == "1";
    engine.programs.check_programs = chosen.check_programs;
    std::unique_ptr<gemm::PackCache> cache;
    if (!chosen.cache.empty()) {
        cache = std::make_unique<gemm::PackCache>(
            chosen.cache, [](const std::string& text) { GGML_LOG_WARN("ggml-npu: %s\n", text.c_str()); });
    }
    return make_native_multiplier(std::move(simulated_kernel), std::move(device), engine, std::move(cache), statistics);
}

}  // namespace

Result<std::unique_ptr<DeviceContext>> DeviceContext::open() {
    if (!options()) {
        return options().error();
    }
    if (!precision_policy()) {
        return precision_policy().error();
    }
    const Options& chosen = *options();
    auto context = std::unique_ptr<DeviceContext>(new DeviceContext(chosen.profile));
    NPU_ASSIGN(context->multiplier_, chosen.engine == "rknn" ? open_rknn_multiplier(chosen, context->statistics_)
                                                             : open_native_multiplier(chosen, context->statistics_));
    return context;
}

DeviceContext::~DeviceContext() = default;

void DeviceContext::backend_opened() {
    const std::lock_guard lock(open_mutex_);
    ++open_backends_;
}

void DeviceContext::backend_closed() {
    const std::lock_guard lock(open_mutex_);
    if (--open_backends_ > 0) {
        return;
    }
    if (const std::string table = statistics_.profile().table(); statistics_.profile().on() && !table.empty()) {
        GGML_LOG_INFO("ggml-npu: where the host's time went (GGML_NPU_PROFILE)\n%s", table.c_str());
    }
    if (options()->stats_path.empty()) {
        return;
    }
    if (const auto written = write_file(options()->stats_path, statistics_.to_json(description())); !written) {
        GGML_LOG_ERROR("ggml-npu: GGML_NPU_STATS: %s\n", written.error().message.c_str());
    }
}

}  // namespace npu::plugin
