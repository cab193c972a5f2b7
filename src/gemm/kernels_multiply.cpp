// A handful of rows times resident tiles: the Highway version of multiply_on_cpu.
//
// The work is a read of the weights, once and in the order in which they lie, because that is the order in which hardware
// fetches ahead. A group is G kernels by all channels of a K tile, and comes block by block: 32 channels of all G kernels
// in 1024 bytes. So it is the activations of a block that stay in registers, and the sums of all kernels wait in the
// nearest cache, each as a vector that is added across its lanes when the tile is done.
#include <algorithm>
#include <cassert>
#include <numeric>

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
constexpr std::size_t lanes = hn::MaxLanes(Sums());
constexpr std::size_t vectors_per_block = channels_per_block / hn::MaxLanes(Wide());

// Both formats can deliver a kernel's part of a block as vectors of int16, in the order of the prepared activations.
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

// Products of int16, with one vector of sums to a kernel.
template <class Blocks>
struct WideProducts {
    using X = std::int16_t;
    static constexpr std::size_t kernels = Blocks::kernels;
    static constexpr std::size_t vectors = kernels;

    // Adds the products of one block and `rows` rows of x to sums[row][vector].
    template <std::size_t rows>
    static HWY_INLINE void AddBlock(const std::byte* block, const X* x, std::size_t x_stride, std::int32_t* sums) {
        const Sums d;
        VecWide activations[rows][vectors_per_block];
        for (std::size_t row = 0; row < rows; ++row) {
            for (std::size_t i = 0; i < vectors_per_block; ++i) {
                activations[row][i] = hn::LoadU(Wide(), x + row * x_stride + i * hn::MaxLanes(Wide()));
            }
        }
        for (std::size_t kernel = 0; kernel < kernels; ++kernel, block += Blocks::kernel_bytes, sums += lanes) {
            VecWide weights[vectors_per_block];
            Blocks::Load(block, weights);
            for (std::size_t row = 0; row < rows; ++row) {
                // Where one instruction adds pairs of products the second stays zero. A product has at most 15 bits.
                VecSums first = hn::Zero(d);
                VecSums second = hn::Zero(d);
                for (std::size_t i = 0; i < vectors_per_block; ++i) {
                    first = hn::ReorderWidenMulAccumulate(d, weights[i], activations[row][i], first, second);
                }
                std::int32_t* sum = sums + row * vectors * lanes;
                hn::Store(hn::Add(hn::Load(d, sum), hn::Add(first, second)), d, sum);
            }
        }
    }

    // From vectors of sums to the sums of one row, whose `count` activations begin at x.
    static HWY_INLINE void Finish(const std::int32_t* from, const X* /*x*/, std::size_t /*count*/, std::int32_t* sums) {
        for (std::size_t kernel = 0; kernel < kernels; ++kernel) {
            sums[kernel] = hn::GetLane(hn::SumOfLanes(Sums(), hn::Load(Sums(), from + kernel * lanes)));
        }
    }
};

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

// Products of bytes for int4: an instruction that Highway lacks (VPMADDUBSW) multiplies unsigned with signed bytes and adds
// pairs in 16 bits. Weights become unsigned by adding 8, which the sum of the activations takes back. Four products of
// at most 15 * 128 are far from 16 bits' limit. A vector holds two kernels, one in each half.
struct NibbleProducts {
    using X = std::int8_t;
    static constexpr std::size_t kernels = 64;
    static constexpr std::size_t vectors = 32;

    template <std::size_t rows>
    static HWY_INLINE void AddBlock(const std::byte* block, const X* x, std::size_t x_stride, std::int32_t* sums) {
        const Sums d;
        const hn::Repartition<std::uint8_t, Sums> du8;
        const hn::Repartition<std::int8_t, Sums> d8;
        const hn::Repartition<std::uint16_t, Sums> du16;
        const auto ones = hn::Set(Wide(), std::int16_t{1});
        const auto low = hn::Set(du8, std::uint8_t{0x0f});
        const auto bias = hn::Set(du8, std::uint8_t{0x88});
        hn::VFromD<decltype(d8)> even[rows];
        hn::VFromD<decltype(d8)> odd[rows];
        for (std::size_t row = 0; row < rows; ++row) {
            even[row] = hn::LoadDup128(d8, x + row * x_stride);
            odd[row] = hn::LoadDup128(d8, x + row * x_stride + channels_per_block / 2);
        }
        for (std::size_t vector = 0; vector < vectors; ++vector, sums += lanes) {
            const auto* from = reinterpret_cast<const std::uint8_t*>(block) + vector * hn::MaxLanes(du8);
            const auto both = hn::Xor(hn::LoadU(du8, from), bias);
            const auto even_weights = hn::And(both, low);
            const auto odd_weights = hn::And(hn::BitCast(du8, hn::ShiftRight<4>(hn::BitCast(du16, both))), low);
            for (std::size_t row = 0; row < rows; ++row) {
                const VecWide products{_mm256_add_epi16(_mm256_maddubs_epi16(even_weights.raw, even[row].raw),
                                                        _mm256_maddubs_epi16(odd_weights.raw, odd[row].raw))};
                const VecSums pairs{_mm256_madd_epi16(products.raw, ones.raw)};
                std::int32_t* sum = sums + row * vectors * lanes;
                hn::Store(hn::Add(hn::Load(d, sum), pairs), d, sum);
            }
        }
    }

    static HWY_INLINE void Finish(const std::int32_t* from, const X* x, std::size_t count, std::int32_t* sums) {
        const std::int32_t bias = 8 * std::accumulate(x, x + count, std::int32_t{0});
        for (std::size_t kernel = 0; kernel < kernels; ++kernel, from += lanes / 2) {
            sums[kernel] = std::accumulate(from, from + lanes / 2, -bias);
        }
    }
};

using Int4Products = NibbleProducts;
#else
using Int4Products = WideProducts<Int4Blocks>;
#endif

// The sums of one group in one K tile: sums[row][kernel]. x holds the tile's channels, row after row, in blocks of 32
// (for int4 the 16 even ones of a block before the 16 odd ones).
template <class Products>
void GroupSums(const std::byte* group, std::size_t blocks, const typename Products::X* x, std::size_t x_stride,
               std::size_t rows, std::int32_t* sums) {
    constexpr std::size_t row_lanes = Products::vectors * lanes;
    alignas(64) std::int32_t vectors[most_rows_at_once * row_lanes];
    std::fill_n(vectors, rows * row_lanes, 0);
    for (std::size_t block = 0; block < blocks; ++block, group += block_bytes) {
        for (std::size_t line = 0; line < block_bytes; line += 64) {
            hwy::Prefetch(group + prefetch_bytes + line);
        }
        const auto* activations = x + block * channels_per_block;
        std::int32_t* sum = vectors;
        std::size_t left = rows;
        for (; left >= 4; left -= 4, activations += 4 * x_stride, sum += 4 * row_lanes) {
            Products::template AddBlock<4>(group, activations, x_stride, sum);
        }
        switch (left) {
            case 3: Products::template AddBlock<3>(group, activations, x_stride, sum); break;
            case 2: Products::template AddBlock<2>(group, activations, x_stride, sum); break;
            case 1: Products::template AddBlock<1>(group, activations, x_stride, sum); break;
            default: break;
        }
    }
    for (std::size_t row = 0; row < rows; ++row) {
        Products::Finish(vectors + row * row_lanes, x + row * x_stride, blocks * channels_per_block,
                         sums + row * Products::kernels);
    }
}

template <class Products>
void MultiplyWith(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                  TargetView y) {
    multiply_with<typename Products::X>(weights, first_group, groups, x, y, GroupSums<Products>);
}

void MultiplyEightRows(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                       TargetView y) {
    if (weights.precision == compile::Precision::int8) {
        MultiplyWith<WideProducts<Int8Blocks>>(weights, first_group, groups, x, y);
    } else {
        MultiplyWith<Int4Products>(weights, first_group, groups, x, y);
    }
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
