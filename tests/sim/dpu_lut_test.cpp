// Look-up tables: upload by command list, interpolation, slopes, which table answers, and whole activation programs on
// integers and halves. The reference evaluates the piecewise linear curve in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/float_bits.h"
#include "sim/dpu_support.h"

namespace npu::sim::test {
namespace {

using Table = std::array<std::int16_t, 513>;

struct Tables {
    Table le{};
    Table lo{};
};

std::vector<std::uint64_t> upload(const Tables& tables) {
    std::vector<std::uint64_t> words;
    for (const std::uint32_t table : {0U, 1U}) {
        words.push_back(command_word(0x4100, (2 | table) << 16));
        for (const std::int16_t entry : table == 0 ? tables.le : tables.lo) {
            words.push_back(command_word(0x4104, static_cast<std::uint16_t>(entry)));
        }
    }
    return words;
}

Tables random_tables(std::mt19937& random) {
    Tables tables;
    for (Table* table : {&tables.le, &tables.lo}) {
        std::ranges::generate(*table, [&] { return static_cast<std::int16_t>(random()); });
    }
    tables.lo[0] = tables.le[512];  // one curve
    return tables;
}

struct Slopes {
    std::int32_t below_scale = 0;
    unsigned below_shift = 0;
    std::int32_t above_scale = 0;
    unsigned above_shift = 0;
};

// LE from -512 steps to 0, LO from 0 to 512 steps; rounded to nearest, ties to even.
std::int64_t reference(const Tables& tables, const Slopes& slopes, unsigned distance, std::int64_t x) {
    const std::int64_t end = std::int64_t{512} << distance;
    if (x < -end) {
        return tables.le[0] + reference_shift(static_cast<__int128>(x + end) * slopes.below_scale, slopes.below_shift);
    }
    if (x > end) {
        return tables.lo[512] +
               reference_shift(static_cast<__int128>(x - end) * slopes.above_scale, slopes.above_shift);
    }
    const Table& table = x < 0 ? tables.le : tables.lo;
    const double place = static_cast<double>(x < 0 ? x + end : x) / static_cast<double>(std::int64_t{1} << distance);
    const auto left = static_cast<std::size_t>(std::min(std::floor(place), 511.0));
    const double rest = (place - static_cast<double>(left)) * (table[left + 1] - table[left]);
    return table[left] + std::llrint(rest);  // exact: at most 16 + 6 bits
}

void set_tables(Program& p, unsigned distance, const Slopes& slopes) {
    const std::int32_t end = 512 << distance;
    p.set(0x4070, 0x300);
    p.set(0x4108, 0x68);
    p.set(0x410c, distance << 16 | distance << 8);
    p.set(0x4110, static_cast<std::uint32_t>(-end));
    p.set(0x4114, 0);
    p.set(0x4118, 0);
    p.set(0x411c, static_cast<std::uint32_t>(end));
    p.set(0x4120, static_cast<std::uint32_t>(slopes.below_scale) & 0xffff);
    p.set(0x4124, slopes.below_shift);
    p.set(0x4128, static_cast<std::uint32_t>(slopes.above_scale) << 16);
    p.set(0x412c, slopes.above_shift << 5);
}

TEST(DpuTables, InterpolateBetweenAllEntriesAndContinueWithASlope) {
    std::mt19937 random(1);
    const FlyingShape shape{.input = Precision::int32, .output = Precision::int32, .width = 64, .channels = 64};
    for (const unsigned distance : {5U, 6U, 3U}) {
        const Tables tables = random_tables(random);
        const Slopes slopes{-300, 4, 16434, 13};
        std::vector<std::uint32_t> codes(shape.pixels() * shape.channels);
        const std::int32_t end = 512 << distance;
        for (std::uint32_t& code : codes) {
            code = static_cast<std::uint32_t>(static_cast<std::int32_t>(random() % (4U * end)) - 2 * end);
        }
        const std::int32_t borders[] = {-end,    -end - 1, -end + 1, -1,        0,         1,
                                        end - 1, end,      end + 1,  100000000, -100000000};
        std::ranges::copy(borders, codes.begin());
        DpuBench bench;
        bench.apply(upload(tables));
        load_cube(bench.memory, shape.source, shape.pixels(), shape.channels, 4, codes);
        bench.memory.map(shape.destination, 0x10000);
        Program p = flying_program(shape);
        set_tables(p, distance, slopes);
        const Outcome outcome = bench.run_flying(p);
        ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
        const auto got = read_cube(bench.memory, shape.destination, shape.pixels(), shape.channels, 4);
        std::size_t nearest = 0;
        for (std::size_t i = 0; i < codes.size(); ++i) {
            const auto x = static_cast<std::int32_t>(codes[i]);
            ASSERT_EQ(static_cast<std::int32_t>(got[i]), reference(tables, slopes, distance, x)) << x;
            const Table& table = x < 0 ? tables.le : tables.lo;
            const std::int64_t at = x < 0 ? std::int64_t{x} + end : x;
            nearest += at >= 0 && at >> distance <= 512 &&
                               table[static_cast<std::size_t>(at >> distance)] == static_cast<std::int32_t>(got[i])
                           ? 1U
                           : 0;
        }
        EXPECT_LT(nearest, codes.size() / 4) << "interpolation must matter";
    }
}

TEST(DpuTables, AnswerByThePriorityBitsWhereBothOrNoneHoldTheValue) {
    Tables tables;
    tables.le.fill(1000);
    tables.lo.fill(2000);
    const FlyingShape shape{.input = Precision::int32, .output = Precision::int32, .width = 1, .channels = 4};
    const auto answer = [&](std::uint32_t priorities, std::int32_t x) {
        DpuBench bench;
        bench.apply(upload(tables));
        load_cube(bench.memory, shape.source, 1, 4, 4, std::vector<std::uint32_t>(4, static_cast<std::uint32_t>(x)));
        bench.memory.map(shape.destination, 0x1000);
        Program p = flying_program(shape);
        set_tables(p, 5, {});
        p.set(0x4108, 8 | priorities);
        p.set(0x4114, 4096);  // LE: -12288 .. 4096
        p.set(0x4110, static_cast<std::uint32_t>(-12288));
        EXPECT_TRUE(bench.run_flying(p).ran);
        return read_cube(bench.memory, shape.destination, 1, 1, 4)[0];
    };
    for (std::uint32_t bits = 0; bits < 8; ++bits) {
        EXPECT_EQ(answer(bits << 4, 100), (bits & 4) != 0 ? 2000U : 1000U) << "both";
        EXPECT_EQ(answer(bits << 4, 20000), (bits & 2) != 0 ? 2000U : 1000U) << "above both";
        EXPECT_EQ(answer(bits << 4, -20000), (bits & 1) != 0 ? 2000U : 1000U) << "below both";
        EXPECT_EQ(answer(bits << 4, -100), 1000U) << "LE only";
        EXPECT_EQ(answer(bits << 4, 5000), 2000U) << "LO only";
    }
}

TEST(DpuTables, TakeUploadsAsCommandsThatAdvanceTheAddress) {
    Dpu dpu;
    EXPECT_FALSE(dpu.tables().loaded());
    const auto write = [&](std::uint16_t offset, std::uint32_t value) { dpu.lut_write(offset, value); };
    // What every full matmul program writes: a configuration for reading. It must not touch the tables.
    write(0x4100, 0);
    write(0x4104, 0);
    Tables tables;
    for (std::size_t i = 0; i < 513; ++i) {
        tables.le[i] = static_cast<std::int16_t>(i);
        tables.lo[i] = static_cast<std::int16_t>(-static_cast<int>(i));
    }
    for (const std::uint64_t word : upload(tables)) {
        EXPECT_FALSE(dpu.tables().loaded());
        write(static_cast<std::uint16_t>(word), static_cast<std::uint32_t>(word >> 16));
    }
    EXPECT_TRUE(dpu.tables().loaded());
    write(0x4104, 77);  // past the end
    write(0x4100, 2 << 16 | 100);
    write(0x4104, 77);
    write(0x4104, 78);
    write(0x4100, 0);
    write(0x4104, 79);
    LookupStage stage;
    stage.active = true;
    stage.le = {.start = 0, .end = 512 << 5, .distance = 5};
    stage.lo = {.start = 1 << 20, .end = 1 << 20, .distance = 5};
    EXPECT_EQ(dpu.tables().look_up(stage, 99 << 5), 99);
    EXPECT_EQ(dpu.tables().look_up(stage, 100 << 5), 77);
    EXPECT_EQ(dpu.tables().look_up(stage, 101 << 5), 78);
    EXPECT_EQ(dpu.tables().look_up(stage, 102 << 5), 102);
    EXPECT_EQ(dpu.tables().look_up(stage, 512 << 5), 512);
    dpu.reset();
    EXPECT_FALSE(dpu.tables().loaded());
}

TEST(DpuTables, AreRefusedWhenTheyWereNeverLoadedAndWarnedAboutWhenTheyMeetOddities) {
    const FlyingShape shape{.input = Precision::fp16, .output = Precision::fp16, .width = 1, .channels = 8};
    DpuBench bench;
    load_cube(bench.memory, shape.source, 1, 8, 2, std::vector<std::uint32_t>(8, 0x3c00));
    bench.memory.map(shape.destination, 0x1000);
    Program p = flying_program(shape);
    set_tables(p, 5, {});
    p.set(0x4088, 0x8000c000);
    const Outcome outcome = bench.run_flying(p);
    EXPECT_FALSE(outcome.ran);
    EXPECT_TRUE(has_finding(outcome.findings, Severity::corrupt, {"DPU.EW_CFG", "513"}));

    Tables steep;
    for (std::size_t i = 0; i < 513; ++i) {
        steep.le[i] = static_cast<std::int16_t>(1 + i);
        steep.lo[i] = static_cast<std::int16_t>(513 + i);
    }
    const auto warnings = [&](const Tables& tables) {
        bench.apply(upload(tables));
        const Outcome loaded = bench.run_flying(p);
        EXPECT_TRUE(loaded.ran) << list_findings(loaded.findings);
        return list_findings(loaded.findings);
    };
    EXPECT_EQ(warnings(steep), "");
    Tables odd = steep;
    odd.le[200] = odd.le[201];
    EXPECT_NE(warnings(odd).find("equal entries"), std::string::npos);
    odd = steep;
    std::fill_n(odd.lo.end() - 50, 50, std::int16_t{32000});
    EXPECT_EQ(warnings(odd), "") << "a function that has saturated is flat to the end";
    odd = steep;
    odd.lo[7] = 0;
    EXPECT_NE(warnings(odd).find("entry of 0"), std::string::npos);
    odd = steep;
    std::ranges::transform(odd.le, odd.le.begin(), [](std::int16_t x) { return static_cast<std::int16_t>(-x); });
    EXPECT_NE(warnings(odd).find("change of sign"), std::string::npos);
}

// An activation: index = x * BN multiplier + BN operand, then tables, then the float conversion.
TEST(DpuTables, RunAnActivationOnHalves) {
    Tables sigmoid;
    for (int i = 0; i <= 512; ++i) {
        const auto entry = [](double x) { return static_cast<std::int16_t>(std::lrint(32767 / (1 + std::exp(-x)))); };
        sigmoid.le[static_cast<std::size_t>(i)] = entry((i - 512) / 64.0);
        sigmoid.lo[static_cast<std::size_t>(i)] = entry(i / 64.0);
    }
    const FlyingShape shape{.input = Precision::fp16, .output = Precision::fp16, .width = 33, .channels = 64};
    std::mt19937 random(3);
    const auto codes = random_codes(Precision::fp16, shape.pixels() * shape.channels, random, Range::moderate);
    for (const float shift : {0.0F, 150.5F}) {
        DpuBench bench;
        bench.apply(upload(sigmoid));
        load_cube(bench.memory, shape.source, shape.pixels(), shape.channels, 2, codes);
        bench.memory.map(shape.destination, 0x10000);
        Program p = flying_program(shape);
        set_tables(p, 5, {});
        p.set(0x4060, 0x20040);
        p.set(0x4064, std::bit_cast<std::uint32_t>(shift));
        p.set(0x4068, std::uint32_t{float_to_half(2048)} << 16);
        p.set(0x4088, 0x8000f000);  // 2^-15
        const Outcome outcome = bench.run_flying(p);
        ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
        const auto got = read_cube(bench.memory, shape.destination, shape.pixels(), shape.channels, 2);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            const float x = half_to_float(static_cast<std::uint16_t>(codes[i]));
            const auto index = static_cast<std::int64_t>(std::nearbyint(static_cast<float>(x * 2048.0F) + shift));
            const double exact = static_cast<double>(reference(sigmoid, {}, 5, index)) / 32768;
            ASSERT_EQ(got[i], float_to_half(static_cast<float>(exact))) << x;
            EXPECT_NEAR(half_to_float(static_cast<std::uint16_t>(got[i])),
                        1 / (1 + std::exp(-(static_cast<double>(x) + shift / 2048))), 0.0015)
                << "the published accuracy of a sigmoid";
        }
    }
}

// The same fused onto the array's sums, with offset and scale of the float conversion; and on int8 with requantisation.
TEST(DpuTables, RunFusedBehindTheArray) {
    std::mt19937 random(4);
    const Tables tables = random_tables(random);
    const Slopes slopes{77, 3, -12, 2};
    for (const bool integer : {false, true}) {
        const Matmul shape{.input = integer ? Precision::int8 : Precision::fp16,
                           .output = integer ? Precision::int8 : Precision::fp32,
                           .m = 12,
                           .k = 64,
                           .n = 64,
                           .mapping = Mapping::native_tall};
        FedSums sums;
        std::vector<std::int64_t> index(std::size_t{shape.m} * shape.n);
        std::ranges::generate(index, [&] { return static_cast<std::int32_t>(random() % 50000) - 25000; });
        if (integer) {
            sums.integers = index;
        } else {
            std::ranges::transform(index, std::back_inserter(sums.floats),
                                   [](std::int64_t x) { return 0.25F * static_cast<float>(x); });
        }
        DpuBench bench;
        bench.apply(upload(tables));
        bench.memory.map(shape.c, shape.c_bytes());
        Program p = matmul_program(shape);
        set_tables(p, 5, slopes);
        p.set(0x4070, 0x302);
        if (integer) {
            p.set(0x4080, 11);
            p.set(0x4084, 0x6000);
            p.set(0x4088, 22);
        } else {
            p.set(0x4060, 0x42);
            p.set(0x4068, std::uint32_t{float_to_half(4)} << 16);
            p.set(0x4080, static_cast<std::uint32_t>(-500));
            p.set(0x4084, 3);
            p.set(0x4088, 0x8000a000);
        }
        const Outcome outcome = bench.run_fed(p, feed_of(shape), sums);
        ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
        const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, integer ? 1 : 4);
        for (std::size_t i = 0; i < index.size(); ++i) {
            const std::int64_t found = reference(tables, slopes, 5, index[i]);
            if (integer) {
                const std::int64_t wanted =
                    clamp_to(reference_shift(static_cast<__int128>(found) * 0x6000, 22) + 11, 8);
                ASSERT_EQ(static_cast<std::int8_t>(got[i]), wanted) << index[i];
            } else {
                ASSERT_EQ(std::bit_cast<float>(got[i]),
                          static_cast<float>(static_cast<double>(found - 500) * 3 / 1024));
            }
        }
    }
}

TEST(DpuTables, ReadANanAndInfinitiesSafely) {
    EXPECT_EQ(lookup_index(std::nanf("")), 0);
    EXPECT_EQ(lookup_index(HUGE_VALF), 2147483647);
    EXPECT_EQ(lookup_index(-HUGE_VALF), -2147483647 - 1);
    EXPECT_EQ(lookup_index(2.5F), 2);
    EXPECT_EQ(lookup_index(3.5F), 4);
    EXPECT_EQ(lookup_index(-2.5F), -2);
}

}  // namespace
}  // namespace npu::sim::test
