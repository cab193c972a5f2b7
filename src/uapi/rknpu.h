// The interface of the vendor's `rknpu` DRM driver, version 0.9.8, as data. Source of every number and
// layout: the driver's published kernel source; sizes are asserted. A job is a list of task descriptors in a
// buffer object; each descriptor points at a command list in another buffer object. The driver starts the
// first task of each core and the hardware follows the chain.
//
// `obj_addr` is a raw kernel pointer that the driver uses unchecked: only values that MEM_CREATE returned may
// ever be passed back (a wrong one panics a board).
//
// DRM copies as much of a struct as the size in the request says, so the older, shorter MEM_CREATE works too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::uapi::rknpu {

inline constexpr const char* driver_name = "rknpu";  // what DRM_IOCTL_VERSION answers

// Requests. Direction read+write, type 'd', number 0x40 + n, size of the struct.
constexpr std::uint32_t request(std::uint32_t number, std::size_t size) {
    return 0xc0000000U | (static_cast<std::uint32_t>(size) << 16) | ('d' << 8) | (0x40U + number);
}

struct Action {
    std::uint32_t flags;  // one of the action numbers below
    std::uint32_t value;  // in or out
};

struct MemCreate {
    std::uint32_t handle;          // out; non-zero in: look up an existing object (after an import)
    std::uint32_t flags;           // memory flags below
    std::uint64_t size;            // bytes; the driver rounds up to pages
    std::uint64_t obj_addr;        // out: kernel pointer, opaque
    std::uint64_t dma_addr;        // out: address as the NPU sees it (IOVA)
    std::uint64_t sram_size;       // bytes wanted in SRAM, 0: as many as possible; out: bytes that are there
    std::int32_t iommu_domain_id;  // 0 to 15, or live_domain
    std::uint32_t core_mask;
};
inline constexpr std::size_t old_mem_create_bytes = 40;  // ends before iommu_domain_id

struct MemMap {
    std::uint32_t handle;
    std::uint32_t reserved;
    std::uint64_t offset;  // out: offset for mmap
};

struct MemDestroy {
    std::uint32_t handle;
    std::uint32_t reserved;
    std::uint64_t obj_addr;
};

struct MemSync {
    std::uint32_t flags;  // sync_to_device | sync_from_device
    std::uint32_t reserved;
    std::uint64_t obj_addr;
    std::uint64_t offset;
    std::uint64_t size;
};

struct SubcoreTask {
    std::uint32_t task_start;
    std::uint32_t task_number;
};

struct Submit {
    std::uint32_t flags;            // submit flags below
    std::uint32_t timeout;          // ms for a blocking submit; us where a later NONBLOCK submit looks at it
    std::uint32_t task_start;       // read on chips with one core only; see subcore_task
    std::uint32_t task_number;      // not 0; beyond that, read on chips with one core only
    std::uint32_t task_counter;     // out: task_number, or after a time-out what the core's counter says
    std::int32_t priority;          // not used
    std::uint64_t task_obj_addr;    // obj_addr of the buffer with the task descriptors
    std::uint32_t iommu_domain_id;  // 0 to 15, or live_domain
    std::uint32_t reserved;
    std::uint64_t task_base_addr;  // added to DMA addresses; 0
    std::int64_t hw_elapse_time;   // out, ns
    std::uint32_t core_mask;       // 0 automatic; 1, 2, 4 one core; 3, 7 several
    std::int32_t fence_fd;         // in with FENCE_IN, out with FENCE_OUT
    // With one or two cores, core i reads entry i; with three cores it reads entry i + 2.
    SubcoreTask subcore_task[5];
};

// One task descriptor, packed, read by the kernel through its own mapping of the buffer.
struct [[gnu::packed]] Task {
    std::uint32_t flags;
    std::uint32_t op_idx;
    std::uint32_t enable_mask;  // informational
    std::uint32_t int_mask;     // completion interrupts; whole pairs
    std::uint32_t int_clear;
    std::uint32_t int_status;     // out
    std::uint32_t regcfg_amount;  // words of the body, without the four-word tail
    std::uint32_t regcfg_offset;
    std::uint64_t regcmd_addr;  // IOVA of the first word
};

static_assert(sizeof(Action) == 8);
static_assert(sizeof(MemCreate) == 48);
static_assert(sizeof(MemMap) == 16);
static_assert(sizeof(MemDestroy) == 16);
static_assert(sizeof(MemSync) == 32);
static_assert(sizeof(Submit) == 104);
static_assert(sizeof(Task) == 40);
static_assert(offsetof(MemCreate, iommu_domain_id) == old_mem_create_bytes);
static_assert(offsetof(Submit, hw_elapse_time) == 48);
static_assert(offsetof(Submit, subcore_task) == 64);

inline constexpr std::uint32_t ioctl_action = request(0, sizeof(Action));
inline constexpr std::uint32_t ioctl_submit = request(1, sizeof(Submit));
inline constexpr std::uint32_t ioctl_mem_create = request(2, sizeof(MemCreate));
inline constexpr std::uint32_t ioctl_old_mem_create = request(2, old_mem_create_bytes);
inline constexpr std::uint32_t ioctl_mem_map = request(3, sizeof(MemMap));
inline constexpr std::uint32_t ioctl_mem_destroy = request(4, sizeof(MemDestroy));
inline constexpr std::uint32_t ioctl_mem_sync = request(5, sizeof(MemSync));
static_assert(ioctl_action == 0xc0086440);
static_assert(ioctl_submit == 0xc0686441);
static_assert(ioctl_mem_create == 0xc0306442);
static_assert(ioctl_old_mem_create == 0xc0286442);
static_assert(ioctl_mem_map == 0xc0106443);
static_assert(ioctl_mem_destroy == 0xc0106444);
static_assert(ioctl_mem_sync == 0xc0206445);

// Memory flags.
inline constexpr std::uint32_t mem_non_contiguous = 1U << 0;
inline constexpr std::uint32_t mem_cacheable = 1U << 1;
inline constexpr std::uint32_t mem_write_combine = 1U << 2;
inline constexpr std::uint32_t mem_kernel_mapping = 1U << 3;  // needed by task descriptors
inline constexpr std::uint32_t mem_iommu = 1U << 4;
inline constexpr std::uint32_t mem_zeroing = 1U << 5;  // without it memory holds what it held before
inline constexpr std::uint32_t mem_secure = 1U << 6;
inline constexpr std::uint32_t mem_dma32 = 1U << 7;
inline constexpr std::uint32_t mem_try_sram = 1U << 8;
inline constexpr std::uint32_t mem_try_nbuf = 1U << 9;
inline constexpr std::uint32_t mem_iova_limit_alignment = 1U << 10;  // addresses aligned to pages, not to the size
inline constexpr std::uint32_t mem_all_flags = (1U << 11) - 1;

// Address domains: 4 GiB of NPU addresses each; one of them is live at a time, for the whole NPU.
inline constexpr std::uint32_t domains = 16;
inline constexpr std::int32_t live_domain = -1;  // whichever is live now

// Cache synchronisation; only for cacheable objects.
inline constexpr std::uint32_t sync_to_device = 1;
inline constexpr std::uint32_t sync_from_device = 2;

// Submit flags.
inline constexpr std::uint32_t job_pc = 1;          // programs are command lists
inline constexpr std::uint32_t job_nonblock = 2;    // returns before the job runs
inline constexpr std::uint32_t job_pingpong = 4;    // register groups alternate
inline constexpr std::uint32_t job_fence_in = 8;    // waits for fence_fd first
inline constexpr std::uint32_t job_fence_out = 16;  // fence_fd becomes a sync file that signals when the job is done

// Actions. All other numbers are refused (EINVAL).
enum : std::uint32_t {
    action_hw_version = 0,
    action_driver_version = 1,  // major * 10000 + minor * 100 + patch
    action_get_frequency = 2,   // Hz
    action_set_frequency = 3,   // refused
    action_get_voltage = 4,     // uV
    action_set_voltage = 5,     // refused
    action_reset = 6,           // soft reset of all cores
    action_get_bandwidth_priority = 7,
    action_set_bandwidth_priority = 8,
    action_get_bandwidth_expect = 9,
    action_set_bandwidth_expect = 10,
    action_get_bandwidth_window = 11,
    action_set_bandwidth_window = 12,
    action_clear_traffic = 13,     // the four counters below
    action_get_data_written = 14,  // bytes
    action_get_data_read = 15,     // features
    action_get_weights_read = 16,
    action_get_total_traffic = 17,  // their sum
    action_iommu_enabled = 18,
    action_set_nice = 19,   // of the calling process
    action_power_on = 20,   // refused since 0.9.8
    action_power_off = 21,  // refused since 0.9.8
    action_get_sram_total = 22,
    action_get_sram_free = 23,
    action_get_domain = 24,
    action_set_domain = 25,
};

inline constexpr std::uint32_t max_tasks_per_submit = 4095;  // 12-bit task counter

}  // namespace npu::uapi::rknpu
