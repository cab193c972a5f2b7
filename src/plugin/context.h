// One NPU and what the plugin keeps for it: who multiplies, and the counters. This is where devices meet kernels: discovery
// is handed the C library's system calls, and when no NPU answers there, those of the simulated kernel. The engine over
// librknnrt needs neither.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "plugin/multiplier.h"
#include "plugin/statistics.h"

namespace npu::plugin {

class DeviceContext {
  public:
    // Finds and opens the NPU that GGML_NPU_DEVICE asks for, or the library that GGML_NPU_ENGINE=rknn does. Cheap: nothing
    // that lasts is allocated on it.
    static Result<std::unique_ptr<DeviceContext>> open();
    ~DeviceContext();

    [[nodiscard]] Multiplier& multiplier() { return *multiplier_; }
    [[nodiscard]] Statistics& statistics() { return statistics_; }
    [[nodiscard]] const std::string& description() const { return multiplier_->description(); }

    // Backends (streams) on this device. When the last one closes, the statistics are written.
    void backend_opened();
    void backend_closed();

  private:
    explicit DeviceContext(bool profile) : statistics_(profile) {}

    Statistics statistics_;  // outlives the multiplier
    std::unique_ptr<Multiplier> multiplier_;
    std::mutex open_mutex_;
    int open_backends_ = 0;
};

}  // namespace npu::plugin
