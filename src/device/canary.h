// Canaries: how a client notices a job that ended and wrote nothing. Each canary of a chain (device.h) gets a pattern that
// no other canary of this process ever had, so that neither an older result nor an older pattern passes for it; a result
// that happens to equal it is one chance in 2^64. Patterns are handed to the NPU before the job: a dirty cache line that is
// written back later would cover the result.
// Source: the mainline driver lets a job's fence signal after a reset as after success; published advice of several
// projects to compare words of the output.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace npu::device {

// Errors: invalid_argument for a canary without a buffer or that does not end within it.
Result<void> check_canary_places(std::span<const TaskChain> chains);

class Canaries {
  public:
    // Writes a pattern to each canary and hands it over. `ranges`: whether synchronising a part of a buffer is cheap, as
    // DeviceInfo::syncs_ranges; otherwise each buffer is synchronised once. Errors: those of Buffer::to_device.
    static Result<Canaries> set(std::span<const TaskChain> chains, bool ranges);

    // After the job, with the same chains. Errors: device_failure when a canary still stands, with `hint` as to why the
    // driver said nothing; those of Buffer::from_device.
    Result<void> check(std::span<const TaskChain> chains, const char* hint) const;

  private:
    explicit Canaries(bool ranges) : ranges_(ranges) {}

    bool ranges_;
    std::vector<std::uint64_t> patterns_;  // canary by canary, chain by chain
};

}  // namespace npu::device
