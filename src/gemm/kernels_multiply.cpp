// A handful of rows times resident tiles: the Highway version of multiply_on_cpu.
//
// The work is a read of the weights, once and in their order as nearly as can be. A group is G kernels by all channels
// of a K tile; a block of it holds 32 channels of all G kernels. A pass takes two cache lines of each block (four kernels
// of int8, eight of int4), keeps their sums in registers from the first block to the last, and fetches the two lines
// that the next pass takes, because no hardware follows two lines in every sixteen.
#include <cassert>

#include "gemm/cpu_multiplication.h"
#include "gemm/highway_targets.h"
#include "gemm/kernels.h"
#include "gemm/kernels_dotprod.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/kernels_multiply.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
// foreach_target.h comes first, then:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npu::gemm::HWY_NAMESPACE {

#if NPU_HAVE_VECTORS

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t block_channels = 32;
using Wide = hn::CappedTag<std::int16_t, 16>;
using Sums = hn::RepartitionToWide<Wide>;
using VecWide = hn::VFromD<Wide>;
using VecSums = hn::VFromD<Sums>;

struct Int8Blocks {
    static constexpr std::size_t kernels = 32;
    static constexpr std::size_t kernel_bytes = 32;

    // Calls `add` with vectors of weights and where the activations that belong to them lie in a block.
    template <class Add>
    static HWY_INLINE void ForEach(const std::byte* kernel, const Add& add) {
        const hn::Rebind<std::int8_t, Wide> d8;
        const auto* weights = reinterpret_cast<const std::int8_t*>(kernel);
        for (std::size_t i = 0; i < block_channels; i += hn::Lanes(Wide())) {
            add(hn::PromoteTo(Wide(), hn::LoadU(d8, weights + i)), i);
        }
    }
};

struct Int4Blocks {
    static constexpr std::size_t kernels = 64;
    static constexpr std::size_t kernel_bytes = 16;

    template <class Add>
    static HWY_INLINE void ForEach(const std::byte* kernel, const Add& add) {
        const hn::Rebind<std::int8_t, Wide> d8;
        const auto* weights = reinterpret_cast<const std::int8_t*>(kernel);
        for (std::size_t i = 0; i < kernel_bytes; i += hn::Lanes(Wide())) {
            const auto both = hn::PromoteTo(Wide(), hn::LoadU(d8, weights + i));
            add(hn::ShiftRight<12>(hn::ShiftLeft<12>(both)), i);
            add(hn::ShiftRight<4>(both), block_channels / 2 + i);
        }
    }
};

// `together` kernels from `first` on by `rows` rows of x, over all blocks. The addresses `ahead` bytes further on are
// fetched on the way.
template <class Blocks, std::size_t together, std::size_t rows>
HWY_INLINE void Pass(const std::byte* first, std::size_t blocks, const std::int16_t* x, std::size_t x_stride,
                     std::ptrdiff_t ahead, std::int32_t* sums) {
    constexpr std::size_t block_bytes = Blocks::kernels * Blocks::kernel_bytes;
    // Pairs of int16 products fit int32: each has at most 30 bits. The second stays zero where one instruction adds pairs.
    VecSums first_sums[together][rows];
    VecSums second_sums[together][rows];
    for (std::size_t kernel = 0; kernel < together; ++kernel) {
        for (std::size_t row = 0; row < rows; ++row) {
            first_sums[kernel][row] = second_sums[kernel][row] = hn::Zero(Sums());
        }
    }
    for (std::size_t block = 0; block < blocks; ++block, first += block_bytes, x += block_channels) {
        for (std::size_t line = 0; line < together * Blocks::kernel_bytes; line += 64) {
            hwy::Prefetch(first + ahead + line);
        }
        for (std::size_t kernel = 0; kernel < together; ++kernel) {
            Blocks::ForEach(first + kernel * Blocks::kernel_bytes, [&](VecWide weights, std::size_t at) HWY_ATTR {
                for (std::size_t row = 0; row < rows; ++row) {
                    first_sums[kernel][row] =
                        hn::ReorderWidenMulAccumulate(Sums(), weights, hn::LoadU(Wide(), x + row * x_stride + at),
                                                      first_sums[kernel][row], second_sums[kernel][row]);
                }
            });
        }
    }
    for (std::size_t kernel = 0; kernel < together; ++kernel) {
        for (std::size_t row = 0; row < rows; ++row) {
            sums[row * Blocks::kernels + kernel] =
                hn::GetLane(hn::SumOfLanes(Sums(), hn::Add(first_sums[kernel][row], second_sums[kernel][row])));
        }
    }
}

// The sums of one group in one K tile: sums[row][kernel]. x holds the tile's channels, row after row, in blocks of 32
// (for int4 the 16 even ones of a block before the 16 odd ones).
template <class Blocks>
HWY_INLINE void GroupSums(const std::byte* group, std::size_t blocks, const std::int16_t* x, std::size_t x_stride,
                          std::size_t rows, std::int32_t* sums) {
    constexpr std::size_t together = 128 / Blocks::kernel_bytes;
    constexpr std::size_t half = together / 2;
    constexpr std::size_t quarter = together / 4;
    constexpr auto group_kernel_bytes = static_cast<std::ptrdiff_t>(Blocks::kernels * Blocks::kernel_bytes);
    for (std::size_t kernel = 0; kernel < Blocks::kernels; kernel += together) {
        const std::byte* first = group + kernel * Blocks::kernel_bytes;
        // After the last pass comes the next group, which follows this one.
        const std::ptrdiff_t ahead = kernel + together < Blocks::kernels
                                         ? 128
                                         : group_kernel_bytes * (static_cast<std::ptrdiff_t>(blocks) - 1) + 128;
        std::size_t row = 0;
        for (; row + 4 <= rows; row += 4) {
            for (std::size_t i = 0; i < together; i += quarter) {
                Pass<Blocks, quarter, 4>(first + i * Blocks::kernel_bytes, blocks, x + row * x_stride, x_stride, ahead,
                                         sums + row * Blocks::kernels + kernel + i);
            }
        }
        for (; row + 2 <= rows; row += 2) {
            for (std::size_t i = 0; i < together; i += half) {
                Pass<Blocks, half, 2>(first + i * Blocks::kernel_bytes, blocks, x + row * x_stride, x_stride, ahead,
                                      sums + row * Blocks::kernels + kernel + i);
            }
        }
        for (; row < rows; ++row) {
            for (std::size_t i = 0; i < together; i += 4) {
                Pass<Blocks, 4, 1>(first + i * Blocks::kernel_bytes, blocks, x + row * x_stride, x_stride, ahead,
                                   sums + row * Blocks::kernels + kernel + i);
            }
        }
    }
}

void GroupSumsInt8(const std::byte* group, std::size_t blocks, const std::int16_t* x, std::size_t x_stride,
                   std::size_t rows, std::int32_t* sums) {
    GroupSums<Int8Blocks>(group, blocks, x, x_stride, rows, sums);
}

void GroupSumsInt4(const std::byte* group, std::size_t blocks, const std::int16_t* x, std::size_t x_stride,
                   std::size_t rows, std::int32_t* sums) {
    GroupSums<Int4Blocks>(group, blocks, x, x_stride, rows, sums);
}

void MultiplyEightRows(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                       TargetView y) {
    multiply_with<std::int16_t>(weights, first_group, groups, x, y,
                                weights.precision == compile::Precision::int8 ? GroupSumsInt8 : GroupSumsInt4);
}

#else

constexpr auto& MultiplyEightRows = portable::multiply_on_cpu;

#endif

}  // namespace npu::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npu::gemm {

HWY_EXPORT(MultiplyEightRows);

std::uint32_t kernels_per_group(const WeightTiles& weights) {
    assert(weights.precision == compile::Precision::int8 || weights.precision == compile::Precision::int4);
    return rockchip::info(weights.precision).kernels_per_group;
}

void multiply_on_cpu(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                     TargetView y) {
    const auto multiply = has_dotprod() ? multiply_with_dotprod : HWY_DYNAMIC_DISPATCH(MultiplyEightRows);
    for (std::uint32_t row = 0; row < x.rows; row += most_rows_at_once) {
        const std::uint32_t rows = std::min(most_rows_at_once, x.rows - row);
        multiply(weights, first_group, groups, {x.values + row * x.stride, x.stride, rows, x.scales + row},
                 {y.data + row * y.stride, y.stride});
    }
}

}  // namespace npu::gemm
#endif
