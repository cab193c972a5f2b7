// Whole programs of the field, run by a core: copies, accumulation chains on the DPU, dequantisation, activation tables
// that outlive the task that loads them, residual connections. Formats and words are those of the published programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/float_bits.h"
#include "sim/dpu_support.h"

namespace npu::sim::test {
namespace {

constexpr std::uint32_t list_address = 0x1000;

// A chain: each list in its own 16 KiB.
struct Chain {
    SparseMemory memory;
    Core core{{}};
    std::vector<std::pair<std::vector<std::uint64_t>, std::uint32_t>> lists;  // body words, enable

    void add(const std::vector<std::uint64_t>& uploads, const Program& program, std::uint32_t enable) {
        auto words = uploads;
        const auto body = program.words(enable);
        words.insert(words.end(), body.begin(), body.end());
        lists.emplace_back(words, enable);
    }
    void add(const Program& program, std::uint32_t enable) { add({}, program, enable); }

    KickResult run() {
        for (std::size_t i = 0; i < lists.size(); ++i) {
            auto& words = lists[i].first;
            const auto at = static_cast<std::uint32_t>(list_address + i * 0x4000);
            if (i + 1 < lists.size()) {
                const auto next = lists[i + 1].first.size();
                words[words.size() - 4] = command_word(0x0010, at + 0x4000);
                words[words.size() - 3] = command_word(0x0014, static_cast<std::uint32_t>((next + 1) / 2 - 1));
            }
            memory.map(at, words.size() * 8);
            write_words(memory, at, words);
        }
        return core.run(kick_at(list_address, lists[0].first.size(), static_cast<std::uint32_t>(lists.size())), memory);
    }
};

TEST(DpuProgram, CopiesRowsIntoTheLayoutThatAProductReads) {
    constexpr std::uint32_t rows = 5;
    constexpr std::uint32_t channels = 96;
    constexpr std::uint32_t source = 0x100000;
    constexpr std::uint32_t destination = 0x200000;
    std::mt19937 random(1);
    Chain chain;
    chain.memory.map(source, rows * channels);
    chain.memory.map(destination, rows * channels);
    std::vector<std::uint32_t> values(rows * channels);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
        values[i] = random() & 0xff;
        write_element(chain.memory.at(source), 8ULL * i, 8, values[i]);
    }
    constexpr std::uint32_t order[] = {3, 0, 4, 4, 1};  // gathered
    for (std::uint32_t row = 0; row < rows; ++row) {
        Program p = flying_program({.input = Precision::int8,
                                    .output = Precision::int8,
                                    .channels = channels,
                                    .source = source + order[row] * channels,
                                    .destination = destination + row * 16});
        p.set(0x4024, rows * 16);
        p.set(0x40c0, rows * 16);
        chain.add(p, 0x18);
    }
    const KickResult result = chain.run();
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    EXPECT_EQ(result.work[0].operand_bytes, channels);
    EXPECT_EQ(result.work[0].output_bytes, channels);
    const auto got = read_cube(chain.memory, destination, rows, channels, 1);
    for (std::uint32_t row = 0; row < rows; ++row) {
        for (std::uint32_t c = 0; c < channels; ++c) {
            ASSERT_EQ(got[row * channels + c], values[order[row] * channels + c]);
        }
    }
}

// int8 products over slices of K, added up by the DPU in place, the last sum as fp32: exact beyond 2^24.
TEST(DpuProgram, AddsUpInt32SumsOfAProductCutAlongK) {
    std::mt19937 random(2);
    constexpr std::uint32_t waves = 3;
    Matmul shape{.input = Precision::int8,
                 .output = Precision::int32,
                 .m = 8,
                 .k = 2048,
                 .n = 64,
                 .mapping = Mapping::native_wide};
    std::vector<Operands> operands;
    std::vector<std::int64_t> exact(std::size_t{shape.m} * shape.n);
    Chain chain;
    constexpr std::uint32_t final = 0x50000000;
    chain.memory.map(final, exact.size() * 4);
    const std::uint32_t first = shape.c;
    for (std::uint32_t wave = 0; wave < waves; ++wave) {
        Operands part = random_operands(shape, random, Range::full);
        std::ranges::transform(part.a, part.a.begin(),
                               [](std::uint32_t x) { return (x & 0x3f) | 0x40; });  // large sums
        std::ranges::transform(part.b, part.b.begin(), [](std::uint32_t x) { return (x & 0x3f) | 0x40; });
        shape.a = 0x10000000 + wave * 0x1000000;
        shape.b = 0x20000000 + wave * 0x1000000;
        shape.c = first + wave * 0x1000000;
        load_operands(chain.memory, shape, part);
        const auto partial = reference_product(shape, part);
        for (std::size_t i = 0; i < exact.size(); ++i) {
            exact[i] += static_cast<std::int32_t>(partial[i]);
        }
        chain.add(matmul_program(shape), 0x0d);
        if (wave > 0) {
            FlyingShape sum{.input = Precision::int32,
                            .output = Precision::int32,
                            .width = shape.m,
                            .channels = shape.n,
                            .source = first,
                            .operand = shape.c,
                            .destination = first};
            if (wave + 1 == waves) {
                sum.output = Precision::fp32;
                sum.destination = final;
            }
            Program p = flying_program(sum);
            add_operand(p, sum, 0x10c203c0, 4);
            EXPECT_EQ(p.get(0x4010), wave + 1 == waves ? 0xb0000004U : 0x90000004U);
            EXPECT_EQ(p.get(0x5044), 0x27881U);
            EXPECT_EQ(p.get(0x5034), 0x4000000cU);
            chain.add(p, 0x18);
        }
    }
    const KickResult result = chain.run();
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    EXPECT_EQ(result.tasks_finished, 5U);
    const auto got = read_cube(chain.memory, final, shape.m, shape.n, 4);
    std::size_t large = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        EXPECT_EQ(std::bit_cast<float>(got[i]), static_cast<float>(exact[i]));
        large += std::abs(exact[i]) > 1 << 24 ? 1U : 0;
    }
    EXPECT_GT(large, 100U) << "the sums must be too large for exact floats";
}

// One row at a time out of a cube of several: (sum * scale of the row) * scale of the channel, both fp16.
TEST(DpuProgram, DequantisesSumsWithAScalePerRowAndPerChannel) {
    std::mt19937 random(3);
    constexpr std::uint32_t rows = 6;
    constexpr std::uint32_t channels = 128;
    constexpr std::uint32_t sums = 0x100000;
    constexpr std::uint32_t scales = 0x200000;
    constexpr std::uint32_t outputs = 0x300000;
    Chain chain;
    std::vector<std::uint32_t> codes(rows * channels);
    for (std::uint32_t& code : codes) {
        code = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(random()) >> 8));
    }
    load_cube(chain.memory, sums, rows, channels, 4, codes);
    std::vector<std::uint32_t> channel_scales = random_codes(Precision::fp16, channels, random, Range::moderate);
    channel_scales[3] = 0x0001;
    channel_scales[4] = 0x7bff;
    chain.memory.map(scales, channels * 4);
    for (std::uint32_t c = 0; c < channels; ++c) {
        write_element(chain.memory.at(scales), 32ULL * c, 32, channel_scales[c]);
    }
    chain.memory.map(outputs, rows * channels * 4);
    const std::vector<std::uint32_t> row_scales = {0x3555, 0x0400, 0x0001, 0x7bff, 0xb800, 0x2e66};
    for (std::uint32_t row = 0; row < rows; ++row) {
        const FlyingShape shape{.input = Precision::fp32,
                                .output = Precision::fp32,
                                .channels = channels,
                                .source = sums + row * 16,
                                .operand = scales,
                                .destination = outputs + row * channels * 4};
        Program p = flying_program(shape);
        add_operand(p, shape, 0x10c003c4, 4);
        EXPECT_EQ(p.get(0x5044), 0x2f8a1U);
        p.set(0x4040, 0x42);
        p.set(0x4048, row_scales[row] << 16);
        p.set(0x504c, (rows - 1) * 16);
        chain.add(p, 0x18);
    }
    const KickResult result = chain.run();
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    for (std::uint32_t row = 0; row < rows; ++row) {
        for (std::uint32_t c = 0; c < channels; ++c) {
            const auto sum = static_cast<double>(std::bit_cast<float>(codes[row * channels + c]));
            const auto scaled = static_cast<float>(sum * half_to_float(static_cast<std::uint16_t>(row_scales[row])));
            const auto wanted = static_cast<float>(static_cast<double>(scaled) *
                                                   half_to_float(static_cast<std::uint16_t>(channel_scales[c])));
            const std::uint32_t got = read_element(chain.memory.at(outputs), 32ULL * (row * channels + c), 32);
            ASSERT_EQ(std::bit_cast<float>(got), wanted) << row << " " << c;
        }
    }
}

std::vector<std::uint64_t> table_upload(const std::function<double(double)>& curve) {
    std::vector<std::uint64_t> words;
    for (const std::uint32_t table : {0U, 1U}) {
        words.push_back(command_word(0x4100, (2 | table) << 16));
        for (int i = 0; i <= 512; ++i) {
            const long entry = std::lrint(std::clamp(curve(table == 0 ? i - 512 : i), -32768.0, 32767.0));
            words.push_back(command_word(0x4104, static_cast<std::uint16_t>(entry)));
        }
    }
    return words;
}

// SiLU with the constants of a published program: 64 intervals per unit, codes of 1/4096, slope 1 above the table.
TEST(DpuProgram, KeepsActivationTablesFromTaskToTaskAndFromJobToJob) {
    std::mt19937 random(4);
    const FlyingShape shape{.input = Precision::fp16, .output = Precision::fp16, .width = 17, .channels = 64};
    const auto codes = random_codes(Precision::fp16, 17 * 64, random, Range::moderate);
    Chain chain;
    load_cube(chain.memory, shape.source, 17, 64, 2, codes);
    chain.memory.map(shape.destination, 0x10000);
    const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
    const auto upload = table_upload([&](double step) { return 4096 * silu(step / 64); });
    Program load = flying_program({.input = Precision::fp16,
                                   .output = Precision::fp16,
                                   .channels = 8,
                                   .source = shape.source,
                                   .destination = shape.destination + 0x8000});
    Program use = flying_program(shape);
    use.set(0x4060, 0x20040);
    use.set(0x4064, 0);
    use.set(0x4068, std::uint32_t{float_to_half(4096)} << 16);
    use.set(0x4070, 0x300);
    use.set(0x4088, 0x8000c000);
    use.set(0x4108, 0x68);
    use.set(0x410c, 0x60600);
    use.set(0x4110, 0xffff8000);
    use.set(0x4114, 0);
    use.set(0x4118, 0);
    use.set(0x411c, 32768);
    use.set(0x4120, 0);
    use.set(0x4124, 0);
    use.set(0x4128, 8192U << 16);
    use.set(0x412c, 13 << 5);
    chain.add(upload, load, 0x18);
    chain.add(use, 0x18);
    const auto check = [&](const KickResult& result) {
        ASSERT_TRUE(result.finished) << list_findings(result.findings);
        const auto got = read_cube(chain.memory, shape.destination, 17, 64, 2);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            const float x = half_to_float(static_cast<std::uint16_t>(codes[i]));
            EXPECT_NEAR(half_to_float(static_cast<std::uint16_t>(got[i])), silu(x), 0.002) << x;
        }
        chain.memory.fill(shape.destination, std::byte{0xee}, 0x8000);
    };
    check(chain.run());
    // Another job, without the upload.
    chain.lists.erase(chain.lists.begin());
    check(chain.run());
    chain.core.soft_reset();
    const KickResult lost = chain.run();
    EXPECT_FALSE(lost.finished);
    EXPECT_TRUE(has_finding(lost.findings, Severity::corrupt, {"DPU.EW_CFG", "never"}) ||
                has_finding(lost.findings, Severity::corrupt, {"DPU.EW_CFG", "not all 2 x 513"}))
        << list_findings(lost.findings);
}

// The stages of a root mean square: squares as bf16, a mean by a product with ones in bf16 with the constants in BS and BN.
TEST(DpuProgram, SquaresATensorIntoBf16AndAveragesIt) {
    std::mt19937 random(5);
    constexpr std::uint32_t rows = 4;
    constexpr std::uint32_t channels = 128;
    Matmul sum{.input = Precision::bf16,
               .output = Precision::bf16,
               .m = rows,
               .k = channels,
               .n = 16,
               .mapping = Mapping::native_wide};
    const FlyingShape square{.input = Precision::fp16,
                             .output = Precision::bf16,
                             .width = rows,
                             .channels = channels,
                             .operand = 0x10000000,
                             .destination = 0x18000000};
    sum.a = square.destination;
    const auto codes = random_codes(Precision::fp16, rows * channels, random, Range::moderate);
    Chain chain;
    load_operands(
        chain.memory, sum,
        {std::vector<std::uint32_t>(rows * channels, 0x3f80), std::vector<std::uint32_t>(16 * channels, 0x3f80)});
    load_cube(chain.memory, square.source, rows, channels, 2, codes);
    Program p = flying_program(square);
    add_operand(p, square, 0x108003c4, 2);
    EXPECT_EQ(p.get(0x4010), 0x68000002U);
    chain.add(p, 0x18);
    Program q = matmul_program(sum);
    const float epsilon = 0.04096F / 32;
    q.set(0x4010, 0x6c000003);
    q.set(0x4040, 0x20040);
    q.set(0x4044, std::bit_cast<std::uint32_t>(epsilon));
    q.set(0x4048, std::uint32_t{float_to_bfloat(1.0F / 16)} << 16);
    q.set(0x4050, 0x126);
    q.set(0x4060, 0x42);
    q.set(0x4068, std::uint32_t{float_to_bfloat(1.0F / 8)} << 16);
    q.set(0x4084, 0x10001);
    q.set(0x40c0, q.get(0x4024) * 2);
    chain.add(q, 0x0d);
    const KickResult result = chain.run();
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    const auto got = read_cube(chain.memory, sum.c, rows, 16, 2);
    for (std::uint32_t row = 0; row < rows; ++row) {
        double total = 0;
        for (std::uint32_t c = 0; c < channels; ++c) {
            const float x = half_to_float(static_cast<std::uint16_t>(codes[row * channels + c]));
            total += bfloat_to_float(float_to_bfloat(x * x));
        }
        const double wanted = (total + epsilon) / 128;
        EXPECT_NEAR(bfloat_to_float(static_cast<std::uint16_t>(got[row * 16])) / wanted, 1, 0.005);
    }
}

TEST(DpuProgram, RunsTheUnaryOperationsOfTheManualWithAWarning) {
    std::mt19937 random(6);
    const FlyingShape shape{.input = Precision::fp16, .output = Precision::fp16, .width = 4, .channels = 16};
    const auto codes = random_codes(Precision::fp16, 64, random, Range::moderate);
    for (const std::uint32_t algorithm : {5U, 6U, 7U, 8U}) {
        DpuBench bench;
        load_cube(bench.memory, shape.source, 4, 16, 2, codes);
        load_cube(bench.memory, shape.operand, 4, 16, 2, codes);
        bench.memory.map(shape.destination, 0x1000);
        Program p = flying_program(shape);
        add_operand(p, shape, 0x108002c0 | algorithm << 16, 2);
        const Outcome outcome = bench.run_flying(p);
        ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
        EXPECT_TRUE(has_finding(outcome.findings, Severity::warning, {"DPU.EW_CFG", "register manual"}));
        const auto got = read_cube(bench.memory, shape.destination, 4, 16, 2);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            const float x = half_to_float(static_cast<std::uint16_t>(codes[i]));
            const float wanted = algorithm == 5   ? std::fabs(x)
                                 : algorithm == 6 ? -x
                                 : algorithm == 7 ? std::floor(x)
                                                  : std::ceil(x);
            ASSERT_EQ(got[i], float_to_half(wanted)) << x;
        }
    }
}

// Some pixels out of a plane: lines of a cube with one surface, a gap after each.
TEST(DpuProgram, SkipsTheGapAfterEachLine) {
    std::mt19937 random(7);
    const FlyingShape shape{
        .input = Precision::int8, .output = Precision::int8, .width = 3, .height = 4, .channels = 16};
    constexpr std::uint32_t pitch = 10;
    DpuBench bench;
    std::vector<std::uint32_t> whole(pitch * 4 * 16);
    std::ranges::generate(whole, [&] { return random() & 0xff; });
    load_cube(bench.memory, shape.source, pitch * 4, 16, 1, whole);
    load_cube(bench.memory, shape.operand, pitch * 4, 16, 1, whole);
    bench.memory.map(shape.destination, 0x1000);
    Program p = flying_program(shape);
    add_operand(p, shape, 0x106003c0, 1);  // maximum of an element and itself
    p.set(0x5048, (pitch - 3) << 19);
    p.set(0x5010, (pitch - 3) << 16 | 3);
    const Outcome outcome = bench.run_flying(p);
    ASSERT_TRUE(outcome.ran) << list_findings(outcome.findings);
    const auto got = read_cube(bench.memory, shape.destination, 12, 16, 1);
    for (std::uint32_t h = 0; h < 4; ++h) {
        for (std::uint32_t i = 0; i < 3 * 16; ++i) {
            ASSERT_EQ(got[h * 48 + i], whole[h * pitch * 16 + i]);
        }
    }
}

}  // namespace
}  // namespace npu::sim::test
