// Activations to tiles: the Highway version of quantise_and_tile and tile_half.
//
// A vector holds four channels of one row or, where it has eight lanes, of two: those are neighbours in the native
// layout, so that the converted vector is stored as it is.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "gemm/highway_targets.h"
#include "gemm/kernels.h"
#include "gemm/quantise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/kernels_tile.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
// foreach_target.h comes first, then:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npu::gemm::HWY_NAMESPACE {

#if NPU_HAVE_VECTORS

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::uint32_t rows_per_line = 4;   // their atoms fill a cache line
constexpr std::uint32_t rows_together = 16;  // found again in the second-level cache when they are converted
constexpr std::uint32_t strip_atoms = 16;

// Converted by multiplication with `factor`; where `mask` is zero the result is zero whatever the row holds.
struct RowConversion {
    const float* data;
    float factor;
    std::uint32_t mask;
};

float LargestMagnitude(const float* row, std::uint32_t count) {
    const hn::ScalableTag<std::uint32_t> d;
    const auto magnitude = hn::Set(d, 0x7fffffffU);
    const std::size_t lanes = hn::Lanes(d);
    const auto* bits = reinterpret_cast<const std::uint32_t*>(row);
    auto largest0 = hn::Zero(d);
    auto largest1 = largest0;
    auto largest2 = largest0;
    auto largest3 = largest0;
    std::size_t i = 0;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
        largest0 = hn::Max(largest0, hn::And(magnitude, hn::LoadU(d, bits + i)));
        largest1 = hn::Max(largest1, hn::And(magnitude, hn::LoadU(d, bits + i + lanes)));
        largest2 = hn::Max(largest2, hn::And(magnitude, hn::LoadU(d, bits + i + 2 * lanes)));
        largest3 = hn::Max(largest3, hn::And(magnitude, hn::LoadU(d, bits + i + 3 * lanes)));
    }
    const auto largest = hn::Max(hn::Max(largest0, largest1), hn::Max(largest2, largest3));
    const std::uint32_t body = hn::GetLane(hn::MaxOfLanes(d, largest));
    const std::uint32_t tail = std::bit_cast<std::uint32_t>(largest_magnitude(row + i, count - i));
    return std::bit_cast<float>(std::max(body, tail));
}

// Channels [4 * piece, 4 * piece + 4) of the rows that one vector holds, multiplied with their factors.
template <class D>
class RowsInVector {
  public:
    static constexpr std::uint32_t rows = hn::MaxLanes(D()) / 4;

    HWY_INLINE explicit RowsInVector(const RowConversion* conversion) : first_(conversion[0].data) {
        const D d;
        const hn::RebindToUnsigned<D> du;
        if constexpr (rows == 1) {
            factor_ = hn::Set(d, conversion[0].factor);
            mask_ = hn::BitCast(d, hn::Set(du, conversion[0].mask));
        } else {
            const hn::Half<D> dh;
            const hn::Half<decltype(du)> duh;
            second_ = conversion[1].data;
            factor_ = hn::Combine(d, hn::Set(dh, conversion[1].factor), hn::Set(dh, conversion[0].factor));
            mask_ = hn::BitCast(d, hn::Combine(du, hn::Set(duh, conversion[1].mask), hn::Set(duh, conversion[0].mask)));
        }
    }

    HWY_INLINE hn::VFromD<D> Get(std::size_t channel) const {
        const D d;
        if constexpr (rows == 1) {
            return hn::Mul(hn::And(hn::LoadU(d, first_ + channel), mask_), factor_);
        } else {
            const hn::Half<D> dh;
            const auto both = hn::Combine(d, hn::LoadU(dh, second_ + channel), hn::LoadU(dh, first_ + channel));
            return hn::Mul(hn::And(both, mask_), factor_);
        }
    }

  private:
    const float* first_;
    const float* second_ = nullptr;
    hn::VFromD<D> factor_;
    hn::VFromD<D> mask_;
};

// Byte i of a block of the result is byte 4 * (i % 4) of a block of the source, for the bytes of one piece; others are
// zero (index 0x80).
alignas(16) constexpr std::uint8_t low_bytes[4][16] = {
    {0, 4, 8, 12, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
    {128, 128, 128, 128, 0, 4, 8, 12, 128, 128, 128, 128, 128, 128, 128, 128},
    {128, 128, 128, 128, 128, 128, 128, 128, 0, 4, 8, 12, 128, 128, 128, 128},
    {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0, 4, 8, 12}};
alignas(16) constexpr std::uint8_t low_halves[2][16] = {
    {0, 1, 4, 5, 8, 9, 12, 13, 128, 128, 128, 128, 128, 128, 128, 128},
    {128, 128, 128, 128, 128, 128, 128, 128, 0, 1, 4, 5, 8, 9, 12, 13}};

struct ToInt8 {
    static constexpr std::uint32_t channels_per_atom = 16;

    template <class D>
    static HWY_INLINE void StoreAtoms(D d, const RowsInVector<D>& rows, std::size_t channel, std::byte* target) {
        // Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low byte. No value exceeds the
        // largest of its row, which becomes 127, so there is nothing to saturate.
        const hn::Repartition<std::uint8_t, D> d8;
        const auto round = hn::Set(d, 12582912.0F);
        const auto piece = [&](std::size_t index) HWY_ATTR {
            const auto rounded = hn::Add(rows.Get(channel + 4 * index), round);
            return hn::TableLookupBytesOr0(hn::BitCast(d8, rounded), hn::LoadDup128(d8, low_bytes[index]));
        };
        const auto atoms = hn::Or(hn::Or(piece(0), piece(1)), hn::Or(piece(2), piece(3)));
        hn::StoreU(atoms, d8, reinterpret_cast<std::uint8_t*>(target));
    }

    static RowConversion Prepare(const float* row, float largest, float& scale) {
        const Scaling scaling = scaling_to(largest_int8, largest);
        scale = scaling.scale;
        return {row, scaling.inverse, scaling.inverse != 0.0F ? 0xffffffffU : 0U};
    }
};

struct ToHalf {
    static constexpr std::uint32_t channels_per_atom = 8;

    // float_to_half of base/float_bits.h, branch by branch.
    template <class D>
    static HWY_INLINE hn::VFromD<hn::RebindToUnsigned<D>> HalfBits(D d, hn::VFromD<D> value) {
        const hn::RebindToUnsigned<D> du;
        const auto bits = hn::BitCast(du, value);
        const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffU));
        const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
        const auto rebased = hn::Sub(magnitude, hn::Set(du, 0x38000000U));
        const auto odd = hn::And(hn::ShiftRight<13>(rebased), hn::Set(du, 1U));
        const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(rebased, hn::Set(du, 0xfffU)), odd));
        const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5F));
        const auto subnormal = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, 0x3f000000U));
        // As signed numbers, which vectors compare faster: a magnitude has no sign bit.
        const hn::RebindToSigned<D> di;
        const auto order = hn::BitCast(di, magnitude);
        const auto is_small = hn::RebindMask(du, hn::Lt(order, hn::Set(di, 0x38800000)));
        const auto is_infinite = hn::RebindMask(du, hn::Gt(order, hn::Set(di, 0x477fefff)));
        const auto is_nan = hn::RebindMask(du, hn::Gt(order, hn::Set(di, 0x7f800000)));
        auto half = hn::IfThenElse(is_small, subnormal, normal);
        half = hn::IfThenElse(is_infinite, hn::Set(du, 0x7c00U), half);
        half = hn::IfThenElse(is_nan, hn::Set(du, 0x7e00U), half);
        return hn::Or(half, sign);
    }

    template <class D>
    static HWY_INLINE void StoreAtoms(D d, const RowsInVector<D>& rows, std::size_t channel, std::byte* target) {
        const hn::Repartition<std::uint8_t, D> d8;
        const auto piece = [&](std::size_t index) HWY_ATTR {
            const auto halves = HalfBits(d, rows.Get(channel + 4 * index));
            return hn::TableLookupBytesOr0(hn::BitCast(d8, halves), hn::LoadDup128(d8, low_halves[index]));
        };
        hn::StoreU(hn::Or(piece(0), piece(1)), d8, reinterpret_cast<std::uint8_t*>(target));
    }

    static RowConversion Prepare(const float* row, float largest, float& factor) {
        factor = fp16_factor(largest);
        return {row, 1.0F / factor, 0xffffffffU};
    }
};

// Every atom of one row.
template <class To>
HWY_INLINE void TileRow(const RowConversion& conversion, std::uint32_t k, std::uint32_t atoms, std::size_t atom_stride,
                        std::byte* target) {
    const hn::CappedTag<float, 4> d;
    using Rows = RowsInVector<hn::CappedTag<float, 4>>;
    const Rows row(&conversion);
    const std::uint32_t whole_atoms = k / To::channels_per_atom;
    std::uint32_t atom = 0;
    for (; atom < whole_atoms; ++atom) {
        To::StoreAtoms(d, row, std::size_t{atom} * To::channels_per_atom, target + atom * atom_stride);
    }
    if (k % To::channels_per_atom != 0) {
        float rest[To::channels_per_atom] = {};
        std::copy(conversion.data + whole_atoms * To::channels_per_atom, conversion.data + k, rest);
        const RowConversion last{rest, conversion.factor, conversion.mask};
        To::StoreAtoms(d, Rows(&last), 0, target + atom * atom_stride);
        ++atom;
    }
    for (; atom < atoms; ++atom) {
        std::memset(target + atom * atom_stride, 0, rockchip::atom_bytes);
    }
}

// Atoms [begin, end) of four rows. The vectors of a cache line are written one after the other, so that it leaves the
// core once.
template <class To>
HWY_INLINE void TileLines(const RowConversion* conversion, std::uint32_t begin, std::uint32_t end,
                          std::size_t atom_stride, std::byte* target) {
    using D = hn::CappedTag<float, 8>;
    using Rows = RowsInVector<D>;
    constexpr std::size_t vector_bytes = std::size_t{Rows::rows} * rockchip::atom_bytes;
    constexpr std::size_t next_line = std::size_t{rows_per_line} * rockchip::atom_bytes;  // after this strip
    const D d;
    const Rows first(conversion);
    const Rows second(conversion + Rows::rows);
    for (std::uint32_t atom = begin; atom < end; ++atom) {
        const std::size_t channel = std::size_t{atom} * To::channels_per_atom;
        std::byte* line = target + atom * atom_stride;
        hwy::Prefetch(line + next_line);
        To::StoreAtoms(d, first, channel, line);
        To::StoreAtoms(d, second, channel, line + vector_bytes);
        if constexpr (Rows::rows == 1) {
            To::StoreAtoms(d, Rows(conversion + 2), channel, line + 2 * vector_bytes);
            To::StoreAtoms(d, Rows(conversion + 3), channel, line + 3 * vector_bytes);
        }
    }
}

// Rows that begin on a cache line, in strips of atoms: the pages of a strip are few enough to be remembered until all
// rows have been there.
template <class To>
HWY_INLINE void TileStrips(const RowConversion* conversion, std::uint32_t rows, std::uint32_t k, std::uint32_t atoms,
                           std::size_t atom_stride, std::byte* target) {
    const std::uint32_t whole_atoms = k / To::channels_per_atom;
    for (std::uint32_t atom = 0; atom < whole_atoms; atom += strip_atoms) {
        const std::uint32_t end = std::min(atom + strip_atoms, whole_atoms);
        for (std::uint32_t row = 0; row < rows; row += rows_per_line) {
            TileLines<To>(conversion + row, atom, end, atom_stride, target + std::size_t{row} * rockchip::atom_bytes);
        }
    }
    // What remains of K, and the padding.
    const std::uint32_t done = whole_atoms * To::channels_per_atom;
    for (std::uint32_t row = 0; row < rows; ++row) {
        const RowConversion rest{conversion[row].data + done, conversion[row].factor, conversion[row].mask};
        TileRow<To>(rest, k - done, atoms - whole_atoms, atom_stride,
                    target + whole_atoms * atom_stride + std::size_t{row} * rockchip::atom_bytes);
    }
}

template <class To>
HWY_INLINE void Tile(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
                     std::byte* device, float* scales) {
    const std::uint32_t atoms = layout.channels / To::channels_per_atom;
    const std::size_t atom_stride = std::size_t{layout.rows} * rockchip::atom_bytes;
    std::uint32_t row = 0;
    while (row < x.rows) {
        // One by one up to a row whose atoms begin cache lines, and after the last four that fill them.
        const bool aligned = (first + row) % rows_per_line == 0 && row + rows_per_line <= x.rows;
        const std::uint32_t rows =
            aligned ? std::min(rows_together, (x.rows - row) / rows_per_line * rows_per_line) : 1;
        RowConversion conversion[rows_together];
        for (std::uint32_t i = 0; i < rows; ++i) {
            const float* data = x.data + (row + i) * x.stride;
            conversion[i] = To::Prepare(data, LargestMagnitude(data, k), scales[row + i]);
        }
        std::byte* target = device + layout.offset(first + row, 0);
        if (aligned) {
            TileStrips<To>(conversion, rows, k, atoms, atom_stride, target);
        } else {
            TileRow<To>(conversion[0], k, atoms, atom_stride, target);
        }
        row += rows;
    }
}

void TileInt8(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k, std::byte* device,
              float* scales) {
    Tile<ToInt8>(layout, x, first, k, device, scales);
}

void TileHalf(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k, std::byte* device,
              float* factors) {
    Tile<ToHalf>(layout, x, first, k, device, factors);
}

#else

constexpr auto& TileInt8 = portable::quantise_and_tile;
constexpr auto& TileHalf = portable::tile_half;

#endif

const char* InstructionSet() { return hwy::TargetName(HWY_TARGET); }

}  // namespace npu::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npu::gemm {

HWY_EXPORT(TileInt8);
HWY_EXPORT(TileHalf);
HWY_EXPORT(InstructionSet);

void quantise_and_tile(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
                       std::byte* device, float* scales) {
    assert(layout.precision == compile::Precision::int8 && first + x.rows <= layout.rows && k <= layout.channels);
    if (layout.arrangement != compile::Arrangement::native) {
        return portable::quantise_and_tile(layout, x, first, k, device, scales);
    }
    HWY_DYNAMIC_DISPATCH(TileInt8)(layout, x, first, k, device, scales);
}

void tile_half(const compile::FeatureLayout& layout, RowsView x, std::uint32_t first, std::uint32_t k,
               std::byte* device, float* factors) {
    assert(layout.precision == compile::Precision::fp16 && first + x.rows <= layout.rows && k <= layout.channels);
    if (layout.arrangement != compile::Arrangement::native) {
        return portable::tile_half(layout, x, first, k, device, factors);
    }
    HWY_DYNAMIC_DISPATCH(TileHalf)(layout, x, first, k, device, factors);
}

const char* kernel_instruction_set() { return HWY_DYNAMIC_DISPATCH(InstructionSet)(); }

}  // namespace npu::gemm
#endif
