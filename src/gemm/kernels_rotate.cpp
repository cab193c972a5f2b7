// Rotation by a block-Hadamard matrix: the Highway version of rotate. Additions are those of the portable version in the same
// order for every value, so the bits are the same; what differs is how often a block goes through the registers. Stages
// whose partners lie in one vector, and in eight neighbouring ones, are done in one pass, then two stages in each.
#include <cassert>
#include <cmath>

#include "gemm/hadamard.h"
#include "gemm/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/kernels_rotate.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first, then:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace npu::gemm::HWY_NAMESPACE {

#if NPU_HAVE_VECTORS

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 8>;
using V = hn::VFromD<D>;
constexpr D d;

// Partners in one vector: neighbours, then pairs of them, then quarters.
HWY_INLINE V WithinVector(V v) {
    const hn::RepartitionToWide<D> pairs;
    const V by_one = hn::Shuffle2301(v);
    v = hn::OddEven(hn::Sub(by_one, v), hn::Add(v, by_one));
    const V by_two = hn::Shuffle1032(v);
    v = hn::BitCast(d, hn::OddEven(hn::BitCast(pairs, hn::Sub(by_two, v)), hn::BitCast(pairs, hn::Add(v, by_two))));
#if HWY_MAX_BYTES >= 32
    const V by_four = hn::ConcatLowerUpper(d, v, v);
    v = hn::ConcatUpperLower(d, hn::Sub(by_four, v), hn::Add(v, by_four));
#endif
    return v;
}

HWY_INLINE void Pair(V& a, V& b) {
    const V sum = hn::Add(a, b);
    b = hn::Sub(a, b);
    a = sum;
}

// Stages within one vector and within eight of them, in one pass.
HWY_INLINE void EightVectors(float* at) {
    const std::size_t lanes = hn::Lanes(d);
    V v0 = WithinVector(hn::LoadU(d, at));
    V v1 = WithinVector(hn::LoadU(d, at + lanes));
    V v2 = WithinVector(hn::LoadU(d, at + 2 * lanes));
    V v3 = WithinVector(hn::LoadU(d, at + 3 * lanes));
    V v4 = WithinVector(hn::LoadU(d, at + 4 * lanes));
    V v5 = WithinVector(hn::LoadU(d, at + 5 * lanes));
    V v6 = WithinVector(hn::LoadU(d, at + 6 * lanes));
    V v7 = WithinVector(hn::LoadU(d, at + 7 * lanes));
    Pair(v0, v1), Pair(v2, v3), Pair(v4, v5), Pair(v6, v7);
    Pair(v0, v2), Pair(v1, v3), Pair(v4, v6), Pair(v5, v7);
    Pair(v0, v4), Pair(v1, v5), Pair(v2, v6), Pair(v3, v7);
    hn::StoreU(v0, d, at);
    hn::StoreU(v1, d, at + lanes);
    hn::StoreU(v2, d, at + 2 * lanes);
    hn::StoreU(v3, d, at + 3 * lanes);
    hn::StoreU(v4, d, at + 4 * lanes);
    hn::StoreU(v5, d, at + 5 * lanes);
    hn::StoreU(v6, d, at + 6 * lanes);
    hn::StoreU(v7, d, at + 7 * lanes);
}

// The stages of partners `half` and 2 * half values apart.
HWY_INLINE void TwoStages(float* block, std::size_t count, std::size_t half) {
    for (std::size_t i = 0; i < count; i += 4 * half) {
        for (float* at = block + i; at != block + i + half; at += hn::Lanes(d)) {
            V v0 = hn::LoadU(d, at);
            V v1 = hn::LoadU(d, at + half);
            V v2 = hn::LoadU(d, at + 2 * half);
            V v3 = hn::LoadU(d, at + 3 * half);
            Pair(v0, v1), Pair(v2, v3);
            Pair(v0, v2), Pair(v1, v3);
            hn::StoreU(v0, d, at);
            hn::StoreU(v1, d, at + half);
            hn::StoreU(v2, d, at + 2 * half);
            hn::StoreU(v3, d, at + 3 * half);
        }
    }
}

// The stage of partners `half` values apart.
HWY_INLINE void OneStage(float* block, std::size_t count, std::size_t half) {
    for (std::size_t i = 0; i < count; i += 2 * half) {
        for (float* at = block + i; at != block + i + half; at += hn::Lanes(d)) {
            V v0 = hn::LoadU(d, at);
            V v1 = hn::LoadU(d, at + half);
            Pair(v0, v1);
            hn::StoreU(v0, d, at);
            hn::StoreU(v1, d, at + half);
        }
    }
}

void Rotate(float* row, std::size_t count, std::uint32_t block) {
    const std::size_t lanes = hn::Lanes(d);
    if (block < lanes) {
        return portable::rotate(row, count, block);
    }
    std::size_t half = lanes;
    if (block >= 8 * lanes) {
        half = 8 * lanes;
        for (float* at = row; at != row + count; at += half) {
            EightVectors(at);
        }
    } else {
        for (float* at = row; at != row + count; at += lanes) {
            hn::StoreU(WithinVector(hn::LoadU(d, at)), d, at);
        }
    }
    const V scale = hn::Set(d, 1.0F / std::sqrt(static_cast<float>(block)));
    for (float* start = row; start != row + count; start += block) {  // a block stays in the first-level cache
        std::size_t at_half = half;
        for (; 4 * at_half <= block; at_half *= 4) {
            TwoStages(start, block, at_half);
        }
        if (2 * at_half <= block) {
            OneStage(start, block, at_half);
        }
        for (float* at = start; at != start + block; at += lanes) {
            hn::StoreU(hn::Mul(hn::LoadU(d, at), scale), d, at);
        }
    }
}

#else

constexpr auto& Rotate = portable::rotate;

#endif

}  // namespace npu::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace npu::gemm {

HWY_EXPORT(Rotate);

void rotate(float* row, std::size_t count, std::uint32_t block) {
    assert(block != 0 && (block & (block - 1)) == 0 && count % block == 0);
    if (block != 1) {
        HWY_DYNAMIC_DISPATCH(Rotate)(row, count, block);
    }
}

}  // namespace npu::gemm
#endif
