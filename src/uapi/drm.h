// The requests of the kernel's DRM core that an NPU client needs whatever the driver: which driver is behind a node,
// freeing a buffer handle, and sharing buffers as descriptors (PRIME, dma-buf). Defined here because the kernel's own header <drm/drm.h> is not installed
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

struct GetCap {
    std::uint64_t capability;  // cap_*
    std::uint64_t value;       // out
};
static_assert(sizeof(GetCap) == 16);

// A handle of this file as a descriptor that other files and processes can import, and back.
struct PrimeHandle {
    std::uint32_t handle;
    std::uint32_t flags;  // prime_*; read by HANDLE_TO_FD only
    std::int32_t fd;
};
static_assert(sizeof(PrimeHandle) == 12);

// Of the descriptor that HANDLE_TO_FD made: the CPU is about to access the memory, or has done so.
struct DmaBufSync {
    std::uint64_t flags;  // dma_buf_sync_*
};
static_assert(sizeof(DmaBufSync) == 8);

inline constexpr std::uint32_t prime_close_on_exec = 02000000;  // O_CLOEXEC
inline constexpr std::uint32_t prime_read_write = 02;           // O_RDWR: mappings may be written
inline constexpr std::uint64_t cap_prime = 5;
inline constexpr std::uint64_t cap_timestamp_monotonic = 6;
inline constexpr std::uint64_t cap_sync_objects = 0x13;
inline constexpr std::uint64_t cap_timeline_sync_objects = 0x14;
inline constexpr std::uint64_t prime_import = 1;
inline constexpr std::uint64_t prime_export = 2;
inline constexpr std::uint64_t dma_buf_sync_read = 1;
inline constexpr std::uint64_t dma_buf_sync_write = 2;
inline constexpr std::uint64_t dma_buf_sync_end = 4;

inline constexpr std::uint32_t ioctl_version = 0xc0406400;    // read+write, 64 bytes, 'd', 0x00
inline constexpr std::uint32_t ioctl_gem_close = 0x40086409;  // write, 8 bytes, 'd', 0x09
inline constexpr std::uint32_t ioctl_get_cap = 0xc010640c;
inline constexpr std::uint32_t ioctl_prime_handle_to_fd = 0xc00c642d;
inline constexpr std::uint32_t ioctl_prime_fd_to_handle = 0xc00c642e;
inline constexpr std::uint32_t ioctl_dma_buf_sync = 0x40086200;

}  // namespace npu::uapi::drm
