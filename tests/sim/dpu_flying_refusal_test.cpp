// The traps of the DPU alone (flying mode, look-up tables), sprung once each; and what is warned about but not refused, because
// hardware-tested programs do it.
#include <gtest/gtest.h>

#include <memory>

#include "sim/dpu_hazard.h"

namespace npu::sim::test {
namespace {

TEST(DpuRefusal, SpringsTheTrapsOfFlyingMode) {
    const std::vector<DpuHazard> hazards = {
        {"not flying", hang, {"DPU.FEATURE_MODE_CFG", "sums never come"}, {{0x400c, 0x1e4}}},
        {"MRDMA not flying", hang, {"DPU_RDMA.FEATURE_MODE_CFG", "FLYING_MODE"}, {{0x5044, 0x17848}}},
        {"MRDMA disabled", hang, {"DPU_RDMA.FEATURE_MODE_CFG", "never comes"}, {{0x5044, 0x17859}}},
        {"COMB_USE 1", hang, {"DPU_RDMA.FEATURE_MODE_CFG", "COMB_USE"}, {{0x5044, 0x17949}}},
        {"COMB_USE 5", hang, {"DPU_RDMA.FEATURE_MODE_CFG", "COMB_USE"}, {{0x5044, 0x17d49}}},
        {"width", hang, {"DPU_RDMA.DATA_CUBE_WIDTH", "disagree"}, {{0x500c, 3}}},
        {"height", hang, {"DPU_RDMA.DATA_CUBE_HEIGHT", "disagree"}, {{0x5010, 0}}},
        {"channels", hang, {"DPU_RDMA.DATA_CUBE_CHANNEL", "disagree"}, {{0x5014, 15}}},
        {"original channels", corrupt, {"DPU.DATA_CUBE_CHANNEL", "lane 0"}, {{0x403c, 15 << 16 | 31}}},
        {"exact maximum width",
         corrupt,
         {"DPU.DATA_CUBE_WIDTH", "exact maximum"},
         {{0x4030, 8191}, {0x405c, 0x11fff}, {0x500c, 8191}}},
        {"input format", unmodelled, {"DPU_RDMA.FEATURE_MODE_CFG", "disagree about the format"}, {{0x5044, 0x7849}}},
        {"int4", unmodelled, {"DPU.DATA_FORMAT", "flying mode is known with"}, {{0x4010, 0x58000006}}},
        {"mixed processing", unmodelled, {"DPU.DATA_FORMAT", "processing format"}, {{0x4010, 0x48000000}}},
        {"not widened", unmodelled, {"DPU_RDMA.FEATURE_MODE_CFG", "MRDMA_FP16TOFP32_EN"}, {{0x5044, 0x17841}}},
        {"converter of a multiplier", hang, {"DPU.EW_CFG", "never completes"}, {{0x4070, 0x108002c4}}},
        {"operand dropped", corrupt, {"DPU.EW_CFG", "dropped"}, {{0x4070, 0x108203c0}}},
        {"comparison", unmodelled, {"DPU.EW_CFG", "EW_EQUAL_EN"}, {{0x4070, 0x10a002c0}}},
        {"ERDMA off", hang, {"DPU_RDMA.ERDMA_CFG", "half armed"}, {{0x5034, 1}}},
        {"EW off", hang, {"DPU_RDMA.ERDMA_CFG", "half armed"}, {{0x4070, 0x383}}},
        {"stride and notch",
         unmodelled,
         {"DPU_RDMA.EW_SURF_STRIDE", "EW_SURF_NOTCH"},
         {{0x5040, 0x200}, {0x506c, 0x10}}},
        {"unpooling", unmodelled, {"DPU_RDMA.SRC_DMA_CFG", "unpooling"}, {{0x5048, 0x1000}}},
        {"line gap", unmodelled, {"DPU_RDMA.SRC_DMA_CFG", "gap after each line"}, {{0x5048, 0x80000}}},
        {"zero point", unmodelled, {"DPU.BS_OW_CFG", "flying mode"}, {{0x4050, 0}, {0x4054, 1}}},
    };
    for (const DpuHazard& hazard : hazards) {
        expect_flying_refused(half_cube, hazard, flying_add(half_cube));
    }
    const std::vector<DpuHazard> integers = {
        {"maximum without EQUAL_EN", corrupt, {"DPU.EW_CFG", "EW_EQUAL_EN = 1"}, {{0x4070, 0x104003c0}}},
        {"float converter", corrupt, {"DPU.EW_CFG", "float converter"}, {{0x4070, 0x104202c0}}},
        {"division", unmodelled, {"DPU.EW_CFG", "algorithm"}, {{0x4070, 0x104303c0}}},
        {"operand of 4 bits", unmodelled, {"DPU.EW_CFG", "4 bits"}, {{0x4070, 0x100203c0}}},
        {"widened bytes", unmodelled, {"DPU_RDMA.FEATURE_MODE_CFG", "FP16TOFP32"}, {{0x5044, 0x7809}}},
        {"BN with PRELU", unmodelled, {"DPU.BN_CFG", "PRELU"}, {{0x4060, 0x20060}, {0x4064, 1}, {0x4068, 0x10000}}},
        {"BN with a maximum",
         unmodelled,
         {"DPU.BN_CFG", "maximum"},
         {{0x4060, 0x00040}, {0x4064, 1}, {0x4068, 0x10000}}},
    };
    for (const DpuHazard& hazard : integers) {
        expect_flying_refused(byte_cube, hazard, flying_add(byte_cube));
    }
    expect_flying_refused(
        word_cube,
        {"converter of 32-bit integers", unmodelled, {"DPU.EW_CFG", "32-bit integers"}, {{0x4070, 0x90c202c0}}},
        flying_add(word_cube));
    const std::vector<DpuHazard> tables = {
        {"not loaded", corrupt, {"DPU.EW_CFG", "513"}, {}},
        {"other multiplexer", unmodelled, {"DPU.LUT_CFG", "priorities"}, {{0x4108, 0x64}}},
        {"expansion", unmodelled, {"DPU.LUT_CFG", "priorities"}, {{0x4108, 0x6a}}},
        {"range wider than the table", unmodelled, {"DPU.LUT_LO_END", "512 steps"}, {{0x411c, 0x4001}}},
        {"range backwards", unmodelled, {"DPU.LUT_LE_END", "512 steps"}, {{0x4114, 0xffff0000}}},
        {"huge steps", unmodelled, {"DPU.LUT_LE_END", "512 steps"}, {{0x410c, 0x5ff00}}},
        {"slope shift", unmodelled, {"DPU.LUT_LO_SLOPE_SHIFT", "above 15"}, {{0x4128, 0x10000}, {0x412c, 20 << 5}}},
        {"ReLU with tables", unmodelled, {"DPU.EW_CFG", "ReLU"}, {{0x4070, 0x100}}},
        {"shift beside the float conversion",
         unmodelled,
         {"DPU.OUT_CVT_SHIFT", "float conversion"},
         {{0x4088, 0x8000c001}}},
    };
    for (const DpuHazard& hazard : tables) {
        expect_flying_refused(half_cube, hazard, flying_table());
    }
}

TEST(DpuWarning, ButNoRefusalForWhatHardwareTestedProgramsDo) {
    const auto warned = [](const FlyingShape& shape, const Writes& writes, std::vector<std::string> texts) {
        DpuBench bench;
        for (const std::uint32_t address : {shape.source, shape.operand, shape.destination}) {
            bench.memory.map(address, 0x10000);
        }
        Program p = flying_add(shape);
        for (const auto& [offset, value] : writes) {
            p.set(offset, value);
        }
        const Outcome outcome = bench.run_flying(p);
        EXPECT_TRUE(outcome.ran) << list_findings(outcome.findings);
        return texts.empty() ? outcome.findings.empty()
                             : has_finding(outcome.findings, Severity::warning, std::move(texts));
    };
    EXPECT_TRUE(warned(half_cube, {{0x4088, 0x40000000}}, {"DPU.OUT_CVT_SHIFT", "CVT_ROUND"}));
    EXPECT_TRUE(warned(half_cube, {{0x4070, 0x108302c0}}, {"DPU.EW_CFG", "division"}));
    EXPECT_TRUE(warned(half_cube, {{0x4010, 0xa8000002}, {0x4084, 1}}, {"DPU.DATA_FORMAT", "no published program"}));
    // COMB_USE 4, EW_DATA_MODE 0 and unwritten neighbours of a vendor program are known to work.
    EXPECT_TRUE(warned(half_cube, {{0x5044, 0x17c49}, {0x4070, 0x008202c0}}, {}));

    Matmul narrow = bytes();
    narrow.output = Precision::fp16;
    FedSums sums;
    sums.integers.assign(12 * 64, 5);
    DpuBench bench;
    bench.memory.map(narrow.c, 0x10000);
    Program p = matmul_program(narrow);
    p.set(0x4050, 0x36e);
    p.set(0x40c0, p.get(0x4024) * 4);
    const Outcome outcome = bench.run_fed(p, feed_of(narrow), sums);
    EXPECT_TRUE(outcome.ran) << list_findings(outcome.findings);
    EXPECT_TRUE(has_finding(outcome.findings, Severity::warning, {"DPU.DATA_FORMAT", "2048"}));
}

TEST(DpuWarning, TellsWhichUnwrittenRegistersCountAsZero) {
    FedSums sums;
    sums.floats.assign(512, 1.0F);
    for (const std::uint16_t offset : {0x4080, 0x4088, 0x40c4}) {
        DpuBench bench;
        bench.memory.map(halves().c, halves().c_bytes());
        Program p = matmul_program(halves());
        p.erase(offset);
        const Outcome outcome = bench.run_fed(p, feed_of(halves()), sums);
        EXPECT_TRUE(outcome.ran);
        EXPECT_TRUE(has_finding(outcome.findings, Severity::warning, {"never written", "counts as 0"})) << offset;
    }
    for (const std::uint16_t offset : {0x400c, 0x4010, 0x4020, 0x4024, 0x4030, 0x4034, 0x4038, 0x403c, 0x4040, 0x4050,
                                       0x4058, 0x405c, 0x4060, 0x4070, 0x4084, 0x40c0}) {
        DpuBench bench;
        bench.memory.map(halves().c, halves().c_bytes());
        Program p = matmul_program(halves());
        p.erase(offset);
        EXPECT_FALSE(bench.run_fed(p, feed_of(halves()), sums).ran) << std::hex << offset;
    }
    // Neither operands of stages that are off nor the tables matter.
    for (const std::uint16_t offset : {0x4014, 0x4054}) {
        DpuBench bench;
        bench.memory.map(halves().c, halves().c_bytes());
        Program p = matmul_program(halves());
        p.erase(offset);
        const Outcome outcome = bench.run_fed(p, feed_of(halves()), sums);
        EXPECT_TRUE(outcome.ran && outcome.findings.empty()) << std::hex << offset;
    }
}

}  // namespace
}  // namespace npu::sim::test
