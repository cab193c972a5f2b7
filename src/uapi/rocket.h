// The interface of the mainline `rocket` driver, as data. A job is a list of tasks; a task is the NPU address (IOVA) and
// the length of a command list. The driver starts each task of a job from the interrupt of the one before, on one core.
// Buffer objects live in an address space of their file, and a job names the objects that it reads and writes, from
// which the driver derives what has to wait for what.
//
// Two versions of the interface are in the field. 0.0 is what mainline kernels offer (6.18 and later). Patched kernels
// report versions from 1.1 to 1.5 and add flags to a job, chained tasks and cache synchronisation of ranges.
// Source of 0.0: the kernel's published user interface. Source of the rest: published notes of those who run the patches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::uapi::rocket {

inline constexpr const char* driver_name = "rocket";  // what DRM_IOCTL_VERSION answers

struct CreateBo {
    std::uint32_t size;         // bytes; the driver rounds up to pages
    std::uint32_t handle;       // out
    std::uint64_t dma_address;  // out: IOVA; 0 is a valid one
    std::uint64_t offset;       // out: for mmap of the device file
};

// One command list.
struct Task {
    std::uint32_t regcmd;        // IOVA of the first word
    std::uint32_t regcmd_count;  // 64-bit words, tail included
};

struct Job {
    std::uint64_t tasks;           // pointer to `task_count` structs of `task_struct_size` bytes
    std::uint64_t in_bo_handles;   // pointer to u32 handles of what the job reads
    std::uint64_t out_bo_handles;  // pointer to u32 handles of what the job writes
    std::uint32_t task_count;
    std::uint32_t task_struct_size;
    std::uint32_t in_bo_handle_count;
    std::uint32_t out_bo_handle_count;
};

// A job since 1.1. The notes call the two structs 48 and 56 bytes long, but the fields that they list make 40 and 48;
// a driver that follows the kernel's rule for growing structs accepts both, as long as what it does not know is zero.
struct JobWithFlags {
    Job job;
    std::uint32_t flags;     // job flags below
    std::uint32_t reserved;  // 0
};

struct Submit {
    std::uint64_t jobs;  // pointer to `job_count` structs of `job_struct_size` bytes
    std::uint32_t job_count;
    std::uint32_t job_struct_size;
    std::uint64_t reserved;  // 0
};

// Waits until the jobs that write the object are done, then makes their results visible to the CPU.
struct PrepBo {
    std::uint32_t handle;
    std::uint32_t reserved;   // 0
    std::int64_t timeout_ns;  // absolute, CLOCK_MONOTONIC; 0 only looks
};

// Makes what the CPU wrote visible to the NPU.
struct FiniBo {
    std::uint32_t handle;
    std::uint32_t reserved;  // 0
};

// The same for a part of an object, since 1.5. Only their numbers are published; the order of the fields is our guess.
struct PrepBoRange {
    std::uint32_t handle;
    std::uint32_t reserved;  // 0
    std::int64_t timeout_ns;
    std::uint64_t offset;  // bytes
    std::uint64_t size;    // bytes, not 0
};

struct FiniBoRange {
    std::uint32_t handle;
    std::uint32_t reserved;  // 0
    std::uint64_t offset;
    std::uint64_t size;
};

static_assert(sizeof(CreateBo) == 24 && offsetof(CreateBo, dma_address) == 8 && offsetof(CreateBo, offset) == 16);
static_assert(sizeof(Task) == 8);
static_assert(sizeof(Job) == 40 && offsetof(Job, task_count) == 24 && offsetof(Job, out_bo_handle_count) == 36);
static_assert(sizeof(JobWithFlags) == 48 && offsetof(JobWithFlags, flags) == 40);
static_assert(sizeof(Submit) == 24 && offsetof(Submit, job_struct_size) == 12 && offsetof(Submit, reserved) == 16);
static_assert(sizeof(PrepBo) == 16 && offsetof(PrepBo, timeout_ns) == 8);
static_assert(sizeof(FiniBo) == 8);
static_assert(sizeof(PrepBoRange) == 32 && offsetof(PrepBoRange, offset) == 16);
static_assert(sizeof(FiniBoRange) == 24 && offsetof(FiniBoRange, offset) == 8);

// Requests: direction (bit 30 to the kernel, bit 31 back), type 'd', number 0x40 + n, size of the struct.
inline constexpr std::uint32_t to_kernel = 0x40000000;
inline constexpr std::uint32_t both_ways = 0xc0000000;
constexpr std::uint32_t request(std::uint32_t direction, std::uint32_t number, std::size_t size) {
    return direction | (static_cast<std::uint32_t>(size) << 16) | ('d' << 8) | (0x40U + number);
}

inline constexpr std::uint32_t ioctl_create_bo = request(both_ways, 0, sizeof(CreateBo));
inline constexpr std::uint32_t ioctl_submit = request(to_kernel, 1, sizeof(Submit));
inline constexpr std::uint32_t ioctl_prep_bo = request(to_kernel, 2, sizeof(PrepBo));
inline constexpr std::uint32_t ioctl_fini_bo = request(to_kernel, 3, sizeof(FiniBo));
inline constexpr std::uint32_t ioctl_prep_bo_range = request(to_kernel, 4, sizeof(PrepBoRange));
inline constexpr std::uint32_t ioctl_fini_bo_range = request(to_kernel, 5, sizeof(FiniBoRange));
static_assert(ioctl_create_bo == 0xc0186440);
static_assert(ioctl_submit == 0x40186441);
static_assert(ioctl_prep_bo == 0x40106442);
static_assert(ioctl_fini_bo == 0x40086443);
static_assert(ioctl_prep_bo_range == 0x40206444);
static_assert(ioctl_fini_bo_range == 0x40186445);

// Job flags.
inline constexpr std::uint32_t job_batched = 1;      // task 0 heads a chain of task_count tasks; since 1.1
inline constexpr std::uint32_t job_no_dpu_done = 2;  // the DPU's interrupt does not complete a kick; since 1.3
inline constexpr std::uint32_t job_ppu_done = 4;     // the PPU's interrupt completes a kick; since 1.3

inline constexpr std::uint32_t max_batched_tasks = 4095;  // 12-bit task counter
inline constexpr std::uint32_t job_timeout_ms = 500;      // then the driver resets the core and goes on

}  // namespace npu::uapi::rocket
