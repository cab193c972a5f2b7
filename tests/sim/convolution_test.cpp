// Products through the whole machine, for each precision and each mapping of rows to the feature plane.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/cna_support.h"
#include "sim/test_support.h"

namespace npu::sim::test {
namespace {

constexpr std::uint32_t list_address = 0x1000;

KickResult run(SparseMemory& memory, const Program& program, std::uint32_t enable = 0x0d,
               const MacKernels& kernels = best_kernels()) {
    const auto words = program.words(enable);
    memory.map(list_address, words.size() * 8);
    write_words(memory, list_address, words);
    CoreOptions options;
    options.kernels = &kernels;
    Core core(options);
    return core.run(kick_at(list_address, words.size()), memory);
}

struct Formats {
    Precision input;
    Precision output;
    std::uint32_t k;  // at least two blocks and two rounding groups
    std::uint32_t n;  // at least two kernel groups
};

const std::vector<Formats> all_formats = {
    {Precision::int8, Precision::int32, 96, 64},   {Precision::int8, Precision::fp32, 96, 64},
    {Precision::int4, Precision::int16, 128, 128}, {Precision::fp16, Precision::fp32, 96, 48},
    {Precision::fp16, Precision::fp16, 96, 48},    {Precision::bf16, Precision::fp32, 96, 48},
    {Precision::tf32, Precision::fp32, 80, 48},
};

TEST(Convolution, IsTheProductForEveryFormatAndMapping) {
    std::mt19937 random(1);
    for (const Formats& formats : all_formats) {
        for (const Mapping mapping :
             {Mapping::row_major, Mapping::native_wide, Mapping::native_tall, Mapping::panel8, Mapping::plane}) {
            for (const std::uint32_t m : {1U, 2U, 3U, 7U, 40U}) {
                if ((mapping == Mapping::panel8 || mapping == Mapping::plane) && m != 40) {
                    continue;
                }
                for (const Range range : {Range::full, Range::moderate}) {
                    const Matmul matmul{.input = formats.input,
                                        .output = formats.output,
                                        .m = m,
                                        .k = formats.k,
                                        .n = formats.n,
                                        .mapping = mapping};
                    SparseMemory memory;
                    const Operands operands = random_operands(matmul, random, range);
                    load_operands(memory, matmul, operands);
                    const KickResult result = run(memory, matmul_program(matmul));
                    ASSERT_TRUE(result.finished) << list_findings(result.findings);
                    EXPECT_EQ(result.interrupts, 0x100U);
                    ASSERT_EQ(read_product(memory, matmul), reference_product(matmul, operands))
                        << rockchip::info(formats.input).name << " mapping " << static_cast<int>(mapping) << " M " << m;
                }
            }
        }
    }
}

TEST(Convolution, IsTheSameWithThePortableKernels) {
    std::mt19937 random(2);
    for (const Formats& formats : all_formats) {
        const Matmul matmul{.input = formats.input, .output = formats.output, .m = 5, .k = formats.k, .n = formats.n};
        SparseMemory memory;
        const Operands operands = random_operands(matmul, random, Range::full);
        load_operands(memory, matmul, operands);
        const KickResult result = run(memory, matmul_program(matmul), 0x0d, portable_kernels());
        ASSERT_TRUE(result.finished) << list_findings(result.findings);
        EXPECT_EQ(read_product(memory, matmul), reference_product(matmul, operands));
    }
}

TEST(Convolution, ReachesTheLargestSizesOfOneTask) {
    std::mt19937 random(3);
    for (const auto& [k, n] : {std::pair{8192U, 64U}, std::pair{64U, 8192U}}) {
        const Matmul matmul{.input = Precision::int8, .output = Precision::int32, .m = 1, .k = k, .n = n};
        SparseMemory memory;
        Operands operands = random_operands(matmul, random, Range::full);
        std::ranges::fill(operands.a, 0x80);
        std::fill_n(operands.b.begin(), matmul.k, 0x80U);  // the largest sum there is
        load_operands(memory, matmul, operands);
        const KickResult result = run(memory, matmul_program(matmul));
        ASSERT_TRUE(result.finished) << list_findings(result.findings);
        const auto product = read_product(memory, matmul);
        EXPECT_EQ(product[0], k << 14);
        EXPECT_EQ(product, reference_product(matmul, operands));
    }
}

TEST(Convolution, TakesATileOfALargerMatrixAndWritesItIntoALargerResult) {
    std::mt19937 random(4);
    // Rows 8..23 and output channels 16..47 of a native 64 x 64 by 64 x 64 product.
    const Matmul whole{.input = Precision::fp16,
                       .output = Precision::fp32,
                       .m = 64,
                       .k = 64,
                       .n = 64,
                       .mapping = Mapping::native_wide};
    SparseMemory memory;
    const Operands operands = random_operands(whole, random, Range::moderate);
    load_operands(memory, whole, operands);
    Matmul tile = whole;
    tile.m = 16;
    tile.n = 32;
    Program program = matmul_program(tile);
    program.set(0x100c, program.get(0x100c) | 1U << 29);
    program.set(0x1070, whole.a + 16 * 8);
    program.set(0x107c, 64);
    program.set(0x1080, 64 - 16);
    program.set(0x1110, whole.b + 16 * 64 * 2);
    program.set(0x4020, whole.c + 16 * 8 + (16 / 4) * 64 * 16);
    program.set(0x4024, 16 * 64);
    program.set(0x40c0, 16 * 64 * 4);
    const KickResult result = run(memory, program);
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    const auto expected = reference_product(whole, operands);
    const auto got = read_product(memory, whole);
    for (std::uint32_t m = 0; m < 64; ++m) {
        for (std::uint32_t n = 0; n < 64; ++n) {
            const bool inside = m >= 8 && m < 24 && n >= 16 && n < 48;
            ASSERT_EQ(got[m * 64 + n], inside ? expected[m * 64 + n] : 0xeeeeeeeeU) << m << " " << n;
        }
    }
}

TEST(Convolution, WithRdmaSwitchedOffComputesTheSame) {
    std::mt19937 random(5);
    const Matmul matmul{.input = Precision::fp16, .output = Precision::fp16, .m = 8, .k = 64, .n = 32};
    SparseMemory memory;
    const Operands operands = random_operands(matmul, random, Range::moderate);
    load_operands(memory, matmul, operands);
    Program program = matmul_program(matmul);
    program.set(0x5004, 0xe);
    program.set(0x500c, 0);
    program.set(0x5010, 7);
    program.set(0x5014, 31);
    program.set(0x501c, 0);
    program.set(0x5028, 0);
    program.set(0x5034, 1);
    program.set(0x5044, 0x7818);
    const KickResult result = run(memory, program, 0x1d);
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    EXPECT_EQ(read_product(memory, matmul), reference_product(matmul, operands));
}

// int8 outputs: sat8(round(acc * scale >> shift) + offset), in real arithmetic here.
std::uint32_t requantised(std::int32_t sum, int scale, unsigned shift, int offset, bool away) {
    const long double exact = std::ldexp(static_cast<long double>(sum) * scale, -static_cast<int>(shift));
    long double rounded = std::floor(exact);
    const long double rest = exact - rounded;
    if (rest > 0.5L || (rest == 0.5L && (away ? exact > 0 : std::fmod(rounded, 2.0L) != 0))) {
        rounded += 1;
    }
    return static_cast<std::uint8_t>(static_cast<std::int8_t>(std::clamp(rounded + offset, -128.0L, 127.0L)));
}

TEST(Convolution, RequantisesToInt8WithBothRoundingsSignedScaleAndOffset) {
    std::mt19937 random(6);
    struct Conversion {
        int scale;
        unsigned shift;
        int offset;
    };
    const std::vector<Conversion> conversions = {
        {0x4000, 22, 0}, {1, 9, -7}, {-3, 11, 100}, {1, 0, 0}, {-32768, 24, 3}};
    for (const Conversion& conversion : conversions) {
        for (const bool away : {false, true}) {
            Matmul matmul{.input = Precision::int8, .output = Precision::int8, .m = 9, .k = 64, .n = 64};
            SparseMemory memory;
            const Operands operands = random_operands(matmul, random, Range::full);
            load_operands(memory, matmul, operands);
            Program program = matmul_program(matmul);
            program.set(0x4050, 0x124);  // as vendor programs write it: OW on, with operand 0
            program.set(0x4080, static_cast<std::uint32_t>(conversion.offset));
            program.set(0x4084, static_cast<std::uint16_t>(conversion.scale));
            program.set(0x4088, conversion.shift | (away ? 1U << 30 : 0));
            const KickResult result = run(memory, program);
            ASSERT_TRUE(result.finished) << list_findings(result.findings);
            matmul.output = Precision::int32;
            std::vector<std::uint32_t> expected = reference_product(matmul, operands);
            for (std::uint32_t& value : expected) {
                value = requantised(static_cast<std::int32_t>(value), conversion.scale, conversion.shift,
                                    conversion.offset, away);
            }
            matmul.output = Precision::int8;
            EXPECT_EQ(read_product(memory, matmul), expected);
        }
    }
}

TEST(Convolution, SaturatesInt4SumsToInt16) {
    const Matmul matmul{.input = Precision::int4, .output = Precision::int16, .m = 2, .k = 1024, .n = 64};
    SparseMemory memory;
    Operands operands{std::vector<std::uint32_t>(2 * 1024, 8), std::vector<std::uint32_t>(64 * 1024, 8)};
    std::fill_n(operands.a.begin() + 1024, 1024, 7U);  // row 1: 7 * -8
    load_operands(memory, matmul, operands);
    const KickResult result = run(memory, matmul_program(matmul));
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    const auto product = read_product(memory, matmul);
    EXPECT_EQ(product[0], 0x7fffU);
    EXPECT_EQ(product[64], 0x8000U);
}

// A whole program with a window, from command words to the output cube: dense native output, everything bypassed.
TEST(Convolution, WithAWindowGoesThroughTheWholeMachine) {
    std::mt19937 random(8);
    for (const Formats& formats : all_formats) {
        if (formats.output != Precision::int32 && formats.output != Precision::fp32) {
            continue;
        }
        ConvolutionCase shape;
        shape.input = formats.input;
        shape.width = 7, shape.height = 6;
        shape.channels = formats.k, shape.kernels = shape.output_channels = formats.n;
        shape.kernel_width = 3, shape.kernel_height = 5;
        shape.pad_left = 1, shape.pad_top = 2;
        set_output_size(shape, 1, 2);
        const Matmul product{.input = formats.input,
                             .output = formats.output,
                             .m = shape.pixels(),
                             .k = shape.channels,
                             .n = shape.kernels,
                             .mapping = Mapping::native_wide};
        Program program = convolution_program(shape);
        const Program writer = matmul_program(product);
        for (const std::uint64_t word : writer.words()) {
            if ((word & 0xf000) == 0x4000) {
                program.set(static_cast<std::uint16_t>(word), static_cast<std::uint32_t>(word >> 16));
            }
        }
        program.set(0x4030, shape.output_width - 1);
        program.set(0x4034, shape.output_height - 1);
        program.set(0x405c, (shape.output_height - 1) << 16 | (shape.output_width - 1));
        SparseMemory memory;
        const Tensors tensors = random_tensors(shape, random, Range::full);
        load_tensors(memory, shape, tensors);
        memory.map(product.c, product.c_bytes());
        memory.fill(product.c, std::byte{0xee}, product.c_bytes());
        const KickResult result = run(memory, program);
        ASSERT_TRUE(result.finished) << list_findings(result.findings);
        const Sums expected = expected_sums(shape, tensors);
        const std::vector<std::uint32_t> got = read_product(memory, product);
        for (std::size_t i = 0; i < got.size(); ++i) {
            float value = 0;
            if (shape.floating()) {
                value = expected.floats[i];
            } else if (formats.output == Precision::fp32) {
                value = static_cast<float>(expected.integers[i]);
            } else {
                ASSERT_EQ(got[i], static_cast<std::uint32_t>(expected.integers[i]));
                continue;
            }
            ASSERT_EQ(got[i], single_code(value)) << rockchip::info(formats.input).name << " " << i;
        }
    }
}

TEST(Convolution, CountsItsWorkAndTraffic) {
    std::mt19937 random(7);
    const Matmul matmul{.input = Precision::fp16, .output = Precision::fp32, .m = 8, .k = 64, .n = 32};
    SparseMemory memory;
    load_operands(memory, matmul, random_operands(matmul, random, Range::moderate));
    const Program program = matmul_program(matmul);
    const KickResult result = run(memory, program);
    ASSERT_EQ(result.work.size(), 1U);
    EXPECT_EQ(result.work[0].macs, 8U * 64 * 32);
    EXPECT_EQ(result.work[0].feature_bytes, 8U * 64 * 2);
    EXPECT_EQ(result.work[0].weight_bytes, 32U * 64 * 2);
    EXPECT_EQ(result.work[0].output_bytes, 8U * 32 * 4);
    EXPECT_EQ(result.work[0].command_words, (program.size() + 4 + 1) / 2 * 2);
    EXPECT_EQ(result.work[0].precision, Precision::fp16);
}

}  // namespace
}  // namespace npu::sim::test
