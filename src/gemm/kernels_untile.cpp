// Results to float rows: the Highway version of scale_and_untile.
//
// The unit of work is a square of four rows by four surfaces (a surface is all rows of one atom of channels): a cache line
// of each surface is read and, where a surface has four channels, a line of each row written. Squares follow each other
// down the rows in a strip of surfaces, so that both matrices are used in runs of several lines.
#include <algorithm>
#include <cassert>

#include "gemm/highway_targets.h"
#include "gemm/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/kernels_untile.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
// foreach_target.h comes first, then:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npu::gemm::HWY_NAMESPACE {

#if NPU_HAVE_VECTORS

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::uint32_t square = 4;
constexpr std::uint32_t strip_surfaces = 16;
constexpr std::uint32_t prefetch_rows =
    8;  // a surface's next lines lie behind many other surfaces' lines: ask for them

using Tiles = std::span<const std::byte* const>;

// Each policy adds the tiles' elements in its own way: it loads a vector of sums from one tile, adds one from the next,
// and turns the sum to floats.
struct FromInt32 {
    static constexpr std::uint32_t channels_per_atom = 4;

    template <class D>
    static HWY_INLINE auto First(D /*d*/, const std::byte* from) {
        return hn::LoadU(hn::RebindToSigned<D>(), reinterpret_cast<const std::int32_t*>(from));
    }
    template <class D, class V>
    static HWY_INLINE V Next(D d, V sum, const std::byte* from) {
        return hn::Add(sum, First(d, from));
    }
    template <class D, class V>
    static HWY_INLINE hn::VFromD<D> ToFloat(D d, V sum) {
        return hn::ConvertTo(d, sum);
    }
};

struct FromFp32 {
    static constexpr std::uint32_t channels_per_atom = 4;

    // Added to zero, so that a sum of negative zeros is zero.
    template <class D>
    static HWY_INLINE hn::VFromD<D> First(D d, const std::byte* from) {
        return Next(d, hn::Zero(d), from);
    }
    template <class D, class V>
    static HWY_INLINE V Next(D d, V sum, const std::byte* from) {
        return hn::Add(sum, hn::LoadU(d, reinterpret_cast<const float*>(from)));
    }
    template <class D, class V>
    static HWY_INLINE V ToFloat(D /*d*/, V sum) {
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
    static HWY_INLINE hn::VFromD<D> First(D d, const std::byte* from) {
        return Next(d, hn::Zero(d), from);
    }
    template <class D, class V>
    static HWY_INLINE V Next(D d, V sum, const std::byte* from) {
        const hn::Rebind<std::uint16_t, D> d16;
        const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from));
        return hn::Add(sum, FloatFromHalf(d, hn::PromoteTo(hn::RebindToUnsigned<D>(), bits)));
    }
    template <class D, class V>
    static HWY_INLINE V ToFloat(D /*d*/, V sum) {
        return sum;
    }
};

// One atom of one row.
template <class From>
HWY_INLINE void UntileAtom(Tiles tiles, std::size_t offset, float row_scale, const float* kernel_scales, float* y) {
    const hn::CappedTag<float, From::channels_per_atom> d;
    const auto row = hn::Set(d, row_scale);
    constexpr std::size_t element_bytes = rockchip::atom_bytes / From::channels_per_atom;
    for (std::size_t i = 0; i < From::channels_per_atom; i += hn::Lanes(d)) {
        auto sum = From::First(d, tiles[0] + offset + i * element_bytes);
        for (std::size_t tile = 1; tile < tiles.size(); ++tile) {
            sum = From::Next(d, sum, tiles[tile] + offset + i * element_bytes);
        }
        hn::StoreU(hn::Mul(hn::Mul(From::ToFloat(d, sum), row), hn::LoadU(d, kernel_scales + i)), d, y + i);
    }
}

// A whole square of atoms of four channels: the sums of all of it are held in registers while the tiles go by. `offset` is
// that of its first atom in every tile; y is its first value.
template <class From>
HWY_INLINE void UntileSquare(Tiles tiles, std::size_t offset, std::size_t surface_bytes, const float* row_scales,
                             const float* kernel_scales, TargetView y) {
    using D = hn::CappedTag<float, 8>;
    const D d;
    constexpr std::size_t vector_rows = hn::MaxLanes(D()) / 4;
    constexpr std::size_t vectors = square / vector_rows;
    constexpr std::size_t vector_bytes = vector_rows * rockchip::atom_bytes;
    decltype(From::First(d, nullptr)) sums[square][vectors];
    for (std::size_t surface = 0; surface < square; ++surface) {
        for (std::size_t v = 0; v < vectors; ++v) {
            sums[surface][v] = From::First(d, tiles[0] + offset + surface * surface_bytes + v * vector_bytes);
        }
    }
    for (std::size_t tile = 1; tile < tiles.size(); ++tile) {
        const std::byte* from = tiles[tile] + offset;
        for (std::size_t surface = 0; surface < square; ++surface) {
            for (std::size_t v = 0; v < vectors; ++v) {
                sums[surface][v] = From::Next(d, sums[surface][v], from + surface * surface_bytes + v * vector_bytes);
            }
        }
    }
    const auto store = [&](auto sum, std::size_t row, std::size_t channel) HWY_ATTR {
        const auto scaled = hn::Mul(From::ToFloat(d, sum), hn::Set(d, row_scales[row]));
        hn::StoreU(hn::Mul(scaled, hn::LoadU(d, kernel_scales + channel)), d, y.data + row * y.stride + channel);
    };
    for (std::size_t v = 0; v < vectors; ++v) {
        if constexpr (vector_rows == 1) {
            for (std::size_t surface = 0; surface < square; ++surface) {
                store(sums[surface][v], v, surface * 4);
            }
        } else {
            // The lower halves of two surfaces' vectors are one row, the upper halves the next.
            using DSum = hn::DFromV<decltype(From::First(d, nullptr))>;
            for (std::size_t surface = 0; surface < square; surface += 2) {
                const auto& left = sums[surface][v];
                const auto& right = sums[surface + 1][v];
                store(hn::ConcatLowerLower(DSum(), right, left), 2 * v, surface * 4);
                store(hn::ConcatUpperUpper(DSum(), right, left), 2 * v + 1, surface * 4);
            }
        }
    }
}

template <class From>
HWY_INLINE void UntileRows(const PartialResults& results, std::uint32_t first, std::uint32_t count, std::uint32_t n,
                           const float* row_scales, const float* kernel_scales, TargetView y) {
    constexpr std::uint32_t width = From::channels_per_atom;
    const Tiles tiles = results.tiles;
    const std::size_t surface_bytes = std::size_t{results.layout.rows} * rockchip::atom_bytes;
    const std::uint32_t end = first + count;
    const auto offset_of = [&](std::uint32_t m, std::uint32_t surface) {
        return surface * surface_bytes + std::size_t{m} * rockchip::atom_bytes;
    };
    const std::uint32_t surfaces = n / width;
    for (std::uint32_t s0 = 0; s0 < surfaces; s0 += strip_surfaces) {
        const std::uint32_t s1 = std::min(s0 + strip_surfaces, surfaces);
        for (std::uint32_t m0 = first; m0 < end; m0 += square) {
            const std::uint32_t m1 = std::min(m0 + square, end);
            std::uint32_t s = s0;
            if constexpr (width == 4) {
                for (; m1 - m0 == square && s + square <= s1; s += square) {
                    for (std::uint32_t ahead = s; ahead < s + square; ++ahead) {
                        for (const std::byte* tile : tiles) {
                            hwy::Prefetch(tile + offset_of(m0 + prefetch_rows, ahead));
                        }
                    }
                    UntileSquare<From>(tiles, offset_of(m0, s), surface_bytes, row_scales + m0,
                                       kernel_scales + s * width, {y.data + m0 * y.stride + s * width, y.stride});
                }
            }
            for (std::uint32_t m = m0; m < m1; ++m) {
                for (std::uint32_t rest = s; rest < s1; ++rest) {
                    UntileAtom<From>(tiles, offset_of(m, rest), row_scales[m], kernel_scales + rest * width,
                                     y.data + m * y.stride + rest * width);
                }
            }
        }
    }
    const std::uint32_t last_channels = n % width;
    if (last_channels != 0) {
        float last_scales[width] = {};
        std::copy_n(kernel_scales + surfaces * width, last_channels, last_scales);
        for (std::uint32_t m = first; m < end; ++m) {
            float atom[width];
            UntileAtom<From>(tiles, offset_of(m, surfaces), row_scales[m], last_scales, atom);
            std::copy_n(atom, last_channels, y.data + m * y.stride + surfaces * width);
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
