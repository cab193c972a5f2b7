// Rows to whole numbers: the Highway versions of kernels_rows.h.
//
// Both kinds of rows go through the same two passes; they differ in how a vector of floats comes about. 32 values are
// converted together: each vector's numbers end in the low bytes of its lanes, and four or eight vectors' bytes are merged.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "gemm/highway_targets.h"
#include "gemm/kernels_rows.h"
#include "gemm/quantise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/kernels_rows.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first, then:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npu::gemm::HWY_NAMESPACE {

#if NPU_HAVE_VECTORS

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 8>;
using Bits = hn::RebindToUnsigned<Floats>;
using Bytes = hn::Repartition<std::uint8_t, Floats>;
using VecFloats = hn::VFromD<Floats>;

constexpr std::size_t lanes = hn::MaxLanes(Floats());
constexpr std::size_t values_together = 32;
constexpr std::size_t vectors_per_scale = numbers_per_scale / lanes;

// A vector of floats at each of the 32 values from `at` on.
struct FloatRow {
    const float* row;

    HWY_INLINE void Load(std::size_t at, VecFloats (&values)[values_together / lanes]) const {
        for (std::size_t i = 0; i < values_together / lanes; ++i) {
            values[i] = hn::LoadU(Floats(), row + at + i * lanes);
        }
    }
    [[nodiscard]] float Value(std::size_t i) const { return row[i]; }
};

struct NumberRow {
    BlockRow row;

    HWY_INLINE void Load(std::size_t at, VecFloats (&values)[values_together / lanes]) const {
        const Floats d;
        const hn::Rebind<std::int8_t, Floats> d8;
        const hn::RebindToSigned<Floats> d32;
        for (std::size_t block = 0; block < values_together / numbers_per_scale; ++block) {
            const auto scale = hn::Set(d, row.scales[at / numbers_per_scale + block]);
            const auto offset = hn::Set(d, row.offsets[at / numbers_per_scale + block]);
            for (std::size_t i = block * vectors_per_scale; i < (block + 1) * vectors_per_scale; ++i) {
                const auto numbers = hn::PromoteTo(d32, hn::LoadU(d8, row.numbers + at + i * lanes));
                values[i] = hn::MulAdd(scale, hn::ConvertTo(d, numbers), offset);
            }
        }
    }
    [[nodiscard]] float Value(std::size_t i) const { return row.value(i); }
};

// Floats of at most 127 in magnitude to bytes, ties to even: adding 1.5 * 2^23 leaves the whole number in the low byte.
HWY_INLINE void StoreRounded(const VecFloats (&values)[values_together / lanes], std::int8_t* to) {
    // The low byte of each lane of a vector, at the place in its block of 16 that the vector's number says.
    alignas(16) static constexpr std::uint8_t low_bytes[4][16] = {
        {0, 4, 8, 12, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
        {128, 128, 128, 128, 0, 4, 8, 12, 128, 128, 128, 128, 128, 128, 128, 128},
        {128, 128, 128, 128, 128, 128, 128, 128, 0, 4, 8, 12, 128, 128, 128, 128},
        {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0, 4, 8, 12}};
    const Bytes d8;
    const auto round = hn::Set(Floats(), 12582912.0F);
    const auto piece = [&](std::size_t vector, std::size_t index) HWY_ATTR {
        const auto rounded = hn::BitCast(d8, hn::Add(values[vector], round));
        return hn::TableLookupBytesOr0(rounded, hn::LoadDup128(d8, low_bytes[index]));
    };
    auto* bytes = reinterpret_cast<std::uint8_t*>(to);
    for (std::size_t i = 0; i < values_together / lanes; i += 4, bytes += 4 * lanes) {
        const auto merged = hn::Or(hn::Or(piece(i, 0), piece(i + 1, 1)), hn::Or(piece(i + 2, 2), piece(i + 3, 3)));
        if constexpr (lanes == 8) {
            // A lane of four bytes came from each half of each vector: back into their order.
            alignas(32) static constexpr std::int32_t order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
            const Bits d32;
            const auto sorted = hn::TableLookupLanes(hn::BitCast(d32, merged), hn::SetTableIndices(d32, order));
            hn::StoreU(hn::BitCast(d8, sorted), d8, bytes);
        } else {
            hn::StoreU(merged, d8, bytes);
        }
    }
}

template <class Row>
HWY_INLINE float LargestMagnitude(const Row& row, std::size_t count) {
    const Bits d;
    const auto magnitude = hn::Set(d, 0x7fffffffU);
    auto largest0 = hn::Zero(d);
    auto largest1 = hn::Zero(d);
    std::size_t at = 0;
    for (; at + values_together <= count; at += values_together) {
        VecFloats values[values_together / lanes];
        row.Load(at, values);
        for (std::size_t i = 0; i < values_together / lanes; i += 2) {
            largest0 = hn::Max(largest0, hn::And(magnitude, hn::BitCast(d, values[i])));
            largest1 = hn::Max(largest1, hn::And(magnitude, hn::BitCast(d, values[i + 1])));
        }
    }
    std::uint32_t largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(largest0, largest1)));
    for (; at < count; ++at) {
        largest = std::max(largest, std::bit_cast<std::uint32_t>(row.Value(at)) & 0x7fffffffU);
    }
    return std::bit_cast<float>(largest);
}

template <class Row>
HWY_INLINE float Quantise(int bound, const Row& row, std::size_t count, std::int8_t* values) {
    const Scaling scaling = scaling_to(bound, LargestMagnitude(row, count));
    if (scaling.inverse == 0.0F) {
        std::memset(values, 0, count);
        return scaling.scale;
    }
    const auto inverse = hn::Set(Floats(), scaling.inverse);
    std::size_t at = 0;
    for (; at + values_together <= count; at += values_together) {
        VecFloats some[values_together / lanes];
        row.Load(at, some);
        for (VecFloats& vector : some) {
            vector = hn::Mul(vector, inverse);
        }
        StoreRounded(some, values + at);
    }
    float rest[values_together];
    for (std::size_t i = 0; i < count - at; ++i) {
        rest[i] = row.Value(at + i);
    }
    round_to_bound(bound, rest, count - at, scaling.inverse, values + at);
    return scaling.scale;
}

float QuantiseFloats(int bound, const float* row, std::size_t count, std::int8_t* values) {
    return Quantise(bound, FloatRow{row}, count, values);
}

float QuantiseBlocks(int bound, BlockRow row, std::size_t count, std::int8_t* values) {
    return Quantise(bound, NumberRow{row}, count, values);
}

void PackNibbles(const std::int8_t* values, std::size_t count, std::byte* packed) {
    const hn::CappedTag<std::uint16_t, 16> d;
    const hn::Repartition<std::uint8_t, decltype(d)> d8;
    const hn::Rebind<std::uint8_t, decltype(d)> narrow;
    constexpr std::size_t together = 2 * hn::MaxLanes(hn::CappedTag<std::uint16_t, 16>());
    std::size_t at = 0;
    for (; at + together <= count; at += together) {
        // The odd one of a pair is the upper byte of 16 bits: 4 bits down, and its nibble stands above the even one's.
        const auto pairs = hn::BitCast(d, hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(values + at)));
        const auto even = hn::And(pairs, hn::Set(d, std::uint16_t{0x0f}));
        const auto odd = hn::And(hn::ShiftRight<4>(pairs), hn::Set(d, std::uint16_t{0xf0}));
        // 255 at most, so that it does not matter that the conversion takes them for signed.
        const hn::RebindToSigned<decltype(d)> signed16;
        hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(signed16, hn::Or(even, odd))), narrow,
                   reinterpret_cast<std::uint8_t*>(packed + at / 2));
    }
    portable::pack_nibbles(values + at, count - at, packed + at / 2);
}

bool FoldToNibbles(std::int8_t* values, std::size_t count) {
    const hn::CappedTag<std::int8_t, 32> d;
    const std::size_t together = hn::Lanes(d);
    const std::size_t whole = count / together * together;
    const auto lowest = hn::Set(d, std::int8_t{-8});
    const auto highest = hn::Set(d, std::int8_t{8});
    std::size_t low = 0;
    std::size_t high = 0;
    for (std::size_t at = 0; at < whole; at += together) {
        const auto some = hn::LoadU(d, values + at);
        low += hn::CountTrue(d, hn::Eq(some, lowest));
        high += hn::CountTrue(d, hn::Eq(some, highest));
    }
    low += static_cast<std::size_t>(std::count(values + whole, values + count, std::int8_t{-8}));
    high += static_cast<std::size_t>(std::count(values + whole, values + count, std::int8_t{8}));
    const bool turned = high > low;
    const auto largest = hn::Set(d, std::int8_t{7});
    for (std::size_t at = 0; at < whole; at += together) {
        const auto some = hn::LoadU(d, values + at);
        hn::StoreU(hn::Min(turned ? hn::Neg(some) : some, largest), d, values + at);
    }
    for (std::size_t i = whole; i < count; ++i) {
        values[i] = static_cast<std::int8_t>(std::min(turned ? -values[i] : values[i], 7));
    }
    return turned;
}

#else

float QuantiseFloats(int bound, const float* row, std::size_t count, std::int8_t* values) {
    return portable::quantise_values(bound, row, count, values);
}

float QuantiseBlocks(int bound, BlockRow row, std::size_t count, std::int8_t* values) {
    return portable::quantise_values(bound, row, count, values);
}

constexpr auto& PackNibbles = portable::pack_nibbles;
constexpr auto& FoldToNibbles = portable::fold_to_nibbles;

#endif

}  // namespace npu::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npu::gemm {

HWY_EXPORT(QuantiseFloats);
HWY_EXPORT(QuantiseBlocks);
HWY_EXPORT(PackNibbles);
HWY_EXPORT(FoldToNibbles);

float quantise_values(int bound, const float* row, std::size_t count, std::int8_t* values) {
    return HWY_DYNAMIC_DISPATCH(QuantiseFloats)(bound, row, count, values);
}

float quantise_values(int bound, BlockRow row, std::size_t count, std::int8_t* values) {
    return HWY_DYNAMIC_DISPATCH(QuantiseBlocks)(bound, row, count, values);
}

void pack_nibbles(const std::int8_t* values, std::size_t count, std::byte* packed) {
    HWY_DYNAMIC_DISPATCH(PackNibbles)(values, count, packed);
}

bool fold_to_nibbles(std::int8_t* values, std::size_t count) {
    return HWY_DYNAMIC_DISPATCH(FoldToNibbles)(values, count);
}

namespace portable {

bool fold_to_nibbles(std::int8_t* values, std::size_t count) {
    const bool turned =
        std::count(values, values + count, std::int8_t{8}) > std::count(values, values + count, std::int8_t{-8});
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = static_cast<std::int8_t>(std::min(turned ? -values[i] : values[i], 7));
    }
    return turned;
}

float quantise_values(int bound, const float* row, std::size_t count, std::int8_t* values) {
    const Scaling scaling = scaling_to(bound, largest_magnitude(row, count));
    if (scaling.inverse == 0.0F) {
        std::memset(values, 0, count);
    } else {
        round_to_bound(bound, row, count, scaling.inverse, values);
    }
    return scaling.scale;
}

float quantise_values(int bound, BlockRow row, std::size_t count, std::int8_t* values) {
    std::vector<float> floats(count);
    for (std::size_t i = 0; i < count; ++i) {
        floats[i] = row.value(i);
    }
    return quantise_values(bound, floats.data(), count, values);
}

void pack_nibbles(const std::int8_t* values, std::size_t count, std::byte* packed) {
    for (std::size_t i = 0; i < count / 2; ++i) {
        packed[i] = static_cast<std::byte>((values[2 * i] & 0xf) | (values[2 * i + 1] & 0xf) << 4);
    }
    if (count % 2 != 0) {
        packed[count / 2] = static_cast<std::byte>(values[count - 1] & 0xf);
    }
}

}  // namespace portable

}  // namespace npu::gemm
#endif
