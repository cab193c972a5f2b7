// A handful of rows times resident tiles: the Highway version of multiply_on_cpu.
//
// The work is a read of the weights, once and in the order in which they lie, because that is the order in which hardware
// fetches ahead. A group is G kernels by all channels of a K tile, and comes block by block: 32 channels of all G kernels
// in 1024 bytes. So it is the activations of a block that stay in registers, and the sums of all kernels wait in the
// nearest cache, each as a vector that is added across its lanes when the tile is done.
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

using Wide = hn::CappedTag<std::int16_t, 16>;
using Sums = hn::RepartitionToWide<Wide>;
using VecWide = hn::VFromD<Wide>;
using VecSums = hn::VFromD<Sums>;

constexpr std::size_t block_bytes = 1024;
constexpr std::size_t prefetch_bytes = 4 * block_bytes;
constexpr std::size_t vectors_per_block = channels_per_block / hn::MaxLanes(Wide());

// The formats deliver a kernel's part of a block as vectors of int16, in the order of the prepared activations.
struct Int8Blocks {
    static constexpr std::size_t kernels = 32;
    static constexpr std::size_t kernel_bytes = 32;

    static HWY_INLINE void Load(const std::byte* kernel, VecWide (&weights)[vectors_per_block]) {
        const hn::Rebind<std::int8_t, Wide> d8;
        for (std::size_t i = 0; i < vectors_per_block; ++i) {
            const auto* from = reinterpret_cast<const std::int8_t*>(kernel) + i * hn::MaxLanes(Wide());
            weights[i] = hn::PromoteTo(Wide(), hn::LoadU(d8, from));
        }
    }
};

struct Int4Blocks {
    static constexpr std::size_t kernels = 64;
    static constexpr std::size_t kernel_bytes = 16;

    static HWY_INLINE void Load(const std::byte* kernel, VecWide (&weights)[vectors_per_block]) {
        const hn::Rebind<std::int8_t, Wide> d8;
        constexpr std::size_t half = vectors_per_block / 2;
        for (std::size_t i = 0; i < half; ++i) {
            const auto* from = reinterpret_cast<const std::int8_t*>(kernel) + i * hn::MaxLanes(Wide());
            const auto both = hn::PromoteTo(Wide(), hn::LoadU(d8, from));
            weights[i] = hn::ShiftRight<12>(hn::ShiftLeft<12>(both));
            weights[half + i] = hn::ShiftRight<4>(both);
        }
    }
};

// Adds the products of one block and `rows` rows of x to sums[row][kernel], each a vector.
template <class Blocks, std::size_t rows>
HWY_INLINE void AddBlock(const std::byte* block, const std::int16_t* x, std::size_t x_stride, std::int32_t* sums) {
    const Sums d;
    constexpr std::size_t lanes = hn::MaxLanes(Sums());
    VecWide activations[rows][vectors_per_block];
    for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t i = 0; i < vectors_per_block; ++i) {
            activations[row][i] = hn::LoadU(Wide(), x + row * x_stride + i * hn::MaxLanes(Wide()));
        }
    }
    for (std::size_t kernel = 0; kernel < Blocks::kernels; ++kernel, block += Blocks::kernel_bytes, sums += lanes) {
        VecWide weights[vectors_per_block];
        Blocks::Load(block, weights);
        for (std::size_t row = 0; row < rows; ++row) {
            // Where one instruction adds pairs of products the second stays zero. A product has at most 15 bits.
            VecSums first = hn::Zero(d);
            VecSums second = hn::Zero(d);
            for (std::size_t i = 0; i < vectors_per_block; ++i) {
                first = hn::ReorderWidenMulAccumulate(d, weights[i], activations[row][i], first, second);
            }
            std::int32_t* sum = sums + row * Blocks::kernels * lanes;
            hn::Store(hn::Add(hn::Load(d, sum), hn::Add(first, second)), d, sum);
        }
    }
}

// The sums of one group in one K tile: sums[row][kernel]. x holds the tile's channels, row after row, in blocks of 32
// (for int4 the 16 even ones of a block before the 16 odd ones).
template <class Blocks>
HWY_INLINE void GroupSums(const std::byte* group, std::size_t blocks, const std::int16_t* x, std::size_t x_stride,
                          std::size_t rows, std::int32_t* sums) {
    const Sums d;
    constexpr std::size_t lanes = hn::MaxLanes(Sums());
    alignas(64) std::int32_t vectors[most_rows_at_once * Blocks::kernels * lanes];
    std::fill_n(vectors, rows * Blocks::kernels * lanes, 0);
    for (std::size_t block = 0; block < blocks; ++block, group += block_bytes, x += channels_per_block) {
        for (std::size_t line = 0; line < block_bytes; line += 64) {
            hwy::Prefetch(group + prefetch_bytes + line);
        }
        std::size_t row = 0;
        const auto add = [&](auto add_rows, std::size_t count) HWY_ATTR {
            add_rows(group, x + row * x_stride, x_stride, vectors + row * Blocks::kernels * lanes);
            row += count;
        };
        while (row + 4 <= rows) {
            add(AddBlock<Blocks, 4>, 4);
        }
        switch (rows - row) {
            case 3: add(AddBlock<Blocks, 3>, 3); break;
            case 2: add(AddBlock<Blocks, 2>, 2); break;
            case 1: add(AddBlock<Blocks, 1>, 1); break;
            default: break;
        }
    }
    for (std::size_t i = 0; i < rows * Blocks::kernels; ++i) {
        sums[i] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, vectors + i * lanes)));
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
