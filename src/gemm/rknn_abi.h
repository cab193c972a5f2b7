// The binary interface of Rockchip's closed matmul runtime, librknnrt.so, as data. Its header is marked confidential, so
// none of it is here: these are sizes, offsets and numbers, enough to call the library by the names that it exports.
//
// Kinds of source, named at each fact:
//   [doc]   what the vendor's documents and headers of releases 1.6 to 2.3.2 state; offsets computed for 64-bit targets
//   [field] what open programs that use the library rely on, or what their users report
//
// The interface kept its shape over the releases that rknn_library.h lets in. Between 1.6 and 2.x only `MatmulInfo`
// grew, and its first 24 bytes are the same while the quantisation types are 0: two 32-bit layouts became pairs of 16-bit
// fields [doc]. The tensor descriptions and memory handles did not change [doc]. Release 1.5 had other fields under the
// same names [doc].
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::gemm::rknn {

static_assert(sizeof(void*) == 8, "contexts are 32 bits wide on 32-bit ARM [doc]; only 64-bit targets are described");

using ContextId = std::uint64_t;  // 0 is no context [field]

// What is multiplied and what comes out [doc]. The gaps are not assigned.
enum class MatmulType : std::int32_t {
    fp16_fp16_fp32 = 1,
    int8_int8_int32 = 2,
    int8_int8_int8 = 3,
    fp16_fp16_fp16 = 4,
    fp16_int8_fp32 = 5,
    fp16_int8_fp16 = 6,
    fp16_int4_fp32 = 7,
    fp16_int4_fp16 = 8,
    int8_int8_fp32 = 9,  // since 2.1; on RK3588 it is created and then aborts the process when it runs [field]
    int4_int4_int16 = 10,
    int8_int4_int32 = 11,
    fp16_int4_bf16 = 12,  // since 2.3.0
    int8_int4_fp16 = 15,  // since 2.3.2
};

// How a matrix lies in memory [doc]. Native is the array's own order, that of compile/layout.h for RK3588 [doc, and a
// register-level sweep agrees]; with normal A and C the library reorders at every run, on one thread [field].
enum class Layout : std::int16_t { normal = 0, native = 1 };

// Cores a context may run on [doc]. Masks of several cores are refused for matmul contexts [field].
inline constexpr std::int32_t first_core_mask = 1;

enum class Sync : std::int32_t { to_device = 1, from_device = 2 };  // [doc]

inline constexpr std::int32_t query_sdk_version = 5;  // [doc]

// Returned by every function that does not return a handle; 0 is success [doc].
enum class Status : std::int32_t {
    ok = 0,
    failed = -1,
    timed_out = -2,
    device_unavailable = -3,
    allocation_failed = -4,
    invalid_parameter = -5,
    invalid_model = -6,
    invalid_context = -7,
    invalid_input = -8,
    invalid_output = -9,
    device_mismatch = -10,
    precompiled_mismatch = -11,
    optimisation_mismatch = -12,
    platform_mismatch = -13,
};

// Memory that the device sees, made and freed by the library [doc]. It has to be destroyed before the context that made
// it: the other order crashes [field].
struct TensorMemory {
    void* address;
    std::uint64_t physical;
    std::int32_t descriptor;  // one file descriptor for each memory [field]
    std::int32_t offset;
    std::uint32_t size;
    std::uint32_t flags;
    void* private_data;
};
static_assert(sizeof(TensorMemory) == 40 && alignof(TensorMemory) == 8);
static_assert(offsetof(TensorMemory, physical) == 8 && offsetof(TensorMemory, descriptor) == 16);
static_assert(offsetof(TensorMemory, offset) == 20 && offsetof(TensorMemory, size) == 24);
static_assert(offsetof(TensorMemory, flags) == 28 && offsetof(TensorMemory, private_data) == 32);

// One matrix of a context, filled in by the library [doc]. A native B has four dimensions, of which the last two are
// the kernels and the channels of a block [doc].
struct TensorAttribute {
    char name[256];
    std::uint32_t dimension_count;
    std::uint32_t dimensions[16];
    std::uint32_t size;  // bytes
    std::int32_t type;
};
static_assert(sizeof(TensorAttribute) == 332 && alignof(TensorAttribute) == 4);
static_assert(offsetof(TensorAttribute, dimension_count) == 256 && offsetof(TensorAttribute, dimensions) == 260);
static_assert(offsetof(TensorAttribute, size) == 324 && offsetof(TensorAttribute, type) == 328);

struct MatmulAttributes {
    TensorAttribute a;
    TensorAttribute b;
    TensorAttribute c;
};
static_assert(sizeof(MatmulAttributes) == 996 && alignof(MatmulAttributes) == 4);
static_assert(offsetof(MatmulAttributes, b) == 332 && offsetof(MatmulAttributes, c) == 664);

// C[M][N] = A[M][K] * B[K][N]. Quantisation types other than 0 (one scale per tensor) give zeros or refusals on RK3588
// [field], and their numbers changed between 2.0 and 2.1 [doc].
struct MatmulInfo {  // 2.x [doc]
    std::int32_t m;
    std::int32_t k;
    std::int32_t n;
    std::int32_t type;
    std::int16_t b_layout;
    std::int16_t b_quantisation;
    std::int16_t ac_layout;
    std::int16_t ac_quantisation;
    std::int32_t domain;      // IOMMU domain, 0 to 15
    std::int16_t group_size;  // since 2.1; reserved before
    std::uint8_t reserved[34];
};
static_assert(sizeof(MatmulInfo) == 64 && alignof(MatmulInfo) == 4);
static_assert(offsetof(MatmulInfo, type) == 12 && offsetof(MatmulInfo, b_layout) == 16);
static_assert(offsetof(MatmulInfo, ac_layout) == 20 && offsetof(MatmulInfo, domain) == 24);
static_assert(offsetof(MatmulInfo, group_size) == 28 && offsetof(MatmulInfo, reserved) == 30);

struct MatmulInfo16 {  // 1.6 [doc]
    std::int32_t m;
    std::int32_t k;
    std::int32_t n;
    std::int32_t type;
    std::int32_t b_layout;
    std::int32_t ac_layout;
};
static_assert(sizeof(MatmulInfo16) == 24 && offsetof(MatmulInfo16, type) == offsetof(MatmulInfo, type));
static_assert(offsetof(MatmulInfo16, b_layout) == offsetof(MatmulInfo, b_layout));
static_assert(offsetof(MatmulInfo16, ac_layout) == offsetof(MatmulInfo, ac_layout));

struct SdkVersion {  // [doc]
    char library[256];
    char driver[256];
};
static_assert(sizeof(SdkVersion) == 512);

// The functions, by exported name [doc]. `info` is the one of the library's release.
struct Functions {
    std::int32_t (*rknn_matmul_create)(ContextId* context, void* info, MatmulAttributes* attributes);
    std::int32_t (*rknn_matmul_set_io_mem)(ContextId context, TensorMemory* memory, TensorAttribute* attribute);
    std::int32_t (*rknn_matmul_run)(ContextId context);  // blocks
    std::int32_t (*rknn_matmul_destroy)(ContextId context);
    TensorMemory* (*rknn_create_mem)(ContextId context, std::uint32_t bytes);  // nullptr: failed
    std::int32_t (*rknn_destroy_mem)(ContextId context, TensorMemory* memory);
    std::int32_t (*rknn_mem_sync)(ContextId context, TensorMemory* memory, std::int32_t direction);  // since 1.6
    std::int32_t (*rknn_query)(ContextId context, std::int32_t command, void* answer, std::uint32_t bytes);

    std::int32_t (*rknn_matmul_set_core_mask)(ContextId context, std::int32_t mask);  // optional: nullptr

    bool has_create_mem2 = false;           // rknn_create_mem2: since 2.0
    bool has_create_dynamic_shape = false;  // rknn_matmul_create_dynamic_shape: since 2.1
};

}  // namespace npu::gemm::rknn
