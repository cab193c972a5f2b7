// The two requests of the kernel's DRM core that an NPU client needs whatever the driver: which driver is behind a
// node, and freeing a buffer handle. Defined here because the kernel's own header <drm/drm.h> is not installed
// everywhere. Source: the kernel's stable user interface, identical on all 64-bit architectures.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::uapi::drm {

// Lengths are capacities on the way in and real lengths on the way out; a null pointer asks for the length only.
// Names are not terminated by the kernel.
struct Version {
    std::int32_t major;
    std::int32_t minor;
    std::int32_t patch;
    std::uint32_t padding;
    std::uint64_t name_length;
    char* name;
    std::uint64_t date_length;
    char* date;
    std::uint64_t description_length;
    char* description;
};
static_assert(sizeof(Version) == 64);

struct GemClose {
    std::uint32_t handle;
    std::uint32_t padding;
};
static_assert(sizeof(GemClose) == 8);

inline constexpr std::uint32_t ioctl_version = 0xc0406400;    // read+write, 64 bytes, 'd', 0x00
inline constexpr std::uint32_t ioctl_gem_close = 0x40086409;  // write, 8 bytes, 'd', 0x09

}  // namespace npu::uapi::drm
