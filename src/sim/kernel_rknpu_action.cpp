// What the simulated rknpu driver answers about itself, and its switches. Voltage and clock are those of a board at full
// speed. The chip has no bandwidth registers: the driver answers success and leaves the value alone. The traffic
// counters count what jobs moved here; a driver whose chip table names no counters leaves those values alone as well.
#include <array>
#include <cerrno>

#include "sim/kernel_rknpu.h"

namespace npu::sim {

namespace {

namespace rknpu = uapi::rknpu;

constexpr std::uint32_t hardware_version = 0x46495245;  // what boards answer
constexpr std::uint32_t driver_version = 908;           // 0.9.8
constexpr std::uint32_t voltage_microvolt = 850'000;    // of the 1 GHz operating point

}  // namespace

int RknpuKernel::action(RknpuFile&, rknpu::Action& arguments) {
    Lock lock(mutex_);
    switch (arguments.flags) {
        case rknpu::action_hw_version: arguments.value = hardware_version; return 0;
        case rknpu::action_driver_version: arguments.value = driver_version; return 0;
        case rknpu::action_get_frequency:
            arguments.value = static_cast<std::uint32_t>(options_.chip->timing.clock_hz);
            return 0;
        case rknpu::action_get_voltage: arguments.value = voltage_microvolt; return 0;
        case rknpu::action_reset: return soft_reset(lock, "ACT_RESET");
        case rknpu::action_get_bandwidth_priority:
        case rknpu::action_set_bandwidth_priority:
        case rknpu::action_get_bandwidth_expect:
        case rknpu::action_set_bandwidth_expect:
        case rknpu::action_get_bandwidth_window:
        case rknpu::action_set_bandwidth_window: return 0;
        case rknpu::action_clear_traffic:
        case rknpu::action_get_data_written:
        case rknpu::action_get_data_read:
        case rknpu::action_get_weights_read:
        case rknpu::action_get_total_traffic: return traffic_action(arguments);
        case rknpu::action_iommu_enabled: arguments.value = 1; return 0;
        case rknpu::action_set_nice: return 0;  // of the client; the simulation leaves the host's priorities alone
        case rknpu::action_get_sram_total: arguments.value = memory_.sram_total(); return 0;
        case rknpu::action_get_sram_free: arguments.value = memory_.sram_free(); return 0;
        case rknpu::action_get_domain: arguments.value = domain_.live(); return 0;
        case rknpu::action_set_domain: {
            if (arguments.value >= rknpu::domains) {
                return -EINVAL;
            }
            const int error = enter_domain(lock, arguments.value);
            if (error == 0) {
                leave_domain();
            }
            return error;
        }
        default: return -EINVAL;  // setting clock and voltage and switching power among them
    }
}

int RknpuKernel::traffic_action(rknpu::Action& arguments) {
    const RknpuQueue::Traffic& traffic = queue_.traffic;
    switch (arguments.flags) {
        case rknpu::action_clear_traffic: queue_.traffic = {}; break;
        case rknpu::action_get_data_written: arguments.value = static_cast<std::uint32_t>(traffic.written); break;
        case rknpu::action_get_data_read: arguments.value = static_cast<std::uint32_t>(traffic.read); break;
        case rknpu::action_get_weights_read: arguments.value = static_cast<std::uint32_t>(traffic.weights); break;
        default: arguments.value = static_cast<std::uint32_t>(traffic.written + traffic.read + traffic.weights); break;
    }
    return 0;
}

}  // namespace npu::sim
