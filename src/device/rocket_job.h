// What the mainline driver is told of one chain, checked first. The driver says nothing of a job that it cannot run, and
// a program that the hardware cannot follow costs half a second and a reset, so everything that can be known before is
// looked at here: where the lists lie, their lengths, and, in the lists themselves, that each fires what its entry says
// and, for a chain that the hardware follows, leads to the next.
//
// A task that fires the DPU must fire DPU_RDMA too, with its readers configured: mainline leaves them armed and unfed, and
// the task never completes. Interface 0.0 takes only the DPU's interrupt for an end; since 1.3 a flag asks for the PPU's.
// Source: kernel interface of rocket; published notes on the patches and on jobs that timed out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "device/rocket_space.h"
#include "uapi/rocket.h"

namespace npu::device {

struct RocketJob {
    std::vector<uapi::rocket::Task> tasks;
    std::uint32_t flags = 0;  // job flags
};

// The job of a chain for `core`, whose buffers lie in `space`. Makes no system call. Errors: invalid_argument and
// unsupported, naming core and task. An empty chain gives an empty job.
Result<RocketJob> make_rocket_job(const TaskChain& chain, std::size_t core, const RocketSpace& space,
                                  RocketVersion version);

}  // namespace npu::device
