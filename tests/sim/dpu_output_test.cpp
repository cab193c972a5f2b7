// Output conversion, output formats and the writer.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/float_bits.h"
#include "sim/dpu_support.h"
#include "sim/output_addressing.h"

namespace npu::sim::test {
namespace {

unsigned bits_of(Precision precision) { return rockchip::info(precision).bits; }

Matmul shape_of(Precision input, Precision output, std::uint32_t m = 12) {
    const std::uint32_t n = input == Precision::int4 ? 128 : 64;
    return {.input = input, .output = output, .m = m, .k = 64, .n = n, .mapping = Mapping::native_wide};
}

// SIZE_E and SURFACE_ADD that fit, which the shared matmul program does not know for every pair.
void set_surfaces(Program& p, const Matmul& shape) {
    const std::uint32_t group = shape.input == Precision::int8 ? 32 : shape.input == Precision::int4 ? 64 : 16;
    const std::uint32_t surfaces = group * bits_of(shape.output) / 128;
    const std::uint32_t e = surfaces - 1;
    p.set(0x4050, e << 8 | e << 5 | e << 2 | 2);
    p.set(0x40c0, p.get(0x4024) * surfaces);
}

std::vector<std::uint32_t> run_integers(const Matmul& shape, const FedSums& sums,
                                        const std::vector<std::pair<std::uint16_t, std::uint32_t>>& writes) {
    DpuBench bench;
    bench.memory.map(shape.c, shape.c_bytes() + 64);
    Program p = matmul_program(shape);
    set_surfaces(p, shape);
    for (const auto& [offset, value] : writes) {
        p.set(offset, value);
    }
    const Outcome outcome = bench.run_fed(p, feed_of(shape), sums);
    EXPECT_TRUE(outcome.ran) << list_findings(outcome.findings);
    return read_cube(bench.memory, shape.c, shape.m, shape.n, bits_of(shape.output) / 8);
}

TEST(DpuOutput, RequantisesIntegersToEveryWidth) {
    std::mt19937 random(1);
    std::size_t floored = 0;
    for (const Precision output : {Precision::int8, Precision::int16, Precision::int32}) {
        for (int round = 0; round < 40; ++round) {
            const Matmul shape = shape_of(Precision::int8, output);
            FedSums sums;
            sums.integers = random_sums(std::size_t{shape.m} * shape.n, random);
            const auto scale = static_cast<std::int16_t>(round == 0   ? -32768
                                                         : round < 10 ? 1 << round
                                                                      : static_cast<int>(random()));
            const std::uint32_t shift = round % 4 == 0 ? 0 : random() % 40;
            const auto offset = static_cast<std::int32_t>(static_cast<std::int32_t>(random()) >> (random() % 32));
            const bool away = round % 2 == 1;
            // MINUS_EXP and CVT_TYPE must have no effect on integer outputs.
            const std::uint32_t inert = round % 3 == 0 ? 0x80055000 : 0;
            const auto got = run_integers(shape, sums,
                                          {{0x4080, static_cast<std::uint32_t>(offset)},
                                           {0x4084, static_cast<std::uint16_t>(scale)},
                                           {0x4088, inert | (away ? 0x40000000U : 0) | shift}});
            for (std::size_t i = 0; i < got.size(); ++i) {
                const __int128 product = static_cast<__int128>(sums.integers[i]) * scale;
                const std::int64_t exact = reference_shift(product, shift, away) + offset;
                ASSERT_EQ(sign_extend(got[i], bits_of(output)), clamp_to(exact, bits_of(output)))
                    << sums.integers[i] << " * " << scale << " >> " << shift;
                floored += static_cast<std::int64_t>(product >> shift) + offset != exact ? 1U : 0;
            }
        }
    }
    EXPECT_GT(floored, 1000U) << "rounding must matter";
}

TEST(DpuOutput, TurnsIntegersIntoFloatsWithASingleRounding) {
    std::mt19937 random(2);
    std::size_t inexact = 0;
    for (const Precision output : {Precision::fp32, Precision::fp16}) {
        const Matmul shape = shape_of(Precision::int8, output);
        FedSums sums;
        sums.integers = random_sums(std::size_t{shape.m} * shape.n, random);
        const std::uint32_t narrow = output == Precision::fp16 ? 0x10000 : 0;
        const auto plain = run_integers(shape, sums, {{0x4084, narrow | 1}});
        const auto scaled = run_integers(
            shape, sums, {{0x4080, 0xfffff000}, {0x4084, narrow | 0xfffd}, {0x4088, 0x80000000 | 21 << 12}});
        for (std::size_t i = 0; i < plain.size(); ++i) {
            const auto x = static_cast<double>(sums.integers[i]);
            const auto wanted = static_cast<float>(x);
            const auto wanted_scaled = static_cast<float>((x - 4096) * -3 / 2097152);
            inexact += wanted != x ? 1U : 0;
            if (output == Precision::fp32) {
                ASSERT_EQ(std::bit_cast<float>(plain[i]), wanted);
                ASSERT_EQ(std::bit_cast<float>(scaled[i]), wanted_scaled);
            } else {
                ASSERT_EQ(plain[i], float_to_half(wanted));
                ASSERT_EQ(scaled[i], float_to_half(wanted_scaled));
            }
        }
    }
    EXPECT_GT(inexact, 50U);
}

TEST(DpuOutput, SaturatesTheSumsOfInt4AndInt16) {
    std::mt19937 random(3);
    struct Pair {
        Precision input;
        Precision output;
    };
    for (const Pair pair : {Pair{Precision::int4, Precision::int16}, Pair{Precision::int16, Precision::int32},
                            Pair{Precision::int16, Precision::int16}}) {
        const Matmul shape = shape_of(pair.input, pair.output);
        FedSums sums;
        sums.integers = random_sums(std::size_t{shape.m} * shape.n, random);
        if (pair.input == Precision::int16) {  // 64-bit sums
            std::ranges::transform(sums.integers, sums.integers.begin(), [](std::int64_t x) { return x * 37; });
        }
        const auto got = run_integers(shape, sums, {});
        std::size_t saturated = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            const std::int64_t wanted = clamp_to(sums.integers[i], bits_of(pair.output));
            ASSERT_EQ(sign_extend(got[i], bits_of(pair.output)), wanted);
            saturated += wanted != sums.integers[i] ? 1U : 0;
        }
        EXPECT_GT(saturated, 20U);
    }
}

TEST(DpuOutput, RoundsFloatsToEachFormat) {
    std::mt19937 random(4);
    struct Pair {
        Precision input;
        Precision output;
    };
    for (const Pair pair : {Pair{Precision::fp16, Precision::fp16}, Pair{Precision::fp16, Precision::bf16},
                            Pair{Precision::fp16, Precision::fp32}, Pair{Precision::bf16, Precision::bf16},
                            Pair{Precision::bf16, Precision::fp32}, Pair{Precision::tf32, Precision::fp32}}) {
        const Matmul shape = shape_of(pair.input, pair.output);
        FedSums sums;
        sums.floats = random_floats(std::size_t{shape.m} * shape.n, random);
        const bool narrow = pair.output != Precision::fp32;
        const auto got = run_integers(shape, sums, {{0x4084, narrow ? 0x10001U : 0U}});
        for (std::size_t i = 0; i < got.size(); ++i) {
            const float x = sums.floats[i];
            const std::uint32_t wanted = pair.output == Precision::fp16   ? float_to_half(x)
                                         : pair.output == Precision::bf16 ? float_to_bfloat(x)
                                                                          : std::bit_cast<std::uint32_t>(x);
            ASSERT_EQ(got[i], wanted) << x;
        }
        const auto smaller = run_integers(shape, sums, {{0x4084, narrow ? 0x10003U : 3U}, {0x4088, 0x80004000}});
        for (std::size_t i = 0; i < got.size(); ++i) {
            const auto x = static_cast<float>(static_cast<double>(sums.floats[i]) * 3 / 16);
            const std::uint32_t wanted = pair.output == Precision::fp16   ? float_to_half(x)
                                         : pair.output == Precision::bf16 ? float_to_bfloat(x)
                                                                          : std::bit_cast<std::uint32_t>(x);
            ASSERT_EQ(smaller[i], wanted) << x;
        }
    }
}

TEST(DpuOutput, WritesEveryNanAsOnePattern) {
    struct Case {
        Precision output;
        std::uint32_t nan;
    };
    for (const Case one :
         {Case{Precision::fp16, 0x7c01}, Case{Precision::bf16, 0x7fc0}, Case{Precision::fp32, 0x7fc00000}}) {
        const Matmul shape = shape_of(Precision::fp16, one.output);
        FedSums sums;
        sums.floats.assign(std::size_t{shape.m} * shape.n, 1.0F);
        const std::array<std::uint32_t, 4> patterns{0x7f800001, 0x7fc12345, 0xff800001, 0xffffffff};
        for (std::size_t i = 0; i < patterns.size(); ++i) {
            sums.floats[i] = std::bit_cast<float>(patterns[i]);
        }
        const auto got = run_integers(shape, sums, {{0x4084, one.output == Precision::fp32 ? 0U : 0x10001U}});
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_EQ(got[i] == one.nan, i < patterns.size()) << i;
        }
    }
}

// exp(x) from the bits of a half: an int16 output of 1477 * x + 15300.6, clamped at 0 by BN.
TEST(DpuOutput, BuildsAnExponentialFromInt16Bits) {
    std::mt19937 random(5);
    const Matmul shape = shape_of(Precision::fp16, Precision::int16);
    FedSums sums;
    std::uniform_real_distribution<float> uniform(-12, 11);
    sums.floats.resize(std::size_t{shape.m} * shape.n);
    std::ranges::generate(sums.floats, [&] { return uniform(random); });
    const auto got = run_integers(shape, sums,
                                  {{0x4040, 0x42},
                                   {0x4048, 0x65c50000},
                                   {0x4060, 0x20010},
                                   {0x4064, std::bit_cast<std::uint32_t>(15300.624F)},
                                   {0x4084, 0x10001}});
    for (std::size_t i = 0; i < got.size(); ++i) {
        const float x = sums.floats[i];
        const auto product = static_cast<float>(static_cast<double>(x) * 1477);
        const float bits = std::max(static_cast<float>(static_cast<double>(product) + 15300.624F), 0.0F);
        ASSERT_EQ(got[i], static_cast<std::uint32_t>(std::lrint(bits))) << x;
        if (got[i] >= 0x400) {  // a normal half
            const double e = half_to_float(static_cast<std::uint16_t>(got[i]));
            EXPECT_NEAR(e / std::exp(static_cast<double>(x)), 1, 0.042) << x;
        }
    }
}

// Writer. ----------------------------------------------------------------------------------------------------------

TEST(DpuWriter, CountsSurfacesInGroupsOfSizeE) {
    std::mt19937 random(6);
    const Matmul shape = shape_of(Precision::fp16, Precision::fp16, 8);
    FedSums sums;
    sums.floats = random_floats(std::size_t{shape.m} * shape.n, random);
    const std::uint32_t plane = 16 * shape.m;
    // One surface to a group, as a hardware-tested program writes a cube for the next product: the same bytes.
    const auto two = run_integers(shape, sums, {});
    const auto one = run_integers(shape, sums, {{0x4050, 2}, {0x40c0, plane}});
    EXPECT_EQ(one, two);
    for (std::size_t i = 0; i < two.size(); ++i) {
        ASSERT_EQ(two[i], float_to_half(sums.floats[i]));
    }
}

TEST(DpuWriter, LeavesLaterSurfacesUnwrittenWhenSizeEIsTooSmall) {
    std::mt19937 random(7);
    const Matmul shape = shape_of(Precision::int8, Precision::int32, 8);
    FedSums sums;
    sums.integers = random_sums(std::size_t{shape.m} * shape.n, random);
    for (const Mode mode : {Mode::strict, Mode::lenient}) {
        DpuBench bench;
        bench.mode = mode;
        bench.memory.map(shape.c, shape.c_bytes());
        bench.memory.fill(shape.c, std::byte{0xee}, shape.c_bytes());
        Program p = matmul_program(shape);
        p.set(0x4050, 0x36e);
        const Outcome outcome = bench.run_fed(p, feed_of(shape), sums);
        EXPECT_TRUE(
            has_finding(outcome.findings, Severity::corrupt, {"DPU.BS_OW_CFG", "SIZE_E must be 7", "8 surfaces"}));
        ASSERT_EQ(outcome.ran, mode == Mode::lenient);
        const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, 4);
        for (std::size_t i = 0; i < got.size(); ++i) {
            const bool written = outcome.ran && i % shape.n % 32 < 16;
            ASSERT_EQ(got[i], written ? static_cast<std::uint32_t>(sums.integers[i]) : 0xeeeeeeee);
        }
    }
}

TEST(DpuWriter, FillsPaddedChannelsAndWritesNothingBeyond) {
    std::mt19937 random(8);
    // 20 kernels of an int8 layer written as 32 channels; 8 kernels of an int16 reduction written as 16.
    struct Padded {
        Precision input;
        Precision output;
        std::uint32_t kernels;
        std::uint32_t channels;
        std::uint32_t original;
    };
    for (const Padded padded :
         {Padded{Precision::int8, Precision::int8, 20, 32, 19}, Padded{Precision::int8, Precision::int32, 52, 64, 52},
          Padded{Precision::int16, Precision::int32, 8, 16, 8}}) {
        for (const std::uint32_t pad : {0U, 0xfff9U}) {
            Matmul shape = shape_of(padded.input, padded.output, 10);
            shape.mapping = Mapping::plane;
            shape.n = padded.channels;
            Convolution feed = feed_of(shape);
            feed.kernels = padded.kernels;
            FedSums sums;
            sums.integers = random_sums(std::size_t{shape.m} * padded.kernels, random);
            DpuBench bench;
            bench.memory.map(shape.c, shape.c_bytes() + 4096);
            bench.memory.fill(shape.c, std::byte{0xee}, shape.c_bytes() + 4096);
            Program p = matmul_program(shape);
            set_surfaces(p, shape);
            p.set(0x403c, (padded.original - 1) << 16 | (padded.channels - 1));
            p.set(0x4014, pad);
            const Outcome outcome = bench.run_fed(p, feed, sums);
            ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
            const unsigned bits = bits_of(padded.output);
            const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, bits / 8);
            for (std::uint32_t m = 0; m < shape.m; ++m) {
                for (std::uint32_t n = 0; n < shape.n; ++n) {
                    const std::int64_t wanted = n < padded.original
                                                    ? clamp_to(sums.integers[std::size_t{m} * padded.kernels + n], bits)
                                                    : sign_extend(pad, std::min(bits, 16U));
                    ASSERT_EQ(sign_extend(got[std::size_t{m} * shape.n + n], bits), wanted) << m << " " << n;
                }
            }
            EXPECT_EQ(*bench.memory.at(shape.c + shape.c_bytes()), std::byte{0xee});
        }
    }
}

TEST(DpuWriter, TransposesInt16InBlocksOfFourAndKeepsTheLowHalf) {
    std::mt19937 random(9);
    for (const std::uint32_t pixels : {4U, 20U}) {
        Matmul shape{.input = Precision::int16,
                     .output = Precision::int16,
                     .m = pixels,
                     .k = 64,
                     .n = 32,
                     .mapping = Mapping::native_tall};
        FedSums sums;
        sums.integers = random_sums(std::size_t{shape.m} * shape.n, random);
        std::ranges::transform(sums.integers, sums.integers.begin(), [](std::int64_t x) { return x * 5; });
        DpuBench bench;
        bench.memory.map(shape.c, 128 * shape.m);
        bench.memory.fill(shape.c, std::byte{0xee}, 128 * shape.m);
        Program p = matmul_program(shape);
        p.set(0x4050, 0x80007fe);
        p.set(0x40c0, 128 * shape.m);
        const Outcome outcome = bench.run_fed(p, feed_of(shape), sums);
        ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
        std::vector<std::uint16_t> wanted(std::size_t{64} * shape.m, 0xeeee);
        for (std::uint32_t m = 0; m < shape.m; ++m) {
            for (std::uint32_t n = 0; n < shape.n; ++n) {
                const std::uint32_t na = n / 4;
                const std::uint32_t slot = 4 * m + na % 4 + na / 4 * 4 * shape.m + n % 4 * 16 * shape.m;
                wanted[slot] = static_cast<std::uint16_t>(clamp_to(sums.integers[std::size_t{m} * shape.n + n], 32));
            }
        }
        for (std::size_t slot = 0; slot < wanted.size(); ++slot) {
            ASSERT_EQ(read_element(bench.memory.at(shape.c), 16 * slot, 16), wanted[slot]) << slot;
        }
        const Extent extent = output_extent(outcome.task);
        EXPECT_EQ(extent.end - extent.begin, (3 * 16 + 4 + 4) * shape.m * 2);
        shape.n = 16;
        Program narrow = matmul_program(shape);
        narrow.set(0x4050, 0x80007fe);
        narrow.set(0x40c0, 128 * shape.m);
        sums.integers.resize(std::size_t{16} * shape.m);
        const Outcome hung = bench.run_fed(narrow, feed_of(shape), sums);
        EXPECT_TRUE(has_finding(hung.findings, Severity::hang, {"DPU.BS_OW_CFG", "TP_ORG_EN", "16 channels"}));
    }
}

TEST(DpuWriter, PutsSurfacesWhereTheFormulaSaysForAnyStrides) {
    std::mt19937 random(10);
    for (int round = 0; round < 200; ++round) {
        DpuTask task;
        task.input = Precision::int32;
        task.output = Precision::int32;
        task.width = 1 + random() % 5;
        task.height = 1 + random() % 5;
        task.channels = 4 * (1 + random() % 20);
        task.group_surfaces = task.written_surfaces = 1 + random() % 8;
        if (random() % 3 == 0) {
            task.written_surfaces = 1 + random() % task.group_surfaces;
        }
        task.output_notch_atoms = random() % 4;
        task.output_surface_bytes = 16 * (random() % 40);
        task.output_group_bytes = 16 * (random() % 200);
        task.output_address = 4096;
        std::vector<int> hits;
        bool overlap = false;
        std::int64_t end = 0;
        for (std::uint32_t s = 0; s < task.surfaces(); ++s) {
            if (s % task.group_surfaces >= task.written_surfaces) {
                EXPECT_FALSE(surface_written(task, s));
                continue;
            }
            EXPECT_TRUE(surface_written(task, s));
            for (std::uint32_t h = 0; h < task.height; ++h) {
                for (std::uint32_t w = 0; w < task.width; ++w) {
                    const std::uint64_t at = s / task.group_surfaces * task.output_group_bytes +
                                             s % task.group_surfaces * task.output_surface_bytes +
                                             16 * (h * (task.width + task.output_notch_atoms) + w);
                    hits.resize(std::max<std::size_t>(hits.size(), at / 16 + 1));
                    overlap = hits[at / 16]++ > 0 || overlap;
                    end = std::max(end, static_cast<std::int64_t>(at) + 16);
                }
            }
        }
        const Extent extent = output_extent(task);
        EXPECT_EQ(extent.begin, 4096);
        EXPECT_EQ(extent.end, 4096 + end) << round;
        EXPECT_EQ(outputs_overlap(task), overlap) << round;
    }
}

}  // namespace
}  // namespace npu::sim::test
