// Which address domain the NPU lives in. The NPU has one IOMMU, and an IOMMU translates by one page table at a time: of
// the 16 domains one is live, for all cores and all processes. Whoever needs another one (a job, the creation, the
// synchronisation or the end of an object there) waits until nobody uses the live one any more and switches. A job uses
// its domain from SUBMIT to its end, so a job that never ends keeps everybody else out: after 6 seconds the driver gives
// up with EINVAL. Source: the driver's published kernel source; public reports ("switch iommu domain time out").
#pragma once

#include <cstdint>

namespace npu::sim {

// Guarded by the kernel's lock. Waiting is the caller's part.
class RknpuDomain {
  public:
    [[nodiscard]] std::uint32_t live() const { return live_; }
    // Another domain than the live one can be entered only when this is 0.
    [[nodiscard]] unsigned users() const { return users_; }

    // True: `domain` is live and stays so until leave().
    bool enter(std::uint32_t domain) {
        if (domain != live_ && users_ != 0) {
            return false;
        }
        live_ = domain;
        ++users_;
        return true;
    }
    void leave() { --users_; }

  private:
    std::uint32_t live_ = 0;
    unsigned users_ = 0;
};

}  // namespace npu::sim
