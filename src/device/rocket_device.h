// Client of the mainline `rocket` driver (/dev/accel). One file per core: each has an address space and a queue of its own
// (rocket_space.h), so chain i of a job is a job of file i. The driver decides which core takes which file's job; "core i"
// here is only a name for file i, and up to as many jobs as there are files run at once.
//
// Interface 0.0 starts each task by hand; from 1.1 on a chain is one BATCHED job that the hardware follows. The driver
// knows no failures: a job that hangs is given up after half a second, the core is reset, and the wait ends as after
// success. That is what canaries are for (device.h). A deadline that passes is an error, too, and run() then waits until
// the driver is rid of the jobs, so that nobody writes into buffers that the caller uses again; for at most two seconds
// more, and if that is not enough, the next run() begins by waiting on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "device/device.h"
#include "uapi/syscalls.h"

namespace npu::device {

struct RocketOptions {
    bool simulated = false;                       // only changes how the device describes itself
    std::size_t memory_limit = 0;                 // bytes; 0 = what the host and the address spaces give
    const rockchip::ChipProfile* chip = nullptr;  // nullptr: what the board's device tree names
};

// The first of /dev/accel/accel0 to accel15 whose driver answers `rocket`.
std::optional<std::string> find_rocket_node(uapi::Syscalls& calls);

// Opens `node`, once per core. `calls` must outlive the device. Errors: not_found (no such node, no permission: the
// message says which), unsupported (another driver, an interface that we do not know, or an unknown chip).
//
// Jobs whose time under way would exceed half a second must be cut by the caller: the driver gives them up.
Result<std::unique_ptr<Device>> open_rocket(uapi::Syscalls& calls, const std::string& node,
                                            const RocketOptions& options);

}  // namespace npu::device
