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
    const std::vector<Hazard> hazards = {
        {"input precision that means nothing", hang, {"CNA.CONV_CON1", "means nothing"}, {{0x100c, 0x20000240}}},
        {"int16", hang, {"CNA.CONV_CON1", "int16"}, {{0x100c, 0x20000090}}},
        {"precisions differ inside the CNA", hang, {"CNA.CONV_CON1", "differs"}, {{0x100c, 0x200001a0}}},
        {"depthwise", hang, {"CNA.CONV_CON1", "depthwise"}, {{0x100c, 0x20000123}}},
        {"deconvolution", hang, {"CNA.CONV_CON1", "deconvolution"}, {{0x100c, 0x20010120}}},
        {"grains that spill over their field", hang, {"CNA.CONV_CON2", "10 bits"}, {{0x1010, 1024 << 4}}},
        {"vendor multi-core bits", hang, {"CNA.CONV_CON2"}, {{0x1010, 0x20000020}}},
        {"stride 2", hang, {"CNA.CONV_CON3", "stride 1"}, {{0x1014, 0x12}}},
        {"dilation", hang, {"CNA.CONV_CON3"}, {{0x1014, 0x10009}}},
        {"padding", hang, {"CNA.PAD_CON0", "padding"}, {{0x1068, 0x11}}},
        {"input converter", hang, {"CNA.CVT_CON0", "converter"}, {{0x104c, 0xa}}},
        {"per-channel converter", hang, {"CNA.CVT_CON5"}, {{0x1180, 1}}},
        {"fully connected", hang, {"CNA.FC_CON0"}, {{0x1060, 1}}},
        {"fully connected offset", hang, {"CNA.FC_CON1"}, {{0x1064, 1}}},
        {"fully connected weights", hang, {"CNA.FC_CON2"}, {{0x1074, 1}}},
        {"empty plane", hang, {"CNA.DATA_SIZE0", "empty"}, {{0x1020, 8}}},
        {"K that is no multiple of a block", corrupt, {"CNA.DATA_SIZE1", "K = 48"}, {{0x1024, 47 << 16 | 48}}},
        {"K above the limit", corrupt, {"CNA.DATA_SIZE1", "K = 8224", "8192"}, {{0x1024, 8223 << 16 | 8224}}},
        {"output width differs", hang, {"CNA.DATA_SIZE2", "disagree"}, {{0x1028, 2}}},
        {"atomics differ", hang, {"CNA.DATA_SIZE3", "disagree"}, {{0x102c, 9}}},
        {"DMA size differs", hang, {"CNA.FC_DATA_SIZE0", "disagree"}, {{0x1084, 0x10007}}},
        {"DMA channels differ", hang, {"CNA.FC_DATA_SIZE1", "disagree"}, {{0x1088, 32}}},
        {"unaligned features", hang, {"CNA.FEATURE_DATA_ADDR", "multiples of 16"}, {{0x1070, 0x10000008}}},
        {"line stride overflow", hang, {"CNA.DMA_CON1", "28 bits"}, {{0x107c, 0x10000008}}},
        {"surface stride overflow", hang, {"CNA.DMA_CON2", "28 bits"}, {{0x1080, 0xfffffff8}}},
        {"3x3 kernels", hang, {"CNA.WEIGHT_SIZE2", "1x1"}, {{0x1038, 0x03030020}}},
        {"no kernels", corrupt, {"CNA.WEIGHT_SIZE2", "N = 0"}, {{0x1038, 0x01010000}}},
        {"too many kernels", corrupt, {"CNA.WEIGHT_SIZE2", "N = 8208", "8192"}, {{0x1038, 0x01012010}}},
        {"part of a kernel group", corrupt, {"CNA.WEIGHT_SIZE2", "N = 24", "16 kernels"}, {{0x1038, 0x01010018}}},
        {"bytes per kernel", hang, {"CNA.WEIGHT_SIZE1", "must be 0x80"}, {{0x1034, 0x40}}},
        {"weight bytes", hang, {"CNA.WEIGHT_SIZE0", "must be 0x1000"}, {{0x1030, 0x800}}},
        {"unaligned weights", hang, {"CNA.DCOMP_ADDR0", "multiples of 16"}, {{0x1110, 0x20000004}}},
        {"compressed weights", hang, {"CNA.DCOMP_CTRL", "compressed"}, {{0x1100, 1}}},
        {"codec registers", hang, {"CNA.DCOMP_REGNUM", "compressed"}, {{0x1104, 0x55555555}}},
        {"codec lanes", hang, {"CNA.DCOMP_AMOUNT15", "compressed"}, {{0x117c, 3}}},
        {"too many banks", hang, {"CNA.CBUF_CON0", "13 against 12"}, {{0x1040, 0x94}}},
        {"no data bank", hang, {"CNA.CBUF_CON0", "at least one bank"}, {{0x1040, 0xc0}}},
        {"no weight bank", hang, {"CNA.CBUF_CON0", "at least one bank"}, {{0x1040, 0x0c}}},
        {"FC_DATA_BANK", corrupt, {"CNA.CBUF_CON0", "FC_DATA_BANK"}, {{0x1040, 0x3b1}}},
        {"unknown bank bits", hang, {"CNA.CBUF_CON0"}, {{0x1040, 0x40b1}}},
        {"too few entries per line", corrupt, {"CNA.CBUF_CON1", "2..2"}, {{0x1044, 1}}},
        {"too many entries per line", corrupt, {"CNA.CBUF_CON1", "2..2"}, {{0x1044, 3}}},
        {"weight reuse without a task before", corrupt, {"CNA.CBUF_CON0", "WEIGHT_REUSE"}, {{0x1040, 0x20b1}}},
        {"data reuse without a task before", corrupt, {"CNA.CBUF_CON0", "DATA_REUSE"}, {{0x1040, 0x10b1}}},
        {"core precision", hang, {"CORE.MISC_CFG", "precision"}, {{0x3010, 0x001}}},
        {"core depthwise", hang, {"CORE.MISC_CFG"}, {{0x3010, 0x203}}},
        {"core size", hang, {"CORE.DATAOUT_SIZE_0", "disagree"}, {{0x3014, 0x60000}}},
        {"core channels", hang, {"CORE.DATAOUT_SIZE_1", "disagree"}, {{0x3018, 15}}},
        {"truncation", hang, {"CORE.CLIP_TRUNCATE"}, {{0x301c, 4}}},
        {"unknown core register", hang, {"CORE.UNKNOWN_3030"}, {{0x3030, 1}}},
    };
    for (const Hazard& hazard : hazards) {
        expect_refused(small_fp16(), hazard);
    }
}

TEST(Refusal, NamesEachRegisterOfTheDpuThatIsWrong) {
    const auto hang = Severity::hang;
    const auto corrupt = Severity::corrupt;
    const std::vector<Hazard> hazards = {
        {"flying mode", hang, {"DPU.FEATURE_MODE_CFG", "0x1e4"}, {{0x400c, 0x1e5}}},
        {"output to the PPU", hang, {"DPU.FEATURE_MODE_CFG"}, {{0x400c, 0x1e2}}},
        {"DPU input format", hang, {"DPU.DATA_FORMAT", "must be 2"}, {{0x4010, 0xac000002}}},
        {"output format without a model", hang, {"DPU.DATA_FORMAT", "not modelled"}, {{0x4010, 0x88000002}}},
        {"shift in the format word", hang, {"DPU.DATA_FORMAT"}, {{0x4010, 0xa8000012}}},
        {"padded channels", hang, {"DPU.OFFSET_PEND"}, {{0x4014, 1}}},
        {"BS", hang, {"DPU.BS_CFG", "bypassed"}, {{0x4040, 0x20150}}},
        {"BN", hang, {"DPU.BN_CFG", "bypassed"}, {{0x4060, 0x50}}},
        {"EW", hang, {"DPU.EW_CFG", "bypassed"}, {{0x4070, 0x108202c0}}},
        {"look-up table", hang, {"DPU.EW_CFG", "look-up"}, {{0x4070, 0x300}}},
        {"too few surfaces", corrupt, {"DPU.BS_OW_CFG", "SIZE_E must be 3"}, {{0x4050, 0x126}}},
        {"transposed writer", hang, {"DPU.BS_OW_CFG"}, {{0x4050, 0x800036e}}},
        {"OW with an operand", corrupt, {"DPU.BS_OW_CFG", "OD_BYPASS"}, {{0x4050, 0x36c}, {0x4054, 128}}},
        {"OW without QD_EN", corrupt, {"DPU.BS_OW_CFG", "QD_EN"}, {{0x4050, 0x36c}, {0x3010, 0x200}}},
        {"unknown DPU register", hang, {"DPU.UNKNOWN_40C4"}, {{0x40c4, 1}}},
        {"output offset", hang, {"DPU.OUT_CVT_OFFSET", "int8"}, {{0x4080, 1}}},
        {"output shift", hang, {"DPU.OUT_CVT_SHIFT", "int8"}, {{0x4088, 1}}},
        {"output scale", hang, {"DPU.OUT_CVT_SCALE", "scale 1"}, {{0x4084, 2}}},
        {"cube width", hang, {"DPU.DATA_CUBE_WIDTH", "disagree"}, {{0x4030, 1}}},
        {"cube height", hang, {"DPU.DATA_CUBE_HEIGHT", "disagree"}, {{0x4034, 8190}}},
        {"original channels", corrupt, {"DPU.DATA_CUBE_CHANNEL", "both halves"}, {{0x403c, 15 << 16 | 31}}},
        {"writer channels", hang, {"DPU.WDMA_SIZE_0", "disagree"}, {{0x4058, 15}}},
        {"writer size", hang, {"DPU.WDMA_SIZE_1", "disagree"}, {{0x405c, 0x60000}}},
        {"notch halves differ", corrupt, {"DPU.DATA_CUBE_NOTCH_ADDR", "same"}, {{0x4038, 7 << 16}}},
        {"notch overflow", hang, {"DPU.DATA_CUBE_NOTCH_ADDR", "13 bits"}, {{0x4038, 0x20072007}}},
        {"unaligned output", hang, {"DPU.DST_BASE_ADDR", "multiples of 16"}, {{0x4020, 0x30000004}}},
        {"unaligned surface stride", hang, {"DPU.DST_SURF_STRIDE", "multiples of 16"}, {{0x4024, 0x14}}},
        {"unaligned group stride", hang, {"DPU.SURFACE_ADD", "multiples of 16"}, {{0x40c0, 0x41}}},
        {"pointer not armed", hang, {"DPU.S_POINTER", "0xe"}, {{0x4004, 0}}},
        {"overlapping surfaces", corrupt, {"DPU.DST_SURF_STRIDE", "over each other"}, {{0x4024, 0}}},
        {"overlapping groups", corrupt, {"over each other"}, {{0x40c0, 0x20}}},
        {"overlapping lines", corrupt, {"over each other"}, {{0x4038, 0}}},
    };
    for (const Hazard& hazard : hazards) {
        expect_refused(small_fp16(), hazard);
    }
    Matmul half = small_fp16();
    half.output = Precision::fp16;
    expect_refused(half, {"fp16 without conversion", hang, {"DPU.OUT_CVT_SCALE", "FP32TOFP16"}, {{0x4084, 1}}});
    Matmul byte{.input = Precision::int8, .output = Precision::int8, .m = 4, .k = 64, .n = 32};
    expect_refused(byte, {"exponent on integers", hang, {"DPU.OUT_CVT_SHIFT"}, {{0x4088, 0x1000}}});
    expect_refused(byte, {"huge shift", hang, {"DPU.OUT_CVT_SHIFT", "62"}, {{0x4088, 63}}});
}

TEST(Refusal, SpringsTheRdmaTraps) {
    const std::vector<std::pair<std::uint16_t, std::uint32_t>> idle = {
        {0x5004, 0xe}, {0x500c, 0}, {0x5010, 7}, {0x5014, 31}, {0x501c, 0}, {0x5028, 0}, {0x5034, 1}, {0x5044, 0x7810}};
    const auto with = [&](std::uint16_t offset, std::uint32_t value) {
        auto writes = idle;
        writes.emplace_back(offset, value);
        return writes;
    };
    const auto hang = Severity::hang;
    expect_refused(small_fp16(), {"MRDMA", hang, {"DPU_RDMA.FEATURE_MODE_CFG", "MRDMA trap"}, with(0x5044, 0x7800)},
                   0x1d);
    expect_refused(small_fp16(), {"flying", hang, {"DPU_RDMA"}, with(0x5044, 0x7811)}, 0x1d);
    expect_refused(small_fp16(), {"ERDMA", hang, {"ERDMA is enabled"}, with(0x5034, 0x40000008)}, 0x1d);
    expect_refused(small_fp16(), {"BRDMA", hang, {"BRDMA_CFG"}, with(0x501c, 2)}, 0x1d);
    expect_refused(small_fp16(), {"NRDMA", hang, {"NRDMA_CFG"}, with(0x5028, 2)}, 0x1d);
    expect_refused(small_fp16(), {"size", hang, {"DPU_RDMA", "disagree"}, with(0x5010, 6)}, 0x1d);
    expect_refused(small_fp16(), {"not armed", hang, {"DPU_RDMA.S_POINTER"}, with(0x5004, 0)}, 0x1d);
    auto never_written = std::vector<std::pair<std::uint16_t, std::uint32_t>>{{0x5004, 0xe}};
    expect_refused(small_fp16(), {"never written", hang, {"never written", "MRDMA trap"}, never_written}, 0x1d);
}

TEST(Refusal, KnowsWhichBlocksMayBeStartedTogether) {
    expect_refused(small_fp16(), {"element-wise", Severity::hang, {"enable 0x18", "not modelled"}, {}}, 0x18);
    expect_refused(small_fp16(), {"pooling", Severity::hang, {"enable 0x60", "not modelled"}, {}}, 0x60);
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
    const Matmul slack{.input = Precision::int8, .output = Precision::int32, .m = 144, .k = 672, .n = 32};
    EXPECT_TRUE(warned(slack, {"slack bank", "M = 144"}, {}));
    EXPECT_FALSE(warned(slack, {"slack bank"}, {{0x1040, 0x84}})) << "one more data bank is the cure";
    Matmul full = slack;
    full.m = 128, full.k = 768;
    EXPECT_FALSE(warned(full, {"slack bank"}, {})) << "exactly full is fine";
    const Matmul hazard{.input = Precision::fp16, .output = Precision::fp32, .m = 8, .k = 3840, .n = 16};
    EXPECT_TRUE(warned(hazard, {"K = 3840", "3072"}, {}));
    EXPECT_TRUE(warned(small_fp16(), {"DATAIN_CHANNEL_REAL"}, {{0x1024, 64}}));
    EXPECT_TRUE(warned(small_fp16(), {"prefetch of 0"}, {{0x1010, 0}}));
    Matmul in_place = small_fp16();
    in_place.c = in_place.a;
    EXPECT_TRUE(warned(in_place, {"outputs and inputs overlap"}, {}));
}

}  // namespace
}  // namespace npu::sim::test
