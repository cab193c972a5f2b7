// An open node of a DRM driver, and finding the node of a driver. Node numbers follow the order in which drivers start,
// which differs from board to board, so a node is known by the driver that answers behind it (DRM_IOCTL_VERSION) and never
// by its number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "uapi/syscalls.h"

namespace npu::device {

// Owns a file descriptor of `calls`, which must outlive it. Thread-safe.
class DrmNode {
  public:
    DrmNode(uapi::Syscalls& calls, int fd) : calls_(calls), fd_(fd) {}
    ~DrmNode() { calls_.close(fd_); }
    DrmNode(const DrmNode&) = delete;
    DrmNode& operator=(const DrmNode&) = delete;

    // 0 or the error number. Made again when a signal interrupts it: deadlines in arguments are absolute.
    int ioctl(unsigned long request, void* argument) const;
    [[nodiscard]] uapi::Syscalls& calls() const { return calls_; }
    [[nodiscard]] int fd() const { return fd_; }

    std::atomic<std::size_t> allocated{0};  // bytes of the live buffers that were made through it

  private:
    uapi::Syscalls& calls_;
    int fd_;
};

struct DrmDriver {
    std::string name;  // empty: no DRM node
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
};

DrmDriver drm_driver(const DrmNode& node);

// The first of 16 nodes whose driver has exactly this name. `pattern` holds one %d, which counts from `first`.
std::optional<std::string> find_drm_node(uapi::Syscalls& calls, const std::string& pattern, int first,
                                         const std::string& driver);

}  // namespace npu::device
