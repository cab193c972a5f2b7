#include "gemm/kernels_dotprod.h"

// Clang 14 knows the intrinsic only where the whole file may use the instruction.
#if defined(__aarch64__) && (!defined(__clang__) || defined(__ARM_FEATURE_DOTPROD))

#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "gemm/cpu_multiplication.h"

#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

#include <arm_neon.h>

namespace npu::gemm {

namespace {

constexpr std::size_t block_bytes = 1024;

struct Int8 {
    static constexpr std::size_t kernel_bytes = 32;

    static void load(const std::byte* kernel, int8x16_t (&weights)[2]) {
        const auto* from = reinterpret_cast<const std::int8_t*>(kernel);
        weights[0] = vld1q_s8(from);
        weights[1] = vld1q_s8(from + 16);
    }
};

struct Int4 {
    static constexpr std::size_t kernel_bytes = 16;

    static void load(const std::byte* kernel, int8x16_t (&weights)[2]) {
        const int8x16_t both = vld1q_s8(reinterpret_cast<const std::int8_t*>(kernel));
        weights[0] = vshrq_n_s8(vshlq_n_s8(both, 4), 4);
        weights[1] = vshrq_n_s8(both, 4);
    }
};

// Four kernels by `rows` rows. What the next four will read is fetched on the way.
template <class Blocks, std::size_t rows>
void four_kernels(const std::byte* first, std::size_t blocks, const std::int8_t* x, std::size_t x_stride,
                  std::int32_t* sums) {
    constexpr std::size_t together = 4;
    constexpr std::size_t kernels = block_bytes / Blocks::kernel_bytes;
    int32x4_t accumulators[together][rows];
    for (auto& of_kernel : accumulators) {
        for (int32x4_t& accumulator : of_kernel) {
            accumulator = vdupq_n_s32(0);
        }
    }
    for (std::size_t block = 0; block < blocks; ++block, first += block_bytes, x += channels_per_block) {
        for (std::size_t line = 0; line < together * Blocks::kernel_bytes; line += 64) {
            __builtin_prefetch(first + together * Blocks::kernel_bytes + line);
        }
        for (std::size_t kernel = 0; kernel < together; ++kernel) {
            int8x16_t weights[2];
            Blocks::load(first + kernel * Blocks::kernel_bytes, weights);
            for (std::size_t row = 0; row < rows; ++row) {
                const std::int8_t* values = x + row * x_stride;
                int32x4_t sum = accumulators[kernel][row];
                sum = vdotq_s32(sum, weights[0], vld1q_s8(values));
                accumulators[kernel][row] = vdotq_s32(sum, weights[1], vld1q_s8(values + 16));
            }
        }
    }
    for (std::size_t kernel = 0; kernel < together; ++kernel) {
        for (std::size_t row = 0; row < rows; ++row) {
            sums[row * kernels + kernel] = vaddvq_s32(accumulators[kernel][row]);
        }
    }
}

template <class Blocks>
void group_sums(const std::byte* group, std::size_t blocks, const std::int8_t* x, std::size_t x_stride,
                std::size_t rows, std::int32_t* sums) {
    constexpr std::size_t kernels = block_bytes / Blocks::kernel_bytes;
    for (std::size_t kernel = 0; kernel < kernels; kernel += 4) {
        const std::byte* first = group + kernel * Blocks::kernel_bytes;
        std::size_t row = 0;
        for (; row + 4 <= rows; row += 4) {
            four_kernels<Blocks, 4>(first, blocks, x + row * x_stride, x_stride, sums + row * kernels + kernel);
        }
        for (; row < rows; ++row) {
            four_kernels<Blocks, 1>(first, blocks, x + row * x_stride, x_stride, sums + row * kernels + kernel);
        }
    }
}

}  // namespace

void multiply_with_dotprod(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                           TargetView y) {
    multiply_with<std::int8_t>(weights, first_group, groups, x, y,
                               weights.precision == compile::Precision::int8 ? group_sums<Int8> : group_sums<Int4>);
}

bool has_dotprod() {
    static const bool reported = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    return reported;
}

}  // namespace npu::gemm

#if !defined(__clang__)
#pragma GCC pop_options
#endif

#else

#include <cassert>

namespace npu::gemm {

bool has_dotprod() { return false; }

void multiply_with_dotprod(const WeightTiles&, std::uint32_t, std::uint32_t, QuantisedRows, TargetView) {
    assert(false && "no SDOT in this build");
}

}  // namespace npu::gemm

#endif
