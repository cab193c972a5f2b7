// Client of the vendor's `rknpu` DRM driver. Opens a node, keeps one buffer of task descriptors, and submits
// blocking jobs in which every core follows its own chain.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "device/device.h"
#include "uapi/syscalls.h"

namespace npu::device {

struct RknpuOptions {
    bool simulated = false;                       // only changes how the device describes itself
    std::size_t memory_limit = 0;                 // bytes; 0 = what the host and the address window give
    const rockchip::ChipProfile* chip = nullptr;  // nullptr: what the board's device tree names
};

// The first node whose driver answers `rknpu`. Card nodes come before render nodes: on some boards a render node
// accepts submissions and runs nothing (published by one project; the kernel source does not explain it).
std::optional<std::string> find_rknpu_node(uapi::Syscalls& calls);

// Opens `node`. `calls` must outlive the device. Errors: not_found (no such node, no permission: the message says
// which), unsupported (another driver, a driver version whose interface we do not know, or an
// unknown chip).
Result<std::unique_ptr<Device>> open_rknpu(uapi::Syscalls& calls, const std::string& node, const RknpuOptions& options);

}  // namespace npu::device
