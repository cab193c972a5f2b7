// One NPU and what the plugin keeps for it: the driver client, the multiplication engine, the counters. This is
// where devices meet kernels: discovery is handed the C library's system calls, and when no NPU answers there, those
// of the simulated kernel.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "device/device.h"
#include "gemm/engine.h"
#include "plugin/statistics.h"
#include "uapi/syscalls.h"

namespace npu::plugin {

class DeviceContext {
  public:
    // Finds and opens the NPU that GGML_NPU_DEVICE asks for. Cheap: nothing is allocated on it.
    static Result<std::unique_ptr<DeviceContext>> open();
    ~DeviceContext();

    [[nodiscard]] device::Device& device() { return *device_; }
    [[nodiscard]] gemm::Engine& engine() { return *engine_; }
    [[nodiscard]] Statistics& statistics() { return statistics_; }
    [[nodiscard]] const std::string& description() const { return device_->info().description; }

    // Backends (streams) on this device. When the last one closes, the statistics are written.
    void backend_opened();
    void backend_closed();

  private:
    DeviceContext() = default;

    std::unique_ptr<uapi::Syscalls> simulated_kernel_;  // outlives the device
    std::unique_ptr<device::Device> device_;
    std::unique_ptr<gemm::Engine> engine_;
    Statistics statistics_;
    std::mutex open_mutex_;
    int open_backends_ = 0;
};

}  // namespace npu::plugin
