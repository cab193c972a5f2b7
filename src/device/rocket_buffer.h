// A buffer object of the mainline driver, in one address space. The driver has no request to free one: that is the DRM
// core's GEM_CLOSE. FINI_BO hands a buffer to the NPU, PREP_BO takes it back once the jobs that write it are done; both
// synchronise the whole buffer, and their cost grows with its size, until interface 1.5 adds ranges.
//
// Where only whole buffers can be taken back, that is done once per job: looking for a canary has fetched the results
// already when the caller comes for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "device/rocket_space.h"

namespace npu::device {

class RocketBuffer final : public Buffer {
  public:
    // At least `bytes` zero bytes, in whole pages. `free_bytes` is for the message of a refusal. Errors: out_of_memory,
    // whether it is memory, the address space or the process that has no room.
    static Result<std::unique_ptr<RocketBuffer>> create(std::shared_ptr<RocketSpace> space, std::size_t bytes,
                                                        std::size_t free_bytes);
    ~RocketBuffer() override;

    // Errors: invalid_argument for a range outside; timeout when a job that writes the buffer does not end.
    Result<void> to_device(std::size_t offset, std::size_t bytes) override;
    Result<void> from_device(std::size_t offset, std::size_t bytes) override;

    [[nodiscard]] std::uint32_t handle() const { return handle_; }

  private:
    RocketBuffer(std::shared_ptr<RocketSpace> space, std::size_t bytes);
    Result<void> check_range(std::size_t offset, std::size_t bytes) const;

    const std::shared_ptr<RocketSpace> space_;
    std::uint32_t handle_ = 0;
    std::atomic<std::uint64_t> fetched_{0};  // RocketSpace::settled() when the whole buffer was taken back last
};

}  // namespace npu::device
