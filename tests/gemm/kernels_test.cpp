// Every instruction set's kernels against the portable ones, and those against references written here.
#include "gemm/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/float_bits.h"
#include "base/integers.h"
#include "base/result.h"
#include "gemm/every_instruction_set.h"
#include "gemm/kernels_dotprod.h"
#include "gemm/quantise.h"

namespace npu::gemm {
namespace {

using compile::Arrangement;
using compile::Precision;

TEST(Kernels, TheTestsReachEachInstructionSetOnceAndTheBestByDefault) {
    const std::string best = kernel_instruction_set();
    std::vector<std::string> seen;
    with_every_instruction_set([&] { seen.emplace_back(kernel_instruction_set()); });
    EXPECT_NE(std::ranges::find(seen, best), seen.end());
    EXPECT_EQ(kernel_instruction_set(), best);
    std::ranges::sort(seen);
    EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
    RecordProperty("instruction_sets", std::accumulate(seen.begin(), seen.end(), std::string()));
}

std::uint32_t below(std::mt19937& random, std::uint32_t bound) { return random() % bound; }

float random_float(std::mt19937& random, int kind) {
    std::normal_distribution<float> normal(0.0F, 1.0F);
    switch (kind) {
        case 0: return normal(random);
        case 1: return std::ldexp(normal(random), static_cast<int>(below(random, 280)) - 150);
        case 2: return static_cast<float>(below(random, 511)) * 0.5F - 127.5F;  // ties, once 127 is the largest
        case 3: return std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        default: return 0.0F;
    }
}

// Rows of every kind: ordinary, over all exponents, full of ties, any bits (infinities and NaN among them), zero, denormal
// only, and full of values that lie so near to ties that it shows how often a product was rounded.
std::vector<float> random_rows(std::mt19937& random, std::uint32_t rows, std::uint32_t k, std::size_t stride) {
    std::vector<float> x(rows * stride, std::numeric_limits<float>::quiet_NaN());
    for (std::uint32_t row = 0; row < rows; ++row) {
        const auto kind = static_cast<int>(below(random, 7));
        const float factor = std::ldexp(1.0F, static_cast<int>(below(random, 40)) - 20);
        const float largest = 1.0F + static_cast<float>(below(random, 1U << 23)) * 0x1p-23F;
        for (std::uint32_t i = 0; i < k; ++i) {
            const float value = random_float(random, kind);
            const double tie = static_cast<double>(below(random, 254)) - 126.5;
            x[row * stride + i] = kind == 0   ? value * factor
                                  : kind == 5 ? std::bit_cast<float>(below(random, 0x800000))
                                  : kind == 6 ? static_cast<float>(tie / 127 * largest)
                                              : value;
        }
        if (kind == 2 || kind == 6) {
            x[row * stride + below(random, k)] = kind == 2 ? 127.0F : largest;
        }
    }
    return x;
}

// Equal bits, or both NaN.
testing::AssertionResult same_floats(const std::vector<float>& got, const std::vector<float>& wanted) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const bool both_nan = std::isnan(got[i]) && std::isnan(wanted[i]);
        if (!both_nan && std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(wanted[i])) {
            return testing::AssertionFailure() << "value " << i << " is " << got[i] << ", not " << wanted[i];
        }
    }
    return testing::AssertionSuccess();
}

using Tile = void (*)(const compile::FeatureLayout&, RowsView, std::uint32_t, std::uint32_t, std::byte*, float*);

void check_tiling(Precision precision, Tile tile, Tile specification) {
    std::mt19937 random(1);
    for (int round = 0; round < 60; ++round) {
        const std::uint32_t k = 1 + below(random, round < 30 ? 70 : 700);
        const std::uint32_t count = 1 + below(random, 40);
        const std::uint32_t first = below(random, 9);
        const std::size_t stride = k + below(random, 5);
        const compile::FeatureLayout layout{precision, round % 7 == 0 ? Arrangement::row_major : Arrangement::native,
                                            first + count + below(random, 9),
                                            compile::padded_channels(precision, k) + 32 * below(random, 2)};
        const std::vector<float> x = random_rows(random, count, k, stride);
        SCOPED_TRACE(format("round %d: rows %u..%u of %u, K=%u", round, first, first + count, layout.rows, k));
        const std::vector<std::byte> untouched(layout.bytes() + 64, std::byte{0xa5});
        auto wanted = untouched;
        std::vector<float> wanted_scales(count);
        specification(layout, {x.data(), stride, count}, first, k, wanted.data(), wanted_scales.data());
        ASSERT_NE(wanted, untouched);
        with_every_instruction_set([&] {
            auto got = untouched;
            std::vector<float> scales(count);
            tile(layout, {x.data(), stride, count}, first, k, got.data(), scales.data());
            ASSERT_TRUE(same_floats(scales, wanted_scales));
            ASSERT_EQ(got, wanted);
        });
    }
}

TEST(Kernels, QuantisingIntoTilesWritesTheBytesOfTheSpecification) {
    check_tiling(Precision::int8, quantise_and_tile, portable::quantise_and_tile);
}

TEST(Kernels, TilingHalvesWritesTheBytesOfTheSpecification) {
    check_tiling(Precision::fp16, tile_half, portable::tile_half);
}

TEST(Kernels, EveryExponentBecomesTheHalfOfFloatBits) {
    // All bit patterns of 16 bits above, and below them the patterns around each tie. One row per pattern of the low
    // half, so that all rows are "ordinary" or not together: NaN keeps the factor at 1.
    const compile::FeatureLayout layout{Precision::fp16, Arrangement::native, 6, 65536};
    const std::uint32_t low[6] = {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0xffff};
    std::vector<float> x;
    for (const std::uint32_t bits : low) {
        for (std::uint32_t high = 0; high < 65536; ++high) {
            x.push_back(std::bit_cast<float>(high << 16 | bits));
        }
    }
    with_every_instruction_set([&] {
        std::vector<std::byte> tiles(layout.bytes());
        std::vector<float> factors(6);
        tile_half(layout, {x.data(), 65536, 6}, 0, 65536, tiles.data(), factors.data());
        for (std::uint32_t row = 0; row < 6; ++row) {
            ASSERT_EQ(factors[row], 1.0F);
            for (std::uint32_t channel = 0; channel < 65536; ++channel) {
                std::uint16_t half = 0;
                std::memcpy(&half, tiles.data() + layout.offset(row, channel), 2);
                ASSERT_EQ(half, float_to_half(x[row * 65536 + channel])) << x[row * 65536 + channel];
            }
        }
    });
}

struct Results {
    compile::OutputLayout layout;
    std::vector<std::vector<std::byte>> tiles;
    std::vector<const std::byte*> starts;
    std::vector<float> row_scales;
    std::vector<float> kernel_scales;
};

Results random_results(std::mt19937& random, const compile::OutputLayout& layout, std::size_t tiles, std::uint32_t k) {
    Results results{layout, {}, {}, {}, {}};
    // What K channels of the largest operands can sum to in one tile.
    const auto bound = static_cast<std::int32_t>(std::min<std::uint64_t>(k / tiles * 16384ULL, 0x7fffffffU));
    std::uniform_int_distribution<std::int32_t> sum(-bound, bound);
    for (std::size_t tile = 0; tile < tiles; ++tile) {
        std::vector<std::byte> bytes(layout.bytes());
        for (std::size_t at = 0; at < bytes.size(); at += compile::packed_bytes(layout.precision, 1)) {
            if (layout.precision == Precision::fp16) {
                const auto any = static_cast<std::uint16_t>(random());
                std::memcpy(bytes.data() + at, &any, 2);
            } else {
                const std::int32_t extreme = below(random, 2) == 0 ? bound : -bound;
                std::int32_t value = below(random, 8) == 0 ? extreme : sum(random);
                if (layout.precision == Precision::fp32) {
                    value = std::bit_cast<std::int32_t>(random_float(random, static_cast<int>(below(random, 5))));
                }
                std::memcpy(bytes.data() + at, &value, 4);
            }
        }
        results.tiles.push_back(std::move(bytes));
    }
    for (const auto& tile : results.tiles) {
        results.starts.push_back(tile.data());
    }
    for (std::uint32_t row = 0; row < layout.rows; ++row) {
        results.row_scales.push_back(random_float(random, row % 7 == 3 ? 3 : 0));
    }
    for (std::uint32_t channel = 0; channel < layout.channels; ++channel) {
        results.kernel_scales.push_back(random_float(random, 0));
    }
    return results;
}

class Untiling : public testing::TestWithParam<Precision> {};

TEST_P(Untiling, GivesTheFloatsOfTheSpecificationAndTouchesNoOthers) {
    std::mt19937 random(2);
    for (int round = 0; round < 60; ++round) {
        const std::uint32_t n = 1 + below(random, round < 30 ? 40 : 400);
        const std::uint32_t count = 1 + below(random, 40);
        const std::uint32_t first = below(random, 5);
        const std::size_t tiles = 1 + below(random, 4);
        // With the last of these, sums of several tiles need 64 bits.
        const std::uint32_t k = round % 3 == 0 ? most_channels_in_int32 : round % 3 == 1 ? 4096 : 4 * 131071;
        const compile::OutputLayout layout{GetParam(), round % 7 == 0 ? Arrangement::row_major : Arrangement::native,
                                           first + count + below(random, 5), align_up(n, 32U)};
        const Results results = random_results(random, layout, tiles, k);
        const std::size_t stride = n + below(random, 4);
        SCOPED_TRACE(format("round %d: rows %u..%u of %u, N=%u, K=%u, %zu tiles", round, first, first + count,
                            layout.rows, n, k, tiles));
        const std::vector<float> untouched(layout.rows * stride, -7.0F);
        auto wanted = untouched;
        portable::scale_and_untile({layout, results.starts, k}, first, count, n, results.row_scales.data(),
                                   results.kernel_scales.data(), {wanted.data(), stride});
        ASSERT_FALSE(same_floats(wanted, untouched));
        with_every_instruction_set([&] {
            auto got = untouched;
            scale_and_untile({layout, results.starts, k}, first, count, n, results.row_scales.data(),
                             results.kernel_scales.data(), {got.data(), stride});
            ASSERT_TRUE(same_floats(got, wanted));
        });
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, Untiling, testing::Values(Precision::int32, Precision::fp32, Precision::fp16),
                         [](const auto& info) { return rockchip::info(info.param).name; });

TEST(Kernels, SumsOfTilesAreExactWhereFloatSumsAreNot) {
    // 2^24 + 1 - 2^24 is 1; added in float it is 0.
    const compile::OutputLayout layout{Precision::int32, Arrangement::native, 2, 32};
    std::vector<std::int32_t> tiles[3];
    const std::int32_t values[3] = {1 << 24, 1, -(1 << 24)};
    std::vector<const std::byte*> starts;
    for (int tile = 0; tile < 3; ++tile) {
        tiles[tile].assign(layout.bytes() / 4, values[tile]);
        starts.push_back(reinterpret_cast<const std::byte*>(tiles[tile].data()));
    }
    const std::vector<float> ones(32, 1.0F);
    with_every_instruction_set([&] {
        std::vector<float> y(64);
        scale_and_untile({layout, starts, 4096}, 0, 2, 32, ones.data(), ones.data(), {y.data(), 32});
        EXPECT_EQ(y, std::vector<float>(64, 1.0F));
        scale_and_untile({layout, std::span(starts).first(2), 4096}, 0, 2, 32, ones.data(), ones.data(),
                         {y.data(), 32});
        EXPECT_EQ(y, std::vector<float>(64, 16777216.0F));
    });
}

// Random weights of any value that the format holds, and their tiles.
struct Resident {
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    Precision precision = Precision::int8;
    std::vector<int> values;  // [n][k]
    std::vector<std::vector<std::byte>> bytes;
    std::vector<WeightTile> tiles;
    std::vector<float> scales;

    Resident(std::mt19937& random, Precision format, std::uint32_t kernels, std::uint32_t channels,
             std::uint32_t tile_channels)
        : n(kernels), k(channels), precision(format) {
        const int span = format == Precision::int8 ? 256 : 16;
        for (std::size_t i = 0; i < std::size_t{n} * k; ++i) {
            const int extreme = below(random, 8) == 0 ? -span / 2 : span / 2 - 1;
            values.push_back(below(random, 6) == 0
                                 ? extreme
                                 : static_cast<int>(below(random, static_cast<std::uint32_t>(span))) - span / 2);
        }
        for (std::uint32_t kernel = 0; kernel < n; ++kernel) {
            scales.push_back(random_float(random, 0));
        }
        for (std::uint32_t k0 = 0; k0 < k; k0 += tile_channels) {
            const std::uint32_t width = std::min(tile_channels, align_up(k - k0, 32U));
            bytes.push_back(write_tile(k0, width));
            tiles.push_back({nullptr, k0, width});
        }
        for (std::size_t i = 0; i < tiles.size(); ++i) {
            tiles[i].data = bytes[i].data();
        }
    }

    // In the order that the documents of the chip give, one nested loop per index.
    [[nodiscard]] std::vector<std::byte> write_tile(std::uint32_t k0, std::uint32_t width) const {
        const std::uint32_t group = precision == Precision::int8 ? 32 : 64;
        std::vector<int> stream;
        for (std::uint32_t g = 0; g < n; g += group) {
            for (std::uint32_t block = 0; block < width; block += 32) {
                for (std::uint32_t kernel = g; kernel < g + group; ++kernel) {
                    for (std::uint32_t channel = k0 + block; channel < k0 + block + 32; ++channel) {
                        stream.push_back(kernel < n && channel < k ? values[std::size_t{kernel} * k + channel] : 0);
                    }
                }
            }
        }
        std::vector<std::byte> written;
        if (precision == Precision::int8) {
            std::ranges::transform(stream, std::back_inserter(written),
                                   [](int value) { return static_cast<std::byte>(value); });
        } else {
            for (std::size_t i = 0; i < stream.size(); i += 2) {
                written.push_back(static_cast<std::byte>((stream[i] & 15) | (stream[i + 1] & 15) << 4));
            }
        }
        return written;
    }

    [[nodiscard]] WeightTiles view() const { return {precision, n, k, tiles, scales.data()}; }
};

class CpuMultiplication : public testing::TestWithParam<Precision> {};

TEST_P(CpuMultiplication, IsExactForOperandsOfFullRangeAtAnyShape) {
    std::mt19937 random(3);
    for (int round = 0; round < 40; ++round) {
        const std::uint32_t m = round < 8 ? static_cast<std::uint32_t>(round) + 1 : 1 + below(random, 11);
        const std::uint32_t n = 1 + below(random, 200);
        const std::uint32_t k = 1 + below(random, 700);
        const Resident resident(random, GetParam(), n, k, 32 * (1 + below(random, 9)));
        const std::size_t stride = k + below(random, 3);
        std::vector<std::int8_t> x(m * stride);
        std::ranges::generate(x, [&] { return static_cast<std::int8_t>(below(random, 6) == 0 ? -128 : random()); });
        std::vector<float> row_scales;
        for (std::uint32_t row = 0; row < m; ++row) {
            row_scales.push_back(random_float(random, 0));
        }
        SCOPED_TRACE(format("round %d: %u x %u x %u, %zu tiles", round, m, n, k, resident.tiles.size()));
        std::vector<float> wanted(std::size_t{m} * n);
        for (std::uint32_t row = 0; row < m; ++row) {
            for (std::uint32_t kernel = 0; kernel < n; ++kernel) {
                std::int64_t sum = 0;
                for (std::uint32_t i = 0; i < k; ++i) {
                    sum += std::int64_t{x[row * stride + i]} * resident.values[std::size_t{kernel} * k + i];
                }
                wanted[std::size_t{row} * n + kernel] =
                    static_cast<float>(sum) * row_scales[row] * resident.scales[kernel];
            }
        }
        const QuantisedRows rows{x.data(), stride, m, row_scales.data()};
        const std::uint32_t groups = ceil_div(n, kernels_per_group(resident.view()));
        std::vector<float> specified(wanted.size());
        portable::multiply_on_cpu(resident.view(), 0, groups, rows, {specified.data(), n});
        ASSERT_TRUE(same_floats(specified, wanted));
        with_every_instruction_set([&] {
            // In two shares, as two threads would.
            std::vector<float> got(wanted.size(), NAN);
            const std::uint32_t share = below(random, groups + 1);
            multiply_on_cpu(resident.view(), 0, share, rows, {got.data(), n});
            multiply_on_cpu(resident.view(), share, groups - share, rows, {got.data(), n});
            ASSERT_TRUE(same_floats(got, wanted));
        });
    }
}

TEST_P(CpuMultiplication, OneWeightThatDiffersShowsInItsKernelAndInNoOther) {
    std::mt19937 random(4);
    Resident resident(random, GetParam(), 70, 96, 64);
    const std::vector<std::int8_t> x(96, 3);
    const float row_scale = 1.0F;
    const auto multiply = [&] {
        std::vector<float> y(70);
        multiply_on_cpu(resident.view(), 0, ceil_div(70U, kernels_per_group(resident.view())),
                        {x.data(), 96, 1, &row_scale}, {y.data(), 70});
        return y;
    };
    with_every_instruction_set([&] {
        const std::vector<float> before = multiply();
        resident.bytes[1][5] ^= std::byte{1};  // a channel of kernel 0 in the second tile
        const std::vector<float> after = multiply();
        EXPECT_NE(after[0], before[0]);
        EXPECT_TRUE(std::equal(after.begin() + 1, after.end(), before.begin() + 1));
    });
}

INSTANTIATE_TEST_SUITE_P(Formats, CpuMultiplication, testing::Values(Precision::int8, Precision::int4),
                         [](const auto& info) { return rockchip::info(info.param).name; });

}  // namespace
}  // namespace npu::gemm
