// Every mistake that silicon answers with a timeout or with wrong numbers: sprung once each. The task must not run,
// nothing may be written, and the finding must name the register and what is wrong with it.
#include <gtest/gtest.h>

#include <functional>

#include "sim/test_support.h"

namespace npu::sim::test {
namespace {

constexpr std::uint32_t list_address = 0x1000;

Matmul small_fp16() { return {.input = Precision::fp16, .output = Precision::fp32, .m = 8, .k = 64, .n = 32}; }

struct Attempt {
    KickResult result;
    bool untouched;
};

Attempt attempt(const Matmul& matmul, const std::function<void(std::vector<std::uint64_t>&)>& edit_words,
                const std::function<void(Program&)>& edit, std::uint32_t enable = 0x0d) {
    std::mt19937 random(1);
    SparseMemory memory;
    load_operands(memory, matmul, random_operands(matmul, random, Range::moderate));
    memory.map(matmul.c, 0x100000);
    memory.fill(matmul.c, std::byte{0xee}, 0x100000);
    memory.map(matmul.b, 0x400000);
    memory.map(matmul.a, 0x400000);
    Program program = matmul_program(matmul);
    edit(program);
    auto words = program.words(enable);
    edit_words(words);
    memory.map(list_address, words.size() * 8);
    write_words(memory, list_address, words);
    Core core({});
    Attempt done{core.run(kick_at(list_address, words.size()), memory), true};
    for (std::uint64_t i = 0; i < 0x100000; ++i) {
        done.untouched = done.untouched && *memory.at(matmul.c + i) == std::byte{0xee};
    }
    return done;
}

struct Hazard {
    const char* name;
    Severity severity;
    std::vector<std::string> texts;
    std::vector<std::pair<std::uint16_t, std::uint32_t>> writes;
};

void expect_refused(const Matmul& matmul, const Hazard& hazard, std::uint32_t enable = 0x0d) {
    const Attempt done = attempt(
        matmul, [](auto&) {},
        [&](Program& program) {
            for (const auto& [offset, value] : hazard.writes) {
                program.set(offset, value);
            }
        },
        enable);
    EXPECT_FALSE(done.result.finished) << hazard.name;
    EXPECT_EQ(done.result.tasks_finished, 0U) << hazard.name;
    EXPECT_TRUE(done.untouched) << hazard.name;
    EXPECT_TRUE(has_finding(done.result.findings, hazard.severity, hazard.texts))
        << hazard.name << ":\n"
        << list_findings(done.result.findings);
}

TEST(Refusal, DoesNotHappenToTheProgramThatAllTheseTestsStartFrom) {
    const Attempt done = attempt(
        small_fp16(), [](auto&) {}, [](Program&) {});
    EXPECT_TRUE(done.result.finished) << list_findings(done.result.findings);
    EXPECT_FALSE(done.untouched);
    EXPECT_TRUE(done.result.findings.empty()) << list_findings(done.result.findings);
}

TEST(Refusal, NamesEachRegisterOfTheCnaAndCoreThatIsWrong) {
    const auto hang = Severity::hang;
    const auto corrupt = Severity::corrupt;
    const auto unmodelled = Severity::unmodelled;
    const std::vector<Hazard> hazards = {
        {"input precision that means nothing", hang, {"CNA.CONV_CON1", "means nothing"}, {{0x100c, 0x20000240}}},
        {"precisions differ inside the CNA", hang, {"CNA.CONV_CON1", "differs"}, {{0x100c, 0x200001a0}}},
        {"unknown mode", unmodelled, {"CNA.CONV_CON1", "modes"}, {{0x100c, 0x20000121}}},
        {"deconvolution", unmodelled, {"CNA.CONV_CON1", "deconvolution", "zeros"}, {{0x100c, 0x20010120}}},
        {"image input", unmodelled, {"CNA.CONV_CON1", "ARGB_IN", "line stride"}, {{0x100c, 0x60008120}}},
        {"unknown bits of the mode", unmodelled, {"CNA.CONV_CON1", "0x80000000"}, {{0x100c, 0xa0000120}}},
        {"grains that spill over their field", corrupt, {"CNA.CONV_CON2", "10 bits", "wraps"}, {{0x1010, 1024 << 4}}},
        {"vendor multi-core bits", unmodelled, {"CNA.CONV_CON2", "between cores"}, {{0x1010, 0x20000020}}},
        {"kernel group", unmodelled, {"CNA.CONV_CON2", "not explained"}, {{0x1010, 0x00010020}}},
        {"stride 0", hang, {"CNA.CONV_CON3", "never advances"}, {{0x1014, 0x8}}},
        {"stride of a deconvolution", unmodelled, {"CNA.CONV_CON3", "deconvolution"}, {{0x1014, 0x109}}},
        {"padding that spills over its field", corrupt, {"CNA.PAD_CON0", "4 bits"}, {{0x1068, 0x100}}},
        {"outputs beyond the plane", hang, {"CORE.DATAOUT_SIZE_0", "does not touch"}, {{0x1014, 0x13}}},
        {"input converter", unmodelled, {"CNA.CVT_CON0", "fp16"}, {{0x104c, 0xa}}},
        {"fully connected", unmodelled, {"CNA.FC_CON0", "not explained"}, {{0x1060, 1}}},
        {"fully connected offset", unmodelled, {"CNA.FC_CON1"}, {{0x1064, 1}}},
        {"fully connected weights", unmodelled, {"CNA.FC_CON2"}, {{0x1074, 1}}},
        {"empty plane", hang, {"CNA.DATA_SIZE0", "empty"}, {{0x1020, 8}}},
        {"height that wraps", corrupt, {"CNA.DATA_SIZE0", "11 bits", "wraps"}, {{0x1020, 0x10808}}},
        {"no channels", hang, {"CNA.DATA_SIZE1", "no channels"}, {{0x1024, 0}}},
        {"K that is no whole atom", corrupt, {"CNA.DATA_SIZE1", "K = 68", "8 channels"}, {{0x1024, 67 << 16 | 68}}},
        {"K above the limit", corrupt, {"CNA.DATA_SIZE1", "K = 8224", "8192"}, {{0x1024, 8223 << 16 | 8224}}},
        {"output width differs", hang, {"CNA.DATA_SIZE2", "disagree"}, {{0x1028, 2}}},
        {"atomics differ", hang, {"CNA.DATA_SIZE3", "disagree"}, {{0x102c, 9}}},
        {"unaligned features", hang, {"CNA.FEATURE_DATA_ADDR", "multiples of 16"}, {{0x1070, 0x10000008}}},
        {"line stride overflow", corrupt, {"CNA.DMA_CON1", "28 bits"}, {{0x107c, 0x10000008}}},
        {"surface stride overflow", corrupt, {"CNA.DMA_CON2", "28 bits"}, {{0x1080, 0xfffffff8}}},
        {"kernels without an extent", hang, {"CNA.WEIGHT_SIZE2", "no weights"}, {{0x1038, 0x00010020}}},
        {"no kernels", hang, {"CNA.WEIGHT_SIZE2", "N = 0"}, {{0x1038, 0x01010000}}},
        {"too many kernels", corrupt, {"CNA.WEIGHT_SIZE2", "N = 8208", "8192"}, {{0x1038, 0x01012010}}},
        {"unknown bits of the kernels", unmodelled, {"CNA.WEIGHT_SIZE2", "unknown"}, {{0x1038, 0x21010020}}},
        {"part of a kernel group",
         corrupt,
         {"CORE.DATAOUT_SIZE_1", "N = 24", "16 kernels", "silently wrong"},
         {{0x1038, 0x01010018}, {0x1030, 24 * 128}, {0x3018, 23}}},
        {"bytes per kernel", hang, {"CNA.WEIGHT_SIZE1", "must be 0x80"}, {{0x1034, 0x40}}},
        {"weight bytes", hang, {"CNA.WEIGHT_SIZE0", "must be 0x1000"}, {{0x1030, 0x800}}},
        {"unaligned weights", hang, {"CNA.DCOMP_ADDR0", "multiples of 16"}, {{0x1110, 0x20000004}}},
        {"compressed floats", unmodelled, {"CNA.DCOMP_CTRL", "int8"}, {{0x1100, 1}}},
        {"unknown codec", unmodelled, {"CNA.DCOMP_REGNUM", "0x55555555"}, {{0x1100, 1}, {0x1104, 0x11111111}}},
        {"unknown compression", unmodelled, {"CNA.DCOMP_CTRL", "known values"}, {{0x1100, 2}}},
        {"decompressor bypass", unmodelled, {"CNA.DCOMP_CTRL", "known values"}, {{0x1100, 8}}},
        {"too many banks", hang, {"CNA.CBUF_CON0", "13 against 12"}, {{0x1040, 0x94}}},
        {"no data bank", hang, {"CNA.CBUF_CON0", "at least one bank"}, {{0x1040, 0xc0}}},
        {"no weight bank", hang, {"CNA.CBUF_CON0", "at least one bank"}, {{0x1040, 0x0c}}},
        {"FC_DATA_BANK", corrupt, {"CNA.CBUF_CON0", "FC_DATA_BANK"}, {{0x1040, 0x3b1}}},
        {"unknown bank bits", unmodelled, {"CNA.CBUF_CON0"}, {{0x1040, 0x40b1}}},
        {"weight reuse without a task before", corrupt, {"CNA.CBUF_CON0", "WEIGHT_REUSE"}, {{0x1040, 0x20b1}}},
        {"data reuse without a task before", corrupt, {"CNA.CBUF_CON0", "DATA_REUSE"}, {{0x1040, 0x10b1}}},
        {"core precision", hang, {"CORE.MISC_CFG", "precision"}, {{0x3010, 0x001}}},
        {"core depthwise alone", hang, {"CORE.MISC_CFG", "disagree", "DW_EN"}, {{0x3010, 0x203}}},
        {"CNA depthwise alone", hang, {"CORE.MISC_CFG", "disagree", "DW_EN"}, {{0x100c, 0x20000123}}},
        {"core size", hang, {"CORE.DATAOUT_SIZE_0", "disagree"}, {{0x3014, 0x60000}}},
        {"more outputs than rows",
         hang,
         {"CORE.DATAOUT_SIZE_0", "disagree", "one for each pixel"},
         {{0x3014, 0x80000}, {0x102c, 9}}},
        {"core channels", hang, {"CORE.DATAOUT_SIZE_1", "disagree"}, {{0x3018, 15}}},
        {"truncation of floats", unmodelled, {"CORE.CLIP_TRUNCATE", "floats"}, {{0x301c, 4}}},
        {"unknown truncation bits", unmodelled, {"CORE.CLIP_TRUNCATE", "unknown"}, {{0x301c, 0x80}}},
        {"unknown core bits", unmodelled, {"CORE.MISC_CFG", "unknown"}, {{0x3010, 0x80000201}}},
        {"unknown core register", unmodelled, {"CORE.UNKNOWN_3030"}, {{0x3030, 1}}},
    };
    for (const Hazard& hazard : hazards) {
        expect_refused(small_fp16(), hazard);
    }
    const Matmul four_bits{.input = Precision::int4, .output = Precision::int16, .m = 4, .k = 64, .n = 64};
    expect_refused(four_bits, {"depthwise int4", unmodelled, {"CNA.CONV_CON1", "int4"}, {{0x100c, 0x20000363}}});
    expect_refused(four_bits, {"K of int4", corrupt, {"CNA.DATA_SIZE1", "K = 48", "32 channels"}, {{0x1024, 48}}});
}

// The registers of DPU and DPU_RDMA have a file of their own, dpu_refusal_test.cpp.
TEST(Refusal, OfOutputsThatAreWrittenOverEachOther) {
    const auto corrupt = Severity::corrupt;
    for (const Hazard& hazard : std::vector<Hazard>{
             {"overlapping surfaces", corrupt, {"DPU.DST_SURF_STRIDE", "over each other"}, {{0x4024, 0}}},
             {"overlapping groups", corrupt, {"over each other"}, {{0x40c0, 0x20}}},
             {"overlapping lines", corrupt, {"over each other"}, {{0x4038, 0}}},
         }) {
        expect_refused(small_fp16(), hazard);
    }
}

TEST(Refusal, KnowsWhichBlocksMayBeStartedTogether) {
    expect_refused(small_fp16(), {"element-wise", Severity::hang, {"never written", "DPU_RDMA"}, {{0x5004, 0xe}}},
                   0x18);
    expect_refused(small_fp16(), {"pooling", Severity::hang, {"never written", "PPU"}, {{0x6004, 0xe}, {0x7004, 0xe}}},
                   0x60);
    expect_refused(small_fp16(), {"no DPU", Severity::hang, {"enable 0x5", "no known program"}, {}}, 0x05);
    expect_refused(small_fp16(), {"nothing", Severity::hang, {"enable 0x0", "no known program"}, {}}, 0);
}

TEST(Refusal, OfCommandWordsThatMeanNothing) {
    const auto refused = [](const char* text, const std::function<void(std::vector<std::uint64_t>&)>& edit) {
        const Attempt done = attempt(small_fp16(), edit, [](Program&) {});
        EXPECT_FALSE(done.result.finished);
        EXPECT_TRUE(done.untouched);
        EXPECT_TRUE(has_finding(done.result.findings, Severity::hang, {text})) << text << "\n"
                                                                               << list_findings(done.result.findings);
    };
    refused("no such register", [](auto& words) { words[3] = command_word(0x1ffc, 1); });
    refused("no such register", [](auto& words) { words[3] = std::uint64_t{0x0801} << 48 | 0x100c; });
    refused("no such register", [](auto& words) { words[3] = std::uint64_t{0x0401} << 48 | 0x2000; });
    refused("kernel driver owns", [](auto& words) { words.insert(words.begin(), {command_word(0x1004, 0xe), 0}); });
    refused("kernel driver owns", [](auto& words) { words.insert(words.begin(), {command_word(0x3004, 0xe), 0}); });
    refused("only the address and the amount", [](auto& words) { words[3] = command_word(0x0030, 1); });
    refused("right after the separator",
            [](auto& words) { std::swap(words[words.size() - 2], words[words.size() - 3]); });
    refused("register 0x0008", [](auto& words) { words.back() = std::uint64_t{0x0081} << 48 | 0xd0000 | 0x0c; });
    refused("no enable word", [](auto& words) { words.back() = 0; });
}

TEST(Refusal, OfFeaturesAndWeightsThatDoNotFitTheBuffer) {
    Matmul tall{.input = Precision::fp16, .output = Precision::fp32, .m = 200, .k = 1024, .n = 32};
    expect_refused(tall, {"features", Severity::hang, {"CNA.CBUF_CON0", "data banks", "409600 against 360448"}, {}});
    Matmul split{.input = Precision::fp16, .output = Precision::fp32, .m = 33, .k = 1024, .n = 32};
    expect_refused(split, {"two banks", Severity::hang, {"data banks", "67584 against 65536"}, {{0x1040, 0xa2}}});
    Matmul deep{.input = Precision::fp16, .output = Precision::fp32, .m = 1, .k = 8192, .n = 16};
    expect_refused(deep, {"kernel group", Severity::hang, {"kernel group", "262144 against 229376"}, {{0x1040, 0x75}}});
    Matmul wide{.input = Precision::tf32, .output = Precision::fp32, .m = 1, .k = 8192, .n = 16};
    expect_refused(wide, {"kernel group", Severity::hang, {"kernel group"}, {}});
    // A tile of 65 to 127 rows needs ceil(M / 64) banks where 64 rows fill one: rounding down lost the rows from 64 on.
    Matmul tile{.input = Precision::int8, .output = Precision::int32, .m = 96, .k = 512, .n = 32};
    expect_refused(tile, {"floor", Severity::hang, {"data banks", "49152 against 32768"}, {{0x1040, 0xb1}}});
    Matmul reused{.input = Precision::int8, .output = Precision::int32, .m = 4, .k = 1024, .n = 64};
    expect_refused(reused,
                   {"reuse", Severity::corrupt, {"WEIGHT_REUSE needs", "65536 against 32768"}, {{0x1040, 0x201b}}});
}

TEST(Refusal, OfTheShapeThatHungUntilAPowerCycleWithOneWeightBank) {
    Matmul narrow{.input = Precision::fp16, .output = Precision::fp32, .m = 160, .k = 1024, .n = 16};
    expect_refused(narrow, {"narrow N", Severity::hang, {"CNA.CBUF_CON0", "power-cycle"}, {{0x1040, 0x1b}}});
    const Attempt two_banks = attempt(
        narrow, [](auto&) {}, [](Program& program) { program.set(0x1040, 0x2a); });
    EXPECT_TRUE(two_banks.result.finished) << list_findings(two_banks.result.findings);
}

TEST(Refusal, OfMoreThan8192InputsUnlessThereIsOneRow) {
    Matmul deep{.input = Precision::int8, .output = Precision::int32, .m = 1, .k = 10752, .n = 32};
    const Attempt alone = attempt(
        deep, [](auto&) {}, [](Program&) {});
    EXPECT_TRUE(alone.result.finished) << list_findings(alone.result.findings);
    EXPECT_TRUE(has_finding(alone.result.findings, Severity::warning, {"K = 10752", "10752 with one row"}));
    deep.m = 2;
    expect_refused(deep, {"two rows", Severity::corrupt, {"CNA.DATA_SIZE1", "K = 10752", "one row only"}, {}});
    deep.m = 1, deep.k = 11008;
    expect_refused(deep, {"garbage", Severity::corrupt, {"CNA.DATA_SIZE1", "K = 11008", "garbage"}, {}});
}

TEST(Refusal, OfAddressesOutsideTheMappedBuffersWritesNothing) {
    using Writes = std::vector<std::pair<std::uint16_t, std::uint32_t>>;
    const auto dma_error = [](std::vector<std::string> texts, const Writes& writes) {
        const Attempt done = attempt(
            small_fp16(), [](auto&) {},
            [&](Program& program) {
                for (const auto& [offset, value] : writes) {
                    program.set(offset, value);
                }
            });
        EXPECT_FALSE(done.result.finished);
        EXPECT_TRUE(done.result.dma_error);
        EXPECT_TRUE(done.untouched);
        EXPECT_TRUE(has_finding(done.result.findings, Severity::hang, texts)) << list_findings(done.result.findings);
    };
    dma_error({"DMA error: features", "CNA.FEATURE_DATA_ADDR"}, {{0x1070, 0x50000000}});
    dma_error({"DMA error: features"}, {{0x107c, 0x0800000}});   // the last line
    dma_error({"DMA error: features"}, {{0x1080, 0x0fff0000}});  // a surface before the buffer
    dma_error({"DMA error: weights", "CNA.DCOMP_ADDR0"}, {{0x1110, 0x203ffff0}});
    dma_error({"DMA error: outputs", "DPU.DST_BASE_ADDR"}, {{0x4020, 0x40000000}});
    dma_error({"DMA error: outputs"}, {{0x4020, 0x300ffff0}});  // only the first atom inside
    dma_error({"DMA error: outputs"}, {{0x4020, 0xfffffff0}});  // past the address window
}

TEST(Warning, ButNoRefusalForHazardsThatOnlySomeBoardsShow) {
    const auto warned = [](const Matmul& matmul, std::vector<std::string> texts,
                           std::vector<std::pair<std::uint16_t, std::uint32_t>> writes) {
        const Attempt done = attempt(
            matmul, [](auto&) {},
            [&](Program& program) {
                for (const auto& [offset, value] : writes) {
                    program.set(offset, value);
                }
            });
        EXPECT_TRUE(done.result.finished) << list_findings(done.result.findings);
        return has_finding(done.result.findings, Severity::warning, std::move(texts));
    };
    EXPECT_TRUE(warned(small_fp16(), {"weight_bank = 1"}, {{0x1040, 0x1b}}));
    Matmul slack{.input = Precision::int8, .output = Precision::int32, .m = 144, .k = 672, .n = 32};
    for (const auto& [m, blocks] : {std::pair{144U, 7U},
                                    {144, 21},
                                    {144, 35},
                                    {192, 5},
                                    {192, 21},
                                    {192, 37},
                                    {240, 17},
                                    {240, 21},
                                    {240, 25},
                                    {240, 29}}) {
        slack.m = m, slack.k = 32 * blocks;
        EXPECT_TRUE(warned(slack, {"slack bank", "for this very shape"}, {})) << m << " " << blocks;
        const std::uint32_t banks = m * blocks / 1024 + 2;
        EXPECT_FALSE(warned(slack, {"slack bank"}, {{0x1040, (12 - banks) << 4 | banks}}))
            << "one more bank is the cure";
    }
    slack.m = 200, slack.k = 160;  // 32000 bytes; with whole entries 38400
    EXPECT_FALSE(warned(slack, {"for this very shape"}, {}));
    EXPECT_TRUE(warned(slack, {"slack bank", "38400 of 32768", "for some shapes like this"}, {}));
    slack.m = 216, slack.k = 896;  // 94 % of six banks, in whole entries
    EXPECT_FALSE(warned(slack, {"slack bank"}, {}));
    slack.m = 128, slack.k = 768;
    EXPECT_FALSE(warned(slack, {"slack bank"}, {})) << "exactly full is fine";
    const Matmul hazard{.input = Precision::fp16, .output = Precision::fp32, .m = 8, .k = 3840, .n = 16};
    EXPECT_TRUE(warned(hazard, {"K = 3840", "3072"}, {}));
    Matmul few = hazard;
    few.m = 4;
    EXPECT_FALSE(warned(few, {"3072"}, {})) << "reported with more than 4 rows";
    const Matmul tall{.input = Precision::int4, .output = Precision::int16, .m = 300, .k = 2048, .n = 64};
    EXPECT_TRUE(warned(tall, {"int4", "8 data banks"}, {}));
    const Matmul wide{.input = Precision::fp16, .output = Precision::fp32, .m = 4, .k = 128, .n = 8192};
    EXPECT_TRUE(warned(wide, {"N = 8192", "next int8 task"}, {}));
    Matmul short_planes{.input = Precision::fp16, .output = Precision::fp32, .m = 3, .k = 64, .n = 16};
    short_planes.mapping = Mapping::native_tall;
    EXPECT_FALSE(warned(short_planes, {"negative stride"}, {}));
    EXPECT_TRUE(warned(short_planes, {"CNA.DMA_CON2", "negative stride -1"}, {{0x1080, 0}}));
    EXPECT_TRUE(warned(small_fp16(), {"DATAIN_CHANNEL_REAL"}, {{0x1024, 64}}));
    EXPECT_TRUE(warned(small_fp16(), {"prefetch of 0"}, {{0x1010, 0}}));
    EXPECT_TRUE(warned(small_fp16(), {"FC_DATA_SIZE0", "unknown"}, {{0x1084, 0x10007}}));
    EXPECT_TRUE(warned(small_fp16(), {"FC_DATA_SIZE1 = 32", "unknown"}, {{0x1088, 32}}));
    EXPECT_TRUE(warned(small_fp16(), {"CNA.CBUF_CON1 = 1", "2..2"}, {{0x1044, 1}}));
    EXPECT_TRUE(warned(small_fp16(), {"CNA.CBUF_CON1 = 3", "2..2"}, {{0x1044, 3}}));
    const Matmul byte{.input = Precision::int8, .output = Precision::int32, .m = 4, .k = 64, .n = 32};
    EXPECT_TRUE(warned(byte, {"CNA.CVT_CON0 = 0x3", "DATA_SIGN"}, {{0x104c, 3}}));
    Matmul in_place = small_fp16();
    in_place.c = in_place.a;
    EXPECT_TRUE(warned(in_place, {"outputs", "overlap"}, {}));
}

}  // namespace
}  // namespace npu::sim::test
