// The EW stage beside the array: sums and an operand cube that two engines read in turn. References are int64 and float64;
// words and layouts come from the published recipes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/float_bits.h"
#include "sim/dpu_support.h"

namespace npu::sim::test {
namespace {

constexpr std::uint32_t operand_address = 0x40000000;

FedSums random_float_sums(const Matmul& matmul, std::mt19937& random) {
    FedSums sums;
    sums.floats = random_floats(std::size_t{matmul.m} * matmul.n, random);
    return sums;
}

TEST(DpuFused, AccumulatesHalvesBesideTheArray) {
    std::mt19937 random(8);
    for (const Mapping mapping : {Mapping::native_tall, Mapping::native_wide, Mapping::plane}) {
        for (const Operation operation : {add, multiply, maximum, minimum, subtract}) {
            const Matmul shape{
                .input = Precision::fp16, .output = Precision::fp16, .m = 20, .k = 64, .n = 48, .mapping = mapping};
            const FedSums sums = random_float_sums(shape, random);
            const auto operands = random_codes(Precision::fp16, sums.floats.size(), random, Range::full);
            DpuBench bench;
            load_cube(bench.memory, operand_address, shape.m, shape.n, 2, operands);
            bench.memory.map(shape.c, shape.c_bytes());
            Program p = matmul_program(shape);
            add_fused_operand(p, shape, operand_address, half_word(operation), 2, 2);
            const Outcome outcome = bench.run_fed(p, feed_of(shape), sums, 0x1d);
            ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
            EXPECT_TRUE(outcome.findings.empty()) << list_findings(outcome.findings);
            EXPECT_EQ(outcome.task.bytes_read, shape.c_bytes());
            const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, 2);
            for (std::size_t i = 0; i < got.size(); ++i) {
                const float y = half_to_float(static_cast<std::uint16_t>(operands[i]));
                const float wanted = reference_float(operation, sums.floats[i], y);
                if (operation > minimum || sums.floats[i] != y) {
                    ASSERT_EQ(got[i], float_to_half(wanted)) << operation << ": " << sums.floats[i] << ", " << y;
                }
            }
        }
    }
}

// An older generator leaves a gap: pairs of surfaces are three planes apart, the odd one two planes in.
TEST(DpuFused, FollowsTheNotchesWhereOperandSurfacesAreNotDense) {
    std::mt19937 random(9);
    const Matmul shape{.input = Precision::fp16,
                       .output = Precision::fp16,
                       .m = 16,
                       .k = 64,
                       .n = 64,
                       .mapping = Mapping::native_tall};
    const FedSums sums = random_float_sums(shape, random);
    const auto operands = random_codes(Precision::fp16, sums.floats.size(), random, Range::moderate);
    DpuBench bench;
    bench.memory.map(operand_address, 0x10000);
    for (std::uint32_t m = 0; m < shape.m; ++m) {
        for (std::uint32_t n = 0; n < shape.n; ++n) {
            const std::uint32_t b = n / 8;
            const std::uint32_t halves = (b + 1) / 2 * 16 * shape.m + b / 2 * 8 * shape.m + m * 8 + n % 8;
            write_element(bench.memory.at(operand_address), 16ULL * halves, 16, operands[std::size_t{m} * shape.n + n]);
        }
    }
    bench.memory.map(shape.c, shape.c_bytes());
    Program p = matmul_program(shape);
    add_fused_operand(p, shape, operand_address, 0x108202c0, 2, 2);
    p.set(0x5038, operand_address + shape.m * 32);
    p.set(0x504c, 2 * shape.m * 16);
    p.set(0x506c, 2 * shape.m * 16);
    const Outcome outcome = bench.run_fed(p, feed_of(shape), sums, 0x1d);
    ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
    const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, 2);
    for (std::size_t i = 0; i < got.size(); ++i) {
        const float y = half_to_float(static_cast<std::uint16_t>(operands[i]));
        ASSERT_EQ(got[i], float_to_half(reference_float(add, sums.floats[i], y)));
    }
}

struct Probe {
    DpuBench bench;
    Matmul shape{.input = Precision::int8,
                 .output = Precision::int32,
                 .m = 12,
                 .k = 64,
                 .n = 32,
                 .mapping = Mapping::native_tall};
    Outcome run(const FedSums& sums, const std::vector<std::uint32_t>& operands, std::uint32_t word) {
        load_cube(bench.memory, operand_address, shape.m, shape.n, 4, operands);
        bench.memory.map(shape.c, shape.c_bytes());
        Program p = matmul_program(shape);
        p.set(0x3010, 0);
        add_fused_operand(p, shape, operand_address, word, 4, 4);
        return bench.run_fed(p, feed_of(shape), sums, 0x1d);
    }
    std::vector<std::uint32_t> result() const { return read_cube(bench.memory, shape.c, shape.m, shape.n, 4); }
};

TEST(DpuFused, GivesTheProbeValuesOfInt32OperandsBesideTheArray) {
    FedSums sums;
    sums.integers.assign(std::size_t{12} * 32, 226);
    const std::vector<std::uint32_t> operands(sums.integers.size(), 1000000);
    Probe product;
    ASSERT_TRUE(product.run(sums, operands, 0x10c203c4).ran);
    EXPECT_EQ(product.result(), std::vector<std::uint32_t>(operands.size(), 3832960)) << "measured on silicon";
    Probe sum;
    ASSERT_TRUE(sum.run(sums, operands, 0x10c203c0).ran);
    EXPECT_EQ(sum.result(), std::vector<std::uint32_t>(operands.size(), 1000226));
    Probe converted;
    const Outcome outcome = converted.run(sums, operands, 0x10c202c0);
    EXPECT_FALSE(outcome.ran);
    EXPECT_TRUE(has_finding(outcome.findings, Severity::corrupt, {"DPU.EW_CFG", "0x10c202c0", "float converter"}));
}

TEST(DpuFused, AddsInt32OperandsBesideTheArrayWithSaturation) {
    std::mt19937 random(10);
    FedSums sums;
    sums.integers = random_sums(std::size_t{12} * 32, random);
    auto operands = random_integers(Precision::int32, sums.integers.size(), random);
    for (std::size_t i = 0; i < operands.size(); i += 5) {
        operands[i] = sums.integers[i] < 0 ? 0x80000000 : 0x7fffffff;
    }
    Probe probe;
    ASSERT_TRUE(probe.run(sums, operands, 0x10c203c0).ran);
    std::size_t saturated = 0;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const std::int64_t exact = sums.integers[i] + sign_extend(operands[i], 32);
        ASSERT_EQ(sign_extend(probe.result()[i], 32), clamp_to(exact, 32));
        saturated += exact != clamp_to(exact, 32) ? 1U : 0;
    }
    EXPECT_GT(saturated, 5U);
}

// The residual of a quantised network: sums are brought to the operand's scale by BS, then one requantisation.
TEST(DpuFused, AddsAnInt8TensorBesideTheArray) {
    std::mt19937 random(11);
    const Matmul shape{.input = Precision::int8,
                       .output = Precision::int8,
                       .m = 16,
                       .k = 64,
                       .n = 64,
                       .mapping = Mapping::native_tall};
    FedSums sums;
    sums.integers.resize(std::size_t{shape.m} * shape.n);
    std::ranges::generate(sums.integers, [&] { return static_cast<std::int32_t>(random()) >> 12; });
    const auto operands = random_integers(Precision::int8, sums.integers.size(), random);
    DpuBench bench;
    load_cube(bench.memory, operand_address, shape.m, shape.n, 1, operands);
    bench.memory.map(shape.c, shape.c_bytes());
    Program p = matmul_program(shape);
    add_fused_operand(p, shape, operand_address, 0x904202c0, 0, 1);
    p.set(0x4074, 5);
    p.set(0x4078, 3 << 16 | 30000);
    p.set(0x4080, 4);
    p.set(0x4084, 0x4321);
    p.set(0x4088, 26);
    const Outcome outcome = bench.run_fed(p, feed_of(shape), sums, 0x1d);
    ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
    const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, 1);
    for (std::size_t i = 0; i < got.size(); ++i) {
        const std::int64_t operand = reference_shift((sign_extend(operands[i], 8) + 5) * 30000, 3);
        const std::int64_t scaled = reference_shift(static_cast<__int128>(sums.integers[i] + operand) * 0x4321, 26);
        ASSERT_EQ(sign_extend(got[i], 8), clamp_to(scaled + 4, 8));
    }
}

// A generator that clamps the notch to 12 atoms is right from 12 pixels on.
TEST(DpuFused, ReadsSmallPlanesAtAWrongStrideWhenTheNotchIsClamped) {
    std::mt19937 random(12);
    const Matmul shape{
        .input = Precision::fp16, .output = Precision::fp16, .m = 8, .k = 64, .n = 32, .mapping = Mapping::native_tall};
    const FedSums sums = random_float_sums(shape, random);
    const auto operands = random_codes(Precision::fp16, sums.floats.size(), random, Range::moderate);
    Program p = matmul_program(shape);
    add_fused_operand(p, shape, operand_address, 0x108202c0, 2, 2);
    const auto run = [&](DpuBench& bench) {
        bench.memory.map(operand_address, 0x1000);
        load_cube(bench.memory, operand_address, shape.m, shape.n, 2, operands);
        bench.memory.map(shape.c, shape.c_bytes());
        return bench.run_fed(p, feed_of(shape), sums, 0x1d);
    };
    const auto wanted = [&](std::uint32_t surface_stride, std::uint32_t m, std::uint32_t n) {
        const std::uint32_t s = n / 8;
        const std::uint32_t atom = s % 2 * shape.m + s / 2 * surface_stride + m;  // of the operand
        const std::uint32_t plane = atom / shape.m;
        const float y = plane < 4 ? half_to_float(static_cast<std::uint16_t>(
                                        operands[std::size_t{atom % shape.m} * shape.n + plane * 8 + n % 8]))
                                  : 0.0F;
        return float_to_half(sums.floats[std::size_t{m} * shape.n + n] + y);
    };
    const auto compare = [&](const DpuBench& bench, std::uint32_t stride) {
        const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, 2);
        std::size_t wrong = 0;
        for (std::uint32_t m = 0; m < shape.m; ++m) {
            for (std::uint32_t n = 0; n < shape.n; ++n) {
                wrong += got[std::size_t{m} * shape.n + n] != wanted(stride, m, n) ? 1U : 0;
            }
        }
        return wrong;
    };
    DpuBench dense;  // a notch of one plane, as another generator writes it
    ASSERT_TRUE(run(dense).ran);
    EXPECT_EQ(compare(dense, 2 * shape.m), 0U);

    for (const std::uint16_t offset : {0x5040, 0x504c, 0x506c}) {
        p.set(offset, 12 * 16);
    }
    DpuBench strict;
    const Outcome refused = run(strict);
    EXPECT_FALSE(refused.ran);
    EXPECT_TRUE(has_finding(refused.findings, Severity::corrupt, {"DPU_RDMA.SURF_NOTCH", "plane of 8"}));
    DpuBench lenient;
    lenient.mode = Mode::lenient;
    ASSERT_TRUE(run(lenient).ran);
    EXPECT_EQ(compare(lenient, shape.m + 12), 0U);
    EXPECT_GT(compare(lenient, 2 * shape.m), 50U);
}

TEST(DpuFused, GivesEveryElementTheFirstAtomWhenTheNotchIsZero) {
    std::mt19937 random(13);
    const Matmul shape{.input = Precision::fp16,
                       .output = Precision::fp16,
                       .m = 16,
                       .k = 64,
                       .n = 32,
                       .mapping = Mapping::native_tall};
    const FedSums sums = random_float_sums(shape, random);
    const auto operands = random_codes(Precision::fp16, sums.floats.size(), random, Range::moderate);
    Program p = matmul_program(shape);
    add_fused_operand(p, shape, operand_address, 0x108202c0, 2, 2);
    p.set(0x504c, 0);
    p.set(0x506c, 0);
    for (const Mode mode : {Mode::strict, Mode::lenient}) {
        DpuBench bench;
        bench.mode = mode;
        load_cube(bench.memory, operand_address, shape.m, shape.n, 2, operands);
        bench.memory.map(shape.c, shape.c_bytes());
        const Outcome outcome = bench.run_fed(p, feed_of(shape), sums, 0x1d);
        EXPECT_TRUE(has_finding(outcome.findings, Severity::corrupt, {"DPU_RDMA.SURF_NOTCH", "first atom"}));
        EXPECT_TRUE(has_finding(outcome.findings, Severity::corrupt, {"DPU_RDMA.EW_SURF_NOTCH", "first atom"}));
        ASSERT_EQ(outcome.ran, mode == Mode::lenient);
        const auto got = read_cube(bench.memory, shape.c, shape.m, shape.n, 2);
        for (std::uint32_t i = 0; outcome.ran && i < got.size(); ++i) {
            const std::uint32_t n = i % shape.n;
            const float y = half_to_float(static_cast<std::uint16_t>(operands[n / 8 % 2 * 8 + n % 8]));
            ASSERT_EQ(got[i], float_to_half(sums.floats[i] + y));
        }
    }
}

}  // namespace
}  // namespace npu::sim::test
