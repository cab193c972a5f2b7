// Results to float rows: the Highway version of scale_and_untile.
//
// A surface (all rows of one atom of channels) is read for rows_together rows before the next, so that reads stay on few
// pages, and surfaces_together of them before the rows go on, so that the result is written in whole cache lines.
#include <algorithm>
#include <cassert>

#include "gemm/highway_targets.h"
#include "gemm/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/kernels_untile.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first, then:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npu::gemm::HWY_NAMESPACE {

#if NPU_HAVE_VECTORS

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::uint32_t rows_together = 16;
constexpr std::uint32_t surfaces_together = 16;

using Tiles = std::span<const std::byte* const>;

// Each policy adds what lies at `offset` of every tile and returns it as the floats of one vector.
struct FromInt32 {
    static constexpr std::uint32_t channels_per_atom = 4;

    template <class D>
    static HWY_INLINE hn::VFromD<D> Sum(D d, Tiles tiles, std::size_t offset) {
        const hn::RebindToSigned<D> di;
        auto sum = hn::LoadU(di, reinterpret_cast<const std::int32_t*>(tiles[0] + offset));
        for (std::size_t i = 1; i < tiles.size(); ++i) {
            sum = hn::Add(sum, hn::LoadU(di, reinterpret_cast<const std::int32_t*>(tiles[i] + offset)));
        }
        return hn::ConvertTo(d, sum);
    }
};

struct FromFp32 {
    static constexpr std::uint32_t channels_per_atom = 4;

    template <class D>
    static HWY_INLINE hn::VFromD<D> Sum(D d, Tiles tiles, std::size_t offset) {
        auto sum = hn::Zero(d);
        for (const std::byte* tile : tiles) {
            sum = hn::Add(sum, hn::LoadU(d, reinterpret_cast<const float*>(tile + offset)));
        }
        return sum;
    }
};

struct FromFp16 {
    static constexpr std::uint32_t channels_per_atom = 8;

    // half_to_float of base/float_bits.h, branch by branch, for bits in the low half of each lane.
    template <class D>
    static HWY_INLINE hn::VFromD<D> FloatFromHalf(D d, hn::VFromD<hn::RebindToUnsigned<D>> bits) {
        const hn::RebindToUnsigned<D> du;
        const hn::RebindToSigned<D> di;
        const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffU));
        const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
        const auto order = hn::BitCast(di, magnitude);
        const auto is_special = hn::RebindMask(du, hn::Gt(order, hn::Set(di, 0x7bff)));
        const auto is_subnormal = hn::RebindMask(du, hn::Lt(order, hn::Set(di, 0x400)));
        const auto rebias = hn::IfThenElse(is_special, hn::Set(du, 224U << 23), hn::Set(du, 112U << 23));
        const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
        const auto subnormal = hn::BitCast(du, hn::Mul(hn::ConvertTo(d, order), hn::Set(d, 0x1p-24F)));
        return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_subnormal, subnormal, normal)));
    }

    template <class D>
    static HWY_INLINE hn::VFromD<D> Sum(D d, Tiles tiles, std::size_t offset) {
        const hn::RebindToUnsigned<D> du;
        const hn::Rebind<std::uint16_t, D> du16;
        auto sum = hn::Zero(d);
        for (const std::byte* tile : tiles) {
            const auto bits = hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(tile + offset));
            sum = hn::Add(sum, FloatFromHalf(d, hn::PromoteTo(du, bits)));
        }
        return sum;
    }
};

// One atom of one row.
template <class From>
HWY_INLINE void UntileAtom(Tiles tiles, std::size_t offset, float row_scale, const float* kernel_scales, float* y) {
    const hn::CappedTag<float, From::channels_per_atom> d;
    const auto row = hn::Set(d, row_scale);
    const std::size_t lane_bytes = rockchip::atom_bytes / From::channels_per_atom;
    for (std::size_t i = 0; i < From::channels_per_atom; i += hn::Lanes(d)) {
        const auto sum = From::Sum(d, tiles, offset + i * lane_bytes);
        hn::StoreU(hn::Mul(hn::Mul(sum, row), hn::LoadU(d, kernel_scales + i)), d, y + i);
    }
}

// The atoms of two rows, which are neighbours, where both fill one vector.
template <class From>
HWY_INLINE void UntileTwoAtoms(Tiles tiles, std::size_t offset, const float* row_scales, const float* kernel_scales,
                               float* y0, float* y1) {
    using D = hn::CappedTag<float, 8>;
    const D d;
    if constexpr (From::channels_per_atom == 4 && hn::MaxLanes(D()) == 8) {
        const hn::Half<D> dh;
        const auto rows = hn::Combine(d, hn::Set(dh, row_scales[1]), hn::Set(dh, row_scales[0]));
        const auto scaled = hn::Mul(hn::Mul(From::Sum(d, tiles, offset), rows), hn::LoadDup128(d, kernel_scales));
        hn::StoreU(hn::LowerHalf(dh, scaled), dh, y0);
        hn::StoreU(hn::UpperHalf(dh, scaled), dh, y1);
    } else {
        UntileAtom<From>(tiles, offset, row_scales[0], kernel_scales, y0);
        UntileAtom<From>(tiles, offset + rockchip::atom_bytes, row_scales[1], kernel_scales, y1);
    }
}

template <class From>
HWY_INLINE void UntileRows(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                           const float* row_scales, const float* kernel_scales, TargetView y) {
    constexpr std::uint32_t width = From::channels_per_atom;
    const Tiles tiles = results.tiles;
    const std::size_t surface_bytes = std::size_t{results.layout.rows} * rockchip::atom_bytes;
    const std::uint32_t whole_surfaces = n / width;
    const std::uint32_t rest = n % width;
    float last_scales[width] = {};
    std::copy_n(kernel_scales + n - rest, rest, last_scales);
    const std::uint32_t end = first + count;
    for (std::uint32_t m0 = first; m0 < end; m0 += rows_together) {
        const std::uint32_t m1 = std::min(m0 + rows_together, end);
        for (std::uint32_t s0 = 0; s0 < whole_surfaces; s0 += surfaces_together) {
            const std::uint32_t s1 = std::min(s0 + surfaces_together, whole_surfaces);
            std::uint32_t m = m0;
            for (; m + 2 <= m1; m += 2) {
                float* y0 = y.data + m * y.stride;
                std::size_t offset = s0 * surface_bytes + std::size_t{m} * rockchip::atom_bytes;
                for (std::uint32_t s = s0; s < s1; ++s, offset += surface_bytes) {
                    UntileTwoAtoms<From>(tiles, offset, row_scales + m, kernel_scales + s * width, y0 + s * width,
                                         y0 + y.stride + s * width);
                }
            }
            if (m < m1) {
                std::size_t offset = s0 * surface_bytes + std::size_t{m} * rockchip::atom_bytes;
                for (std::uint32_t s = s0; s < s1; ++s, offset += surface_bytes) {
                    UntileAtom<From>(tiles, offset, row_scales[m], kernel_scales + s * width,
                                     y.data + m * y.stride + s * width);
                }
            }
        }
        for (std::uint32_t m = m0; rest != 0 && m < m1; ++m) {
            float atom[width];
            UntileAtom<From>(tiles, whole_surfaces * surface_bytes + std::size_t{m} * rockchip::atom_bytes,
                             row_scales[m], last_scales, atom);
            std::copy_n(atom, rest, y.data + m * y.stride + n - rest);
        }
    }
}

void UntileInt32(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                 const float* row_scales, const float* kernel_scales, TargetView y) {
    UntileRows<FromInt32>(results, first, count, n, row_scales, kernel_scales, y);
}

void UntileFp32(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                const float* row_scales, const float* kernel_scales, TargetView y) {
    UntileRows<FromFp32>(results, first, count, n, row_scales, kernel_scales, y);
}

void UntileFp16(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                const float* row_scales, const float* kernel_scales, TargetView y) {
    UntileRows<FromFp16>(results, first, count, n, row_scales, kernel_scales, y);
}

#else

constexpr auto& UntileInt32 = portable::scale_and_untile;
constexpr auto& UntileFp32 = portable::scale_and_untile;
constexpr auto& UntileFp16 = portable::scale_and_untile;

#endif

}  // namespace npu::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npu::gemm {

HWY_EXPORT(UntileInt32);
HWY_EXPORT(UntileFp32);
HWY_EXPORT(UntileFp16);

void scale_and_untile(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                      const float* row_scales, const float* kernel_scales, TargetView y) {
    using compile::Precision;
    const compile::OutputLayout& layout = results.layout;
    assert(first + count <= layout.rows && n <= layout.channels && !results.tiles.empty());
    const bool fits_int32 =
        layout.precision != Precision::int32 || results.tiles.size() == 1 || results.k <= most_channels_in_int32;
    if (layout.arrangement != compile::Arrangement::native || !fits_int32) {
        return portable::scale_and_untile(results, first, count, n, row_scales, kernel_scales, y);
    }
    const auto untile = layout.precision == Precision::int32  ? HWY_DYNAMIC_DISPATCH(UntileInt32)
                        : layout.precision == Precision::fp32 ? HWY_DYNAMIC_DISPATCH(UntileFp32)
                                                              : HWY_DYNAMIC_DISPATCH(UntileFp16);
    untile(results, first, count, n, row_scales, kernel_scales, y);
}

}  // namespace npu::gemm
#endif
