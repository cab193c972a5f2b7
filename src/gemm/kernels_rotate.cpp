// Rotation by a block-Hadamard matrix: the Highway version of rotate. Additions are those of the portable version in the same
// order for every value, so the bits are the same; what differs is how often a block goes through the registers. Stages
// whose partners lie in one vector, and in eight neighbouring ones, are done in one pass, then three stages in each.
#include <algorithm>
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

// The stages among eight, four or two vectors.
HWY_INLINE void Stages(V& v0, V& v1) { Pair(v0, v1); }

HWY_INLINE void Stages(V& v0, V& v1, V& v2, V& v3) {
    Stages(v0, v1), Stages(v2, v3);
    Pair(v0, v2), Pair(v1, v3);
}

HWY_INLINE void Stages(V& v0, V& v1, V& v2, V& v3, V& v4, V& v5, V& v6, V& v7) {
    Stages(v0, v1, v2, v3), Stages(v4, v5, v6, v7);
    Pair(v0, v4), Pair(v1, v5), Pair(v2, v6), Pair(v3, v7);
}

// Eight vectors `apart` values from each other, through `before` on the way in and times `scale` on the way out.
template <typename Before>
HWY_INLINE void Eight(float* at, std::size_t apart, V scale, Before before) {
    V v0 = before(hn::LoadU(d, at));
    V v1 = before(hn::LoadU(d, at + apart));
    V v2 = before(hn::LoadU(d, at + 2 * apart));
    V v3 = before(hn::LoadU(d, at + 3 * apart));
    V v4 = before(hn::LoadU(d, at + 4 * apart));
    V v5 = before(hn::LoadU(d, at + 5 * apart));
    V v6 = before(hn::LoadU(d, at + 6 * apart));
    V v7 = before(hn::LoadU(d, at + 7 * apart));
    Stages(v0, v1, v2, v3, v4, v5, v6, v7);
    hn::StoreU(hn::Mul(v0, scale), d, at);
    hn::StoreU(hn::Mul(v1, scale), d, at + apart);
    hn::StoreU(hn::Mul(v2, scale), d, at + 2 * apart);
    hn::StoreU(hn::Mul(v3, scale), d, at + 3 * apart);
    hn::StoreU(hn::Mul(v4, scale), d, at + 4 * apart);
    hn::StoreU(hn::Mul(v5, scale), d, at + 5 * apart);
    hn::StoreU(hn::Mul(v6, scale), d, at + 6 * apart);
    hn::StoreU(hn::Mul(v7, scale), d, at + 7 * apart);
}

HWY_INLINE void Four(float* at, std::size_t apart, V scale) {
    V v0 = hn::LoadU(d, at);
    V v1 = hn::LoadU(d, at + apart);
    V v2 = hn::LoadU(d, at + 2 * apart);
    V v3 = hn::LoadU(d, at + 3 * apart);
    Stages(v0, v1, v2, v3);
    hn::StoreU(hn::Mul(v0, scale), d, at);
    hn::StoreU(hn::Mul(v1, scale), d, at + apart);
    hn::StoreU(hn::Mul(v2, scale), d, at + 2 * apart);
    hn::StoreU(hn::Mul(v3, scale), d, at + 3 * apart);
}

HWY_INLINE void Two(float* at, std::size_t apart, V scale) {
    V v0 = hn::LoadU(d, at);
    V v1 = hn::LoadU(d, at + apart);
    Stages(v0, v1);
    hn::StoreU(hn::Mul(v0, scale), d, at);
    hn::StoreU(hn::Mul(v1, scale), d, at + apart);
}

// One pass over a block: the stages of partners `half` values apart and, as far as the block goes, of the next two.
HWY_INLINE std::size_t Pass(float* block, std::size_t count, std::size_t half, V scale) {
    const std::size_t lanes = hn::Lanes(d);
    const V one = hn::Set(d, 1.0F);
    const std::size_t reach = half * std::min<std::size_t>(count / half, 8);
    const V factor = reach == count ? scale : one;
    for (std::size_t i = 0; i < count; i += reach) {
        for (float* at = block + i; at != block + i + half; at += lanes) {
            switch (reach / half) {
                case 8: Eight(at, half, factor, [](V v) HWY_ATTR { return v; }); break;
                case 4: Four(at, half, factor); break;
                default: Two(at, half, factor); break;
            }
        }
    }
    return reach;
}

void Rotate(float* row, std::size_t count, std::uint32_t block) {
    const std::size_t lanes = hn::Lanes(d);
    if (block < lanes) {
        return portable::rotate(row, count, block);
    }
    const V scale = hn::Set(d, 1.0F / std::sqrt(static_cast<float>(block)));
    const V one = hn::Set(d, 1.0F);
    for (float* start = row; start != row + count; start += block) {  // a block stays in the first-level cache
        std::size_t done = lanes;
        if (block >= 8 * lanes) {
            done = 8 * lanes;
            for (float* at = start; at != start + block; at += done) {
                Eight(at, lanes, done == block ? scale : one, [](V v) HWY_ATTR { return WithinVector(v); });
            }
        } else {
            for (float* at = start; at != start + block; at += lanes) {
                hn::StoreU(hn::Mul(WithinVector(hn::LoadU(d, at)), done == block ? scale : one), d, at);
            }
        }
        while (done < block) {
            done = Pass(start, block, done, scale);
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
