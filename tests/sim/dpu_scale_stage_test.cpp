// OW, BS and BN against 128-bit integer and float64 references: order, rounding, saturation, operands per channel.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/float_bits.h"
#include "sim/dpu_support.h"

namespace npu::sim::test {
namespace {

struct Stage {
    bool bypass = true;
    std::uint32_t algorithm = 2;
    bool alu = false;
    std::int64_t operand = 0;
    bool multiply = false;
    std::int64_t multiplier = 1;
    unsigned shift = 0;
    unsigned negative_shift = 0;
    bool negatives_only = false;
    bool relu = false;
    bool bounded = false;
    std::int64_t bound = 0;

    [[nodiscard]] std::uint32_t configuration() const {
        return algorithm << 16 | (bounded ? 0x80U : 0) | (relu ? 0 : 0x40U) | (negatives_only ? 0x20U : 0) |
               (multiply ? 0 : 0x10U) | (alu ? 0 : 2U) | (bypass ? 1U : 0);
    }
};

std::int64_t reference_alu(std::uint32_t algorithm, std::int64_t x, std::int64_t y) {
    switch (algorithm) {
        case 0: return std::max(x, y);
        case 1: return std::min(x, y);
        case 2: return x + y;
        default: return x - y;
    }
}

std::int64_t reference_relu(const Stage& stage, std::int64_t x) {
    x = stage.relu ? std::max<std::int64_t>(x, 0) : x;
    return stage.relu && stage.bounded ? std::min(x, stage.bound) : x;
}

// ALU, then multiply and shift.
std::int64_t reference_bs(const Stage& stage, std::int64_t x) {
    if (stage.bypass) {
        return x;
    }
    x = stage.alu ? reference_alu(stage.algorithm, x, stage.operand) : x;
    if (stage.multiply && (!stage.negatives_only || x < 0)) {
        const __int128 product = static_cast<__int128>(x) * stage.multiplier;
        x = reference_shift(product, product < 0 ? stage.negative_shift : stage.shift);
    }
    return clamp_to(reference_relu(stage, x), 32);
}

// Multiply, then add, then shift.
std::int64_t reference_bn(const Stage& stage, std::int64_t x) {
    if (stage.bypass) {
        return x;
    }
    __int128 value = x;
    const bool scaled = stage.multiply && (!stage.negatives_only || x < 0);
    value = scaled ? value * stage.multiplier : value;
    if (stage.alu) {
        value = stage.algorithm == 2 ? value + stage.operand : value - stage.operand;
    }
    x = scaled ? reference_shift(value, value < 0 ? stage.negative_shift : stage.shift)
               : static_cast<std::int64_t>(value);
    return clamp_to(reference_relu(stage, x), 32);
}

constexpr FlyingShape int32_cube{
    .input = Precision::int32, .output = Precision::int32, .width = 7, .height = 1, .channels = 16};

void set_stage(Program& p, const Stage& stage, bool bn) {
    const std::uint16_t base = bn ? 0x4060 : 0x4040;
    p.set(base, stage.configuration());
    p.set(base + 4, static_cast<std::uint32_t>(stage.operand));
    p.set(base + 8, static_cast<std::uint32_t>(stage.multiplier) << 16 | stage.shift << 8);
    p.set(base + 12, static_cast<std::uint32_t>(stage.bound));
    p.set(0x4010, p.get(0x4010) | stage.negative_shift << (bn ? 10 : 4));
}

Stage random_stage(std::mt19937& random, bool bn) {
    Stage stage;
    stage.bypass = random() % 8 == 0;
    stage.alu = random() % 4 != 0;
    stage.multiply = random() % 4 != 0;
    stage.operand = static_cast<std::int32_t>(random()) >> (random() % 32);
    stage.multiplier = bn ? static_cast<std::uint16_t>(random()) : static_cast<std::int16_t>(random());
    if (random() % 4 == 0) {
        stage.multiplier = bn ? 1 << (random() % 16) : -(1 << (random() % 16));  // ties
    }
    stage.shift = random() % 3 == 0 ? 0 : random() % 24;
    stage.negative_shift = random() % 2 == 0 ? stage.shift : random() % 24;
    stage.negatives_only = !bn && random() % 5 == 0;
    constexpr std::uint32_t algorithms[] = {0, 1, 2, 2, 2, 4};
    stage.algorithm = bn ? (random() % 3 == 0 ? 4 : 2) : algorithms[random() % 6];
    stage.relu = random() % 4 == 0;
    stage.bounded = stage.relu && random() % 2 == 0;
    stage.bound = static_cast<std::int32_t>(random() >> 1) >> (random() % 30);
    return stage;
}

std::vector<std::int64_t> as_signed(const std::vector<std::uint32_t>& codes) {
    std::vector<std::int64_t> values;
    for (const std::uint32_t code : codes) {
        values.push_back(static_cast<std::int32_t>(code));
    }
    return values;
}

std::vector<std::uint32_t> as_codes(const std::vector<std::int64_t>& values) { return {values.begin(), values.end()}; }

TEST(DpuScaleStages, ComputeIntegersAsThe128BitReferenceOverTheFullRange) {
    std::mt19937 random(1);
    std::size_t other_order = 0;
    std::size_t truncated = 0;
    std::size_t low = 0;
    std::size_t high = 0;
    for (int round = 0; round < 150; ++round) {
        const Stage bs = random_stage(random, false);
        const Stage bn = random_stage(random, true);
        DpuBench bench;
        const auto sums = random_sums(std::size_t{int32_cube.pixels()} * int32_cube.channels, random);
        load_cube(bench.memory, int32_cube.source, int32_cube.pixels(), int32_cube.channels, 4, as_codes(sums));
        bench.memory.map(int32_cube.destination, 0x1000);
        Program p = flying_program(int32_cube);
        set_stage(p, bs, false);
        set_stage(p, bn, true);
        const Outcome outcome = bench.run_flying(p);
        ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
        const auto got =
            as_signed(read_cube(bench.memory, int32_cube.destination, int32_cube.pixels(), int32_cube.channels, 4));
        for (std::size_t i = 0; i < sums.size(); ++i) {
            const std::int64_t between = reference_bs(bs, sums[i]);
            const std::int64_t wanted = reference_bn(bn, between);
            ASSERT_EQ(got[i], wanted) << "round " << round << ", value " << sums[i];
            // What the test would not notice if these never happened.
            other_order += reference_bs(bs, sums[i]) != reference_bn(bs, sums[i]) ? 1U : 0;
            truncated += bs.multiply && (sums[i] * bs.multiplier) >> bs.shift != reference_bs(bs, sums[i]) ? 1U : 0;
            low += wanted == std::numeric_limits<std::int32_t>::min() ? 1U : 0;
            high += wanted == std::numeric_limits<std::int32_t>::max() ? 1U : 0;
        }
    }
    EXPECT_GT(other_order, 1000U);
    EXPECT_GT(truncated, 1000U);
    EXPECT_GT(low, 20U);
    EXPECT_GT(high, 20U);
}

TEST(DpuScaleStages, RoundTiesToEvenOnBothSidesOfZero) {
    DpuBench bench;
    FlyingShape shape = int32_cube;
    shape.width = 1;
    const std::vector<std::uint32_t> codes = {2, 6, 10, 14, 0xfffffffe, 0xfffffffa, 0xfffffff6, 0xfffffff2,
                                              1, 3, 5,  7,  0xffffffff, 0xfffffffd, 4,          0xfffffffc};
    load_cube(bench.memory, shape.source, 1, 16, 4, codes);
    bench.memory.map(shape.destination, 0x1000);
    Program p = flying_program(shape);
    Stage stage;
    stage.bypass = false, stage.multiply = true, stage.multiplier = 1, stage.shift = 2, stage.negative_shift = 2;
    set_stage(p, stage, false);
    ASSERT_TRUE(bench.run_flying(p).ran);
    const std::vector<std::int64_t> wanted = {0, 2, 2, 4, 0, -2, -2, -4, 0, 1, 1, 2, 0, -1, 1, -1};
    EXPECT_EQ(as_signed(read_cube(bench.memory, shape.destination, 1, 16, 4)), wanted);
}

// The seed of a reciprocal square root in a published program: 0x5f37 - bits / 2 on int16.
TEST(DpuScaleStages, ComputeTheSquareRootSeedOfTheVendorsProgram) {
    DpuBench bench;
    const FlyingShape shape{.input = Precision::int16, .output = Precision::int16, .width = 3, .channels = 24};
    std::mt19937 random(2);
    std::vector<std::uint32_t> codes(72);
    std::ranges::generate(codes, [&] { return random() & 0x7fffU; });
    load_cube(bench.memory, shape.source, 3, 24, 2, codes);
    bench.memory.map(shape.destination, 0x1000);
    Program p = flying_program(shape);
    p.set(0x4010, 0x24000011);
    p.set(0x4040, 0x42);
    p.set(0x4048, 0xffff0100);
    p.set(0x4060, 0x20050);
    p.set(0x4064, 0x5f37);
    const Outcome outcome = bench.run_flying(p);
    ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
    const auto got = read_cube(bench.memory, shape.destination, 3, 24, 2);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const auto wanted = static_cast<std::uint16_t>(0x5f37 + std::lrint(-0.5 * codes[i]));
        EXPECT_EQ(got[i], wanted) << codes[i];
    }
}

// The constants of a vendor program: operand -381 * 32430, multiplier 32430, shift 17.
TEST(DpuScaleStages, PutTheZeroPointOfAVendorsTableIndexAtZero) {
    DpuBench bench;
    FlyingShape shape = int32_cube;
    shape.width = 1;
    std::vector<std::uint32_t> codes(16);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        codes[i] = 381 + static_cast<std::uint32_t>(i) * 4096 - 8 * 4096;
    }
    load_cube(bench.memory, shape.source, 1, 16, 4, codes);
    bench.memory.map(shape.destination, 0x1000);
    Program p = flying_program(shape);
    p.set(0x4010, p.get(0x4010) | 17 << 10);
    p.set(0x4060, 0x20040);
    p.set(0x4064, 0xff43770a);
    p.set(0x4068, 0x7eae1100);
    ASSERT_TRUE(bench.run_flying(p).ran);
    const auto got = as_signed(read_cube(bench.memory, shape.destination, 1, 16, 4));
    EXPECT_EQ(got[8], 0);
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i], std::lrint((static_cast<double>(i) - 8) * 4096 * 32430 / 131072));
    }
}

struct Records {
    std::uint32_t use;  // BRDMA_DATA_USE
    std::vector<std::int64_t> alu;
    std::vector<std::int64_t> zero_point;
    std::vector<std::int64_t> multiplier;
};

void load_records(SparseMemory& memory, std::uint32_t address, const Records& records) {
    const std::size_t count = records.alu.size();
    memory.map(address, count * 8);
    std::uint32_t at = address;
    const auto put = [&](std::int64_t value, unsigned bytes) {
        write_element(memory.at(at), 0, 8 * bytes, static_cast<std::uint32_t>(value) & (bytes == 4 ? ~0U : 0xffffU));
        at += bytes;
    };
    for (std::size_t first = 0; first < count; first += 8) {
        for (std::size_t i = 0; i < 8 && (records.use & 1) != 0; ++i) {
            put(records.alu[first + i], 4);
        }
        for (std::size_t i = 0; i < 8 && (records.use & 2) != 0; ++i) {
            put(records.zero_point[first + i], 2);
        }
        for (std::size_t i = 0; i < 8 && (records.use & 4) != 0; ++i) {
            put(records.multiplier[first + i], 2);
        }
    }
}

TEST(DpuScaleStages, TakeOperandsPerChannelFromRecordsOfEightChannels) {
    std::mt19937 random(3);
    const Matmul shape{
        .input = Precision::int8, .output = Precision::int32, .m = 10, .k = 64, .n = 96, .mapping = Mapping::plane};
    const Convolution feed = feed_of(shape);
    for (const std::uint32_t use : {1U, 4U, 5U, 7U}) {
        for (const bool window_per_channel : {false, true}) {
            Records records{use, random_sums(shape.n, random), {}, {}};
            for (std::uint32_t n = 0; n < shape.n; ++n) {
                records.zero_point.push_back(static_cast<std::int16_t>(random()));
                records.multiplier.push_back(static_cast<std::int16_t>(random()));
            }
            FedSums sums;
            sums.integers = random_sums(std::size_t{shape.m} * shape.n, random);
            const bool zero_points = (use & 2) != 0;
            if (zero_points) {
                sums.window_sums_per_channel = window_per_channel;
                sums.window_sums.resize(window_per_channel ? sums.integers.size() : shape.m);
                std::ranges::generate(sums.window_sums, [&] { return static_cast<std::int16_t>(random()); });
            }
            DpuBench bench;
            load_records(bench.memory, 0x40000000, records);
            bench.memory.map(shape.c, shape.c_bytes());
            Program p = matmul_program(shape);
            add_idle_rdma(p, feed.width, feed.height, shape.n);
            const bool alu = (use & 1) != 0;
            const bool multiply = (use & 4) != 0;
            p.set(0x4040, 0x20140U | (alu ? 0 : 2U) | (multiply ? 0 : 0x10U));
            p.set(0x4048, 9 << 8 | 1);
            p.set(0x4010, p.get(0x4010) | 11 << 4);
            if (zero_points) {
                p.set(0x4050, (p.get(0x4050) & ~2U) | 1);
            }
            p.set(0x501c, use << 1);
            p.set(0x5020, 0x40000000);
            const Outcome outcome = bench.run_fed(p, feed, sums, 0x1d);
            ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
            const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, 4);
            for (std::uint32_t m = 0; m < shape.m; ++m) {
                for (std::uint32_t n = 0; n < shape.n; ++n) {
                    const std::size_t i = std::size_t{m} * shape.n + n;
                    std::int64_t value = sums.integers[i];
                    if (zero_points) {
                        value += records.zero_point[n] * sums.window_sums[window_per_channel ? i : m];
                    }
                    Stage stage;
                    stage.bypass = false;
                    stage.alu = alu, stage.operand = records.alu[n];
                    stage.multiply = multiply, stage.multiplier = records.multiplier[n];
                    stage.shift = 9, stage.negative_shift = 11;
                    ASSERT_EQ(static_cast<std::int32_t>(got[i]), reference_bs(stage, value))
                        << use << " " << m << " " << n;
                }
            }
        }
    }
}

TEST(DpuScaleStages, AddTheZeroPointOfARegisterTimesTheWindowSum) {
    std::mt19937 random(4);
    const Matmul shape{.input = Precision::int8,
                       .output = Precision::int32,
                       .m = 8,
                       .k = 64,
                       .n = 32,
                       .mapping = Mapping::native_tall};
    for (const std::int32_t zero_point : {128, -3, 32767, -32768}) {
        FedSums sums;
        sums.integers = random_sums(std::size_t{shape.m} * shape.n, random);
        sums.window_sums.resize(shape.m);
        std::ranges::generate(sums.window_sums, [&] { return static_cast<std::int32_t>(random()) >> 14; });
        DpuBench bench;
        bench.memory.map(shape.c, shape.c_bytes());
        Program p = matmul_program(shape);
        p.set(0x4050, 0x7fc);
        p.set(0x4054, static_cast<std::uint32_t>(zero_point) & 0xffff);
        ASSERT_TRUE(bench.run_fed(p, feed_of(shape), sums).ran);
        const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, 4);
        for (std::size_t i = 0; i < got.size(); ++i) {
            const std::int64_t wanted = sums.integers[i] + std::int64_t{zero_point} * sums.window_sums[i / shape.n];
            ASSERT_EQ(static_cast<std::int32_t>(got[i]), clamp_to(wanted, 32));
        }
    }
}

// One rounding to fp32 per operation; x and a multiplier of 11 bits fit a double exactly.
float times(float x, float y) { return static_cast<float>(static_cast<double>(x) * y); }
float plus(float x, float y) { return static_cast<float>(static_cast<double>(x) + y); }

TEST(DpuScaleStages, ComputeFloatsInTheOrderOfEachStage) {
    std::mt19937 random(5);
    std::size_t other_order = 0;
    std::size_t fused = 0;
    const FlyingShape shape{.input = Precision::fp32, .output = Precision::fp32, .width = 5, .channels = 20};
    for (int round = 0; round < 60; ++round) {
        const std::vector<float> values = random_floats(100, random);
        const std::vector<float> operands = random_floats(4, random);
        const std::uint16_t bs_code = float_to_half(3 * std::sin(static_cast<float>(round) + 1));
        const std::uint16_t bn_code = float_to_half(0.01F * static_cast<float>(round) + 0.1F);
        const bool relu = round % 3 == 0;
        const bool bounded = round % 6 == 0;
        DpuBench bench;
        std::vector<std::uint32_t> codes;
        std::ranges::transform(values, std::back_inserter(codes),
                               [](float x) { return std::bit_cast<std::uint32_t>(x); });
        load_cube(bench.memory, shape.source, 5, 20, 4, codes);
        bench.memory.map(shape.destination, 0x1000);
        Program p = flying_program(shape);
        p.set(0x4040, 0x20040);
        p.set(0x4044, std::bit_cast<std::uint32_t>(operands[0]));
        p.set(0x4048, std::uint32_t{bs_code} << 16);
        p.set(0x4060, relu ? (bounded ? 0x20080 : 0x20000) : 0x20040);
        p.set(0x4064, std::bit_cast<std::uint32_t>(operands[1]));
        p.set(0x4068, std::uint32_t{bn_code} << 16);
        p.set(0x406c, std::bit_cast<std::uint32_t>(6.0F));
        const Outcome outcome = bench.run_flying(p);
        ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
        const auto got = read_cube(bench.memory, shape.destination, 5, 20, 4);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const float bs = times(plus(values[i], operands[0]), half_to_float(bs_code));
            float bn = plus(times(bs, half_to_float(bn_code)), operands[1]);
            const float swapped = times(plus(bs, operands[1]), half_to_float(bn_code));
            const auto at_once = static_cast<float>(static_cast<double>(bs) * half_to_float(bn_code) + operands[1]);
            other_order += swapped != bn ? 1U : 0;
            fused += at_once != bn ? 1U : 0;
            bn = relu ? std::max(bn, 0.0F) : bn;
            bn = bounded ? std::min(bn, 6.0F) : bn;
            ASSERT_EQ(std::bit_cast<float>(got[i]), bn) << round << ": " << values[i];
        }
    }
    EXPECT_GT(other_order, 1000U) << "the test must tell the orders apart";
    EXPECT_GT(fused, 100U) << "and two roundings from one";
}

TEST(DpuScaleStages, TakeBf16MultipliersWithBf16AndPreluMultipliesNegativesOnly) {
    const FlyingShape shape{.input = Precision::bf16, .output = Precision::bf16, .width = 9, .channels = 8};
    std::mt19937 random(6);
    std::vector<std::uint32_t> codes = random_codes(Precision::bf16, 72, random, Range::moderate);
    DpuBench bench;
    load_cube(bench.memory, shape.source, 9, 8, 2, codes);
    bench.memory.map(shape.destination, 0x1000);
    Program p = flying_program(shape);
    const std::uint16_t slope = float_to_bfloat(0.2F);
    p.set(0x4040, 0x62);
    p.set(0x4048, std::uint32_t{slope} << 16);
    ASSERT_TRUE(bench.run_flying(p).ran);
    const auto got = read_cube(bench.memory, shape.destination, 9, 8, 2);
    std::size_t negatives = 0;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const float x = bfloat_to_float(static_cast<std::uint16_t>(codes[i]));
        negatives += x < 0 ? 1U : 0;
        EXPECT_EQ(got[i], float_to_bfloat(x < 0 ? times(x, bfloat_to_float(slope)) : x));
    }
    EXPECT_GT(negatives, 10U);
    EXPECT_LT(negatives, 62U);
}

}  // namespace
}  // namespace npu::sim::test
