// Every mistake in DPU and DPU_RDMA that silicon answers with a timeout or with wrong numbers, and what no source explains:
// sprung once each. The finding must name the register, its value and the rule, and nothing may run.
#include <gtest/gtest.h>

#include <memory>

#include "sim/dpu_hazard.h"

namespace npu::sim::test {
namespace {

// Without this the tests below might be refusing everything.
TEST(DpuRefusal, DoesNotHappenToTheProgramsThatTheseTestsStartFrom) {
    const auto ran = [](const Outcome& outcome) {
        EXPECT_TRUE(outcome.ran);
        return list_findings(outcome.findings);
    };
    const auto prepared = [] {
        auto bench = std::make_unique<DpuBench>();
        for (const std::uint32_t address : {0x10000000U, 0x20000000U, 0x30000000U, operand}) {
            bench->memory.map(address, 0x100000);
        }
        for (std::uint32_t table : {0U, 1U}) {
            bench->dpu.lut_write(0x4100, (2 | table) << 16);
            for (std::uint32_t i = 1; i <= 513; ++i) {
                bench->dpu.lut_write(0x4104, table * 600 + i);
            }
        }
        return bench;
    };
    FedSums sums;
    sums.floats.assign(512, 1.0F);
    EXPECT_EQ(ran(prepared()->run_fed(matmul_program(halves()), feed_of(halves()), sums)), "");
    EXPECT_EQ(ran(prepared()->run_fed(idle_rdma_program(halves()), feed_of(halves()), sums, 0x1d)), "");
    EXPECT_EQ(ran(prepared()->run_fed(fused_program(), feed_of(halves()), sums, 0x1d)), "");
    sums.floats.resize(256);
    EXPECT_EQ(ran(prepared()->run_fed(matmul_program(floats()), feed_of(floats()), sums)), "");
    FedSums integers;
    integers.integers.assign(12 * 64, 1);
    EXPECT_EQ(ran(prepared()->run_fed(matmul_program(bytes()), feed_of(bytes()), integers)), "");
    for (const FlyingShape& shape : {half_cube, byte_cube, word_cube}) {
        EXPECT_EQ(ran(prepared()->run_flying(flying_program(shape))), "");
        EXPECT_EQ(ran(prepared()->run_flying(flying_add(shape))), "");
    }
    EXPECT_EQ(ran(prepared()->run_flying(flying_table())), "");
}

TEST(DpuRefusal, NamesEachRegisterOfAProductThatIsWrong) {
    const std::vector<DpuHazard> hazards = {
        {"flying beside the array", hang, {"DPU.FEATURE_MODE_CFG", "0x000001e5", "FLYING_MODE"}, {{0x400c, 0x1e5}}},
        {"output to the PPU", hang, {"DPU.FEATURE_MODE_CFG", "PPU"}, {{0x400c, 0x1e2}}},
        {"output to nowhere", unmodelled, {"DPU.FEATURE_MODE_CFG", "OUTPUT_MODE"}, {{0x400c, 0x1e0}}},
        {"vendor reduction", unmodelled, {"DPU.FEATURE_MODE_CFG", "not explained"}, {{0x400c, 0x020021e4}}},
        {"depthwise DPU", unmodelled, {"DPU.FEATURE_MODE_CFG", "CONV_MODE"}, {{0x400c, 0x1fc}}},
        {"DPU input format", unmodelled, {"DPU.DATA_FORMAT", "must be 2"}, {{0x4010, 0xac000002}}},
        {"processing format", unmodelled, {"DPU.DATA_FORMAT", "must be 2"}, {{0x4010, 0xa8000003}}},
        {"format 7 in", corrupt, {"DPU.DATA_FORMAT", "format 7"}, {{0x4010, 0xbc000007}}},
        {"format 7 out", corrupt, {"DPU.DATA_FORMAT", "format 7"}, {{0x4010, 0xe8000002}}},
        {"int4 out", unmodelled, {"DPU.DATA_FORMAT", "int4"}, {{0x4010, 0xc8000002}}},
        {"float to int32", unmodelled, {"DPU.DATA_FORMAT", "fp16 inputs to an int32"}, {{0x4010, 0x88000002}}},
        {"surface field", unmodelled, {"DPU.DATA_FORMAT", "MC_SURF_OUT"}, {{0x4010, 0xa800000a}}},
        {"reduction", unmodelled, {"DPU.DATA_CUBE_HEIGHT", "MINMAX_CTL"}, {{0x4034, 0x01c00007}}},
        {"cube width", hang, {"DPU.DATA_CUBE_WIDTH", "disagree"}, {{0x4030, 1}}},
        {"cube height", hang, {"DPU.DATA_CUBE_HEIGHT", "disagree"}, {{0x4034, 8190}}},
        {"cube channels", hang, {"DPU.DATA_CUBE_CHANNEL", "disagree"}, {{0x403c, 0x000f000f}}},
        {"original channels", corrupt, {"DPU.DATA_CUBE_CHANNEL", "ORIG_CHANNEL"}, {{0x403c, 15 << 16 | 31}}},
        {"too many original channels", corrupt, {"DPU.DATA_CUBE_CHANNEL", "ORIG_CHANNEL"}, {{0x403c, 63 << 16 | 31}}},
        {"writer channels", hang, {"DPU.WDMA_SIZE_0", "disagree"}, {{0x4058, 15}}},
        {"writer transposes", unmodelled, {"DPU.WDMA_SIZE_0", "transposed"}, {{0x4058, 0x0800001f}}},
        {"writer size", hang, {"DPU.WDMA_SIZE_1", "disagree"}, {{0x405c, 0x60000}}},
        {"BS algorithm", unmodelled, {"DPU.BS_CFG", "algorithms"}, {{0x4040, 0x30050}, {0x4044, 0}}},
        {"BS bits of a relative",
         unmodelled,
         {"DPU.BS_CFG", "no field"},
         {{0x4040, 0x121d80}, {0x4044, 0}, {0x4048, 0}, {0x404c, 0}}},
        {"bound without ReLU", unmodelled, {"DPU.BS_CFG", "ReLU"}, {{0x4040, 0xd2}, {0x404c, 0}}},
        {"shift per channel", unmodelled, {"DPU.BS_MUL_CFG", "per channel"}, {{0x4040, 0x42}, {0x4048, 0x3c000002}}},
        {"shift of a float", unmodelled, {"DPU.BS_MUL_CFG", "float"}, {{0x4040, 0x42}, {0x4048, 0x3c000100}}},
        {"BN per channel", unmodelled, {"DPU.BN_CFG", "per channel"}, {{0x4060, 0x20150}}},
        {"bias without DPU_RDMA", hang, {"enable 0xd", "DPU_RDMA", "BS_CFG"}, {{0x4040, 0x20150}}},
        {"operand without DPU_RDMA",
         hang,
         {"enable 0xd", "DPU_RDMA", "EW_CFG"},
         {{0x4070, 0x108202c0}, {0x4074, 0}, {0x4078, 1}}},
        {"unknown algorithm",
         unmodelled,
         {"DPU.EW_CFG", "algorithm"},
         {{0x4070, 0x108f02c0}, {0x4074, 0}, {0x4078, 1}}},
        {"binary", unmodelled, {"DPU.EW_CFG", "EW_BINARY_EN"}, {{0x4070, 0x109202c0}, {0x4074, 0}, {0x4078, 1}}},
        {"no such field", unmodelled, {"DPU.EW_CFG", "no field"}, {{0x4070, 0x118202c0}, {0x4074, 0}, {0x4078, 1}}},
        {"too few surfaces", corrupt, {"DPU.BS_OW_CFG", "SIZE_E must be 3"}, {{0x4050, 0x126}}},
        {"too many surfaces", hang, {"DPU.BS_OW_CFG", "SIZE_E must be 3"}, {{0x4050, 0x7fe}}},
        {"uneven surfaces", unmodelled, {"DPU.BS_OW_CFG", "SIZE_E_0"}, {{0x4050, 0x36a}}},
        {"transposed writer", unmodelled, {"DPU.BS_OW_CFG", "TP_ORG_EN"}, {{0x4050, 0x800036e}}},
        {"grouped writer", unmodelled, {"DPU.BS_OW_CFG", "grouped"}, {{0x4050, 0x1000036e}}},
        {"OW with an operand", unmodelled, {"DPU.BS_OW_CFG", "zero point"}, {{0x4050, 0x36c}, {0x4054, 128}}},
        {"OW without QD_EN", corrupt, {"DPU.BS_OW_CFG", "QD_EN"}, {{0x4050, 0x36c}, {0x3010, 0x200}}},
        {"unknown DPU register", unmodelled, {"DPU.UNKNOWN_40C4"}, {{0x40c4, 1}}},
        {"output offset", unmodelled, {"DPU.OUT_CVT_OFFSET"}, {{0x4080, 1}}},
        {"output shift", unmodelled, {"DPU.OUT_CVT_SHIFT"}, {{0x4088, 1}}},
        {"exponent without CVT_TYPE", unmodelled, {"DPU.OUT_CVT_SHIFT", "MINUS_EXP"}, {{0x4088, 0x1000}}},
        {"large exponent", unmodelled, {"DPU.OUT_CVT_SHIFT", "MINUS_EXP"}, {{0x4088, 0x80080000}}},
        {"output scale", unmodelled, {"DPU.OUT_CVT_SCALE", "scale"}, {{0x4084, 2}}},
        {"narrowing fp32", unmodelled, {"DPU.OUT_CVT_SCALE", "FP32TOFP16_EN"}, {{0x4084, 0x10001}}},
        {"spilled scale", hang, {"DPU.OUT_CVT_SCALE", "17 bits"}, {{0x4084, 0x20001}}},
        {"notch halves differ", corrupt, {"DPU.DATA_CUBE_NOTCH_ADDR", "same"}, {{0x4038, 7 << 16}}},
        {"notch overflow", hang, {"DPU.DATA_CUBE_NOTCH_ADDR", "13 bits"}, {{0x4038, 0x20072007}}},
        {"unaligned output", hang, {"DPU.DST_BASE_ADDR", "multiples of 16"}, {{0x4020, 0x30000004}}},
        {"unaligned surface stride", hang, {"DPU.DST_SURF_STRIDE", "multiples of 16"}, {{0x4024, 0x14}}},
        {"unaligned group stride", hang, {"DPU.SURFACE_ADD", "multiples of 16"}, {{0x40c0, 0x41}}},
    };
    for (const DpuHazard& hazard : hazards) {
        expect_fed_refused(floats(), hazard, matmul_program(floats()), 0x0d);
    }
    expect_fed_refused(halves(), {"fp16 without conversion", hang, {"DPU.OUT_CVT_SCALE", "FP32TOFP16"}, {{0x4084, 1}}},
                       matmul_program(halves()), 0x0d);
    expect_fed_refused(bytes(), {"huge shift", unmodelled, {"DPU.OUT_CVT_SHIFT", "62"}, {{0x4088, 63}}},
                       matmul_program(bytes()), 0x0d);
    Matmul partial = bytes();
    partial.n = 48;
    Program program = matmul_program(partial);
    expect_fed_refused(partial, {"48 int8 channels", hang, {"DPU.DATA_CUBE_CHANNEL", "group of 32"}, {}}, program,
                       0x0d);
    Matmul words{.input = Precision::int16,
                 .output = Precision::int32,
                 .m = 8,
                 .k = 64,
                 .n = 32,
                 .mapping = Mapping::native_tall};
    expect_fed_refused(
        words,
        {"int16 with SIZE_E 7", hang, {"DPU.BS_OW_CFG", "int16 with SIZE_E 7"}, {{0x4050, 0x7fe}, {0x40c0, 8 * 128}}},
        matmul_program(words), 0x0d);
}

TEST(DpuRefusal, SpringsTheRdmaTraps) {
    const std::vector<DpuHazard> hazards = {
        {"MRDMA trap", hang, {"DPU_RDMA.FEATURE_MODE_CFG", "MRDMA trap"}, {{0x5044, 0x7800}}},
        {"flying beside the array", hang, {"DPU_RDMA.FEATURE_MODE_CFG", "FLYING_MODE"}, {{0x5044, 0x7811}}},
        {"ERDMA half armed", hang, {"DPU_RDMA.ERDMA_CFG", "half armed"}, {{0x5034, 0x40000008}}},
        {"EW half armed", hang, {"DPU_RDMA.ERDMA_CFG", "half armed"}, {{0x4070, 0x108202c0}, {0x4074, 0}, {0x4078, 1}}},
        {"BRDMA without a taker", hang, {"DPU_RDMA.BRDMA_CFG", "no stage takes"}, {{0x501c, 2}}},
        {"BS without BRDMA", hang, {"DPU_RDMA.BRDMA_CFG", "BS and OW wait"}, {{0x4040, 0x20150}}},
        {"shift per channel", unmodelled, {"DPU_RDMA.BRDMA_CFG", "shift per channel"}, {{0x501c, 0x10}}},
        {"NRDMA", unmodelled, {"DPU_RDMA.NRDMA_CFG", "never completed"}, {{0x5028, 2}}},
    };
    for (const DpuHazard& hazard : hazards) {
        expect_fed_refused(halves(), hazard, idle_rdma_program(halves()), 0x1d);
    }
    const std::vector<DpuHazard> fused = {
        {"width", hang, {"DPU_RDMA.DATA_CUBE_WIDTH", "disagree"}, {{0x500c, 1}}},
        {"height", hang, {"DPU_RDMA.DATA_CUBE_HEIGHT", "disagree"}, {{0x5010, 14}}},
        {"channels", hang, {"DPU_RDMA.DATA_CUBE_CHANNEL", "disagree"}, {{0x5014, 15}}},
        {"in place", corrupt, {"DPU_RDMA.SRC_BASE_ADDR", "in place"}, {{0x5018, 0x30000000}, {0x5038, 0x30000100}}},
        {"partly in place", corrupt, {"DPU_RDMA.EW_BASE_ADDR", "in place"}, {{0x5038, 0x30000100}}},
        {"MRDMA missing", hang, {"DPU_RDMA.FEATURE_MODE_CFG", "ERDMA alone"}, {{0x5044, 0x17d50}}},
        {"COMB_USE", unmodelled, {"DPU_RDMA.FEATURE_MODE_CFG", "COMB_USE is 5"}, {{0x5044, 0x17c40}}},
        {"operand format", unmodelled, {"DPU_RDMA.FEATURE_MODE_CFG", "operand's format"}, {{0x5044, 0x7d00}}},
        {"operand processing", unmodelled, {"DPU_RDMA.FEATURE_MODE_CFG", "operand's format"}, {{0x5044, 0x17d00}}},
        {"widening", unmodelled, {"DPU_RDMA.FEATURE_MODE_CFG", "FP16TOFP32"}, {{0x5044, 0x17d48}}},
        {"depthwise", unmodelled, {"DPU_RDMA.FEATURE_MODE_CFG", "CONV_MODE"}, {{0x5044, 0x17d46}}},
        {"operand size", unmodelled, {"DPU_RDMA.ERDMA_CFG", "EDATA_SIZE"}, {{0x5034, 0x40000004}}},
        {"operand mode 2", hang, {"DPU_RDMA.ERDMA_CFG", "2 and 3"}, {{0x5034, 0x80000008}}},
        {"operand mode 3", hang, {"DPU_RDMA.ERDMA_CFG", "2 and 3"}, {{0x5034, 0xc0000008}}},
        {"operand surface mode", unmodelled, {"DPU_RDMA.ERDMA_CFG", "surface mode"}, {{0x5034, 0x60000008}}},
        {"per channel and MRDMA",
         unmodelled,
         {"DPU_RDMA.FEATURE_MODE_CFG", "per channel"},
         {{0x4070, 0x108003c4}, {0x5034, 8}}},
        {"operand dropped", corrupt, {"DPU.EW_CFG", "0x108203c0", "dropped"}, {{0x4070, 0x108203c0}}},
        {"converter of a multiplier", hang, {"DPU.EW_CFG", "EW_OP_CVT_BYPASS"}, {{0x4070, 0x108002c4}}},
        {"converter scale", unmodelled, {"DPU.EW_CVT_SCALE_VALUE", "scale 1"}, {{0x4078, 2}}},
        {"operand of 8 bits", unmodelled, {"DPU.EW_CFG", "EDATA_SIZE"}, {{0x4070, 0x104202c0}}},
        {"converter of 32-bit floats", unmodelled, {"DPU.EW_CFG", "32-bit floats"}, {{0x4070, 0x10c202c0}}},
        {"unpooling", unmodelled, {"DPU_RDMA.SRC_DMA_CFG", "unpooling"}, {{0x5048, 0x1000}}},
        {"padding", unmodelled, {"DPU_RDMA.PAD_CFG", "padding"}, {{0x5064, 1}}},
        {"line gap",
         unmodelled,
         {"DPU_RDMA.DATA_CUBE_HEIGHT", "gap after each line"},
         {{0x5010, 0x1000f}, {0x5014, 31}}},
        {"unaligned operand", hang, {"DPU_RDMA.SRC_BASE_ADDR", "multiples of 16"}, {{0x5018, operand + 4}}},
        {"unaligned notch", hang, {"DPU_RDMA.SURF_NOTCH", "multiples of 16"}, {{0x504c, 0x108}}},
    };
    for (const DpuHazard& hazard : fused) {
        Program program = fused_program();
        if (std::string(hazard.name) == "line gap") {
            Matmul wide = halves();
            wide.n = 64;
            program = matmul_program(wide);
            add_fused_operand(program, wide, operand, 0x108202c0, 2, 2);
            DpuHazard more = hazard;
            more.writes = {{0x5010, 0x1000f}};
            expect_fed_refused(wide, more, program, 0x1d);
            continue;
        }
        expect_fed_refused(halves(), hazard, program, 0x1d);
    }
}

// A list that fires 0x1d without writing DPU_RDMA finds an enabled and unfed MRDMA there.
TEST(DpuRefusal, ReportsRegistersOfDpuRdmaThatWereNeverWritten) {
    FedSums sums;
    sums.floats.assign(512, 1.0F);
    DpuBench bench;
    bench.memory.map(halves().c, halves().c_bytes());
    const Outcome outcome = bench.run_fed(matmul_program(halves()), feed_of(halves()), sums, 0x1d);
    EXPECT_FALSE(outcome.ran);
    EXPECT_TRUE(has_finding(outcome.findings, hang, {"DPU_RDMA.FEATURE_MODE_CFG", "never written"}));
    DpuBench plain;
    plain.memory.map(halves().c, halves().c_bytes());
    EXPECT_TRUE(plain.run_fed(matmul_program(halves()), feed_of(halves()), sums, 0x0d).ran);
}

}  // namespace
}  // namespace npu::sim::test
