// What is AXCL? The vendor's library for its PCIe cards, libaxcl_rt.so: it forwards every call to a service on the
// card, which holds the memory and parses the models. This is its binary interface as facts, so that it is found at run
// time and never linked: numbers, layouts (checked below) and, in axcl_functions.def, the functions.
//
// Sources: the public headers of V3.10.2 and runs of that library without a card (../shared/reference/axera.md, 1). All
// enumerations are ints. Handles are pointers that only the library may follow; device addresses are card addresses in
// a void* and may not be followed either, but may be counted from: base + offset is an address inside the allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::axera::axcl {

using Error = std::int32_t;  // 0: success
using Context = void*;
using Stream = void*;
using Event = void*;
using IoInfo = void*;
using Io = void*;
using EngineSet = std::uint32_t;

inline constexpr unsigned most_devices = 256;
inline constexpr unsigned most_dims = 32;
inline constexpr std::int32_t no_timeout = -1;

struct DeviceList {
    std::uint32_t count = 0;
    std::int32_t devices[most_devices] = {};  // PCI bus or slot numbers: never assume 0
};
static_assert(sizeof(DeviceList) == 1028);

struct Dims {
    std::int32_t count = 0;
    std::int32_t dims[most_dims] = {};
};
static_assert(sizeof(Dims) == 132);

// Checked for V3.10.2 only; a caller passes 512 zeroed bytes so that a longer one of another version does no harm.
struct DeviceProperties {
    char software[64] = {};
    std::uint64_t uid = 0;
    std::uint32_t pci_domain = 0, pci_bus = 0, pci_device = 0;
    std::int32_t temperature = 0;                     // of the junction; the unit is not documented
    std::uint32_t total_memory = 0, free_memory = 0;  // KiB
    std::uint32_t total_cmm = 0, free_cmm = 0;        // KiB; contiguous memory, where models and buffers live
    std::uint32_t cpu_load = 0, npu_load = 0;         // hundredths of a percent
    std::uint32_t reserved[32] = {};
};
static_assert(sizeof(DeviceProperties) == 240 && offsetof(DeviceProperties, uid) == 64 &&
              offsetof(DeviceProperties, temperature) == 84 && offsetof(DeviceProperties, total_cmm) == 96 &&
              offsetof(DeviceProperties, reserved) == 112);

enum class MallocPolicy : int { huge_first = 0, huge_only = 1, normal_only = 2, size_align = 3 };
enum class CopyKind : int {
    host_to_host = 0,
    host_to_device = 1,
    device_to_host = 2,
    device_to_device = 3,
    host_physical_to_device = 4,
    device_to_host_physical = 5,
};
enum class VirtualNpu : int { disable = 0, enable = 1, big_little = 2, little_big = 3 };
enum class ModelKind : int { one_core = 0, two_cores = 1, three_cores = 2 };
enum class DataType : int {
    none = 0,
    int4,
    uint4,
    int8,
    uint8,
    int16,
    uint16,
    int32,
    uint32,
    int64,
    uint64,
    fp4,
    fp8,
    fp16,
    bf16,
    fp32,
    fp64,
};
enum class DataLayout : int { none = 0, nhwc = 1, nchw = 2 };

// Codes are bare small numbers or composed: bit 31, the module (0 runtime) in 30:24, 0x30 in 23:16, the part of the
// module in 15:8 and what happened in 7:0.
enum class Part : std::uint32_t {
    device = 1,
    context,
    stream,
    task,
    memory,
    config,
    engine,
    syslog,
    sysctrl,
    latency,
    p2p,
    userwork,
};
namespace what {
inline constexpr std::uint32_t fail = 1, null_pointer = 2, illegal = 3, unsupported = 4, timeout = 5, busy = 6,
                               no_memory = 7, encode = 8, decode = 9, unexpected_response = 0x0A, open = 0x0B,
                               execute = 0x0C;
inline constexpr std::uint32_t device_query = 0x80, device_not_connected = 0x81, device_probe = 0x82,
                               device_not_active = 0x83, device_invalid_id = 0x84, device_none_active = 0x85,
                               device_reboot = 0x87;
inline constexpr std::uint32_t create = 0x81, destroy = 0x82, context_bind_thread = 0x83, context_none_bound = 0x84;
inline constexpr std::uint32_t stream_timeout = 0x83;
inline constexpr std::uint32_t memory_not_of_device = 0x81;
inline constexpr std::uint32_t engine_invalid_index = 0x81;
}  // namespace what

constexpr Error code(Part part, std::uint32_t id) {
    return static_cast<Error>(0x80300000U | static_cast<std::uint32_t>(part) << 8 | id);
}
static_assert(static_cast<std::uint32_t>(code(Part::context, what::context_none_bound)) == 0x80300284U);

}  // namespace npu::axera::axcl
