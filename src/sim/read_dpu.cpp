// Reader of the DPU (output side) and DPU_RDMA registers.
#include "rockchip/command.h"
#include "sim/convolution.h"
#include "sim/dpu_task.h"

namespace npu::sim {

namespace {

namespace reg = rockchip::reg;
using rockchip::Precision;

bool modelled(Precision input, Precision output) {
    switch (input) {
        case Precision::int8:
            return output == Precision::int32 || output == Precision::int8 || output == Precision::fp32;
        case Precision::int4: return output == Precision::int16;
        case Precision::fp16: return output == Precision::fp32 || output == Precision::fp16;
        case Precision::bf16:
        case Precision::tf32: return output == Precision::fp32;
        default: return false;
    }
}

void read_formats(RegisterCheck& check, const Convolution& convolution, DpuTask& task) {
    using namespace reg::DPU;
    const std::uint32_t mode = check.read(FEATURE_MODE_CFG::offset);
    if ((mode & ~FEATURE_MODE_CFG::BURST_LEN(15).value) != FEATURE_MODE_CFG::OUTPUT_MODE(2).value) {
        check.judge.refuse_register(Severity::hang, FEATURE_MODE_CFG::offset, mode,
                                    "only data from CORE written to memory is modelled (0x1e4)");
    }
    const std::uint32_t formats = check.only(DATA_FORMAT::offset, 0xfc000007, "shifts of BS/BN/EW are not modelled");
    const std::uint32_t wanted = rockchip::info(convolution.input).dpu_code;
    if (DATA_FORMAT::IN_PRECISION.of(formats) != wanted || DATA_FORMAT::PROC_PRECISION.of(formats) != wanted) {
        check.judge.refuse_register(Severity::hang, DATA_FORMAT::offset, formats,
                                    "input and processing format must be %u, the CNA's precision", wanted);
    }
    const auto output = rockchip::precision_from_dpu_code(DATA_FORMAT::OUT_PRECISION.of(formats));
    if (!output || !modelled(convolution.input, *output)) {
        check.judge.refuse_register(Severity::hang, DATA_FORMAT::offset, formats,
                                    "%s inputs to an output of format %u are not modelled",
                                    rockchip::info(convolution.input).name, DATA_FORMAT::OUT_PRECISION.of(formats));
        task.output = rockchip::info(convolution.input).floating ? Precision::fp32 : Precision::int32;
        return;
    }
    task.output = *output;
}

void read_stages(RegisterCheck& check, const DpuTask& task) {
    using namespace reg::DPU;
    check.expect(OFFSET_PEND::offset, 0, Severity::hang, "padded channels are not modelled");
    check.expect(BS_CFG::offset, 0x53, Severity::hang, "the BS stage is modelled as bypassed only");
    check.expect(BN_CFG::offset, 0x53, Severity::hang, "the BN stage is modelled as bypassed only");
    check.expect(EW_CFG::offset, 0x383, Severity::hang,
                 "the EW stage (element-wise, accumulation, look-up tables) is modelled as bypassed only");

    // OW adds OW_OP times the sum of the inputs when it is not bypassed. Vendor int8 programs leave it on with
    // OW_OP = 0 and CORE.QD_EN = 1; without QD_EN published as wrong values.
    const std::uint32_t surfaces = task.surfaces_per_group() - 1;
    const std::uint32_t ow = check.only(BS_OW_CFG::offset, 0x7fe, "transposed and grouped writers are not modelled");
    const std::uint32_t expected =
        BS_OW_CFG::SIZE_E_0(surfaces).value | BS_OW_CFG::SIZE_E_1(surfaces).value | BS_OW_CFG::SIZE_E_2(surfaces).value;
    if ((ow & 0x7fc) != expected) {
        check.judge.refuse_register(Severity::corrupt, BS_OW_CFG::offset, ow,
                                    "SIZE_E must be %u in all three fields: a kernel group fills %u surfaces", surfaces,
                                    surfaces + 1);
    }
    const std::uint32_t operand = check.read(BS_OW_OP::offset);
    const bool quantised = check.read(reg::CORE::MISC_CFG::QD_EN) != 0;
    if (BS_OW_CFG::OD_BYPASS.of(ow) == 0 && (operand != 0 || !quantised)) {
        check.judge.refuse_register(Severity::corrupt, BS_OW_CFG::offset, ow,
                                    "OD_BYPASS = 0 is modelled with OW_OP = 0 and CORE.QD_EN = 1 only");
    }
    check.expect(UNKNOWN_40C4::offset, 0, Severity::hang, "every known program writes 0");
}

void read_conversion(RegisterCheck& check, const Convolution& convolution, DpuTask& task) {
    using namespace reg::DPU;
    const std::uint32_t scale = check.read(OUT_CVT_SCALE::offset);
    if (task.output == Precision::int8) {
        check.only(OUT_CVT_SCALE::offset, 0xffff, "FP32TOFP16 makes no sense for an int8 output");
        const std::uint32_t shift =
            check.only(OUT_CVT_SHIFT::offset, 0x40000fff, "only CVT_ROUND and the shift are modelled");
        task.conversion.scale = static_cast<std::int16_t>(scale & 0xffff);
        task.conversion.shift = OUT_CVT_SHIFT::OUT_CVT_SHIFT.of(shift);
        task.conversion.ties_away = OUT_CVT_SHIFT::CVT_ROUND.of(shift) != 0;
        task.conversion.offset = static_cast<std::int32_t>(check.read(OUT_CVT_OFFSET::offset));
        if (task.conversion.shift > 62) {
            check.judge.refuse_register(Severity::hang, OUT_CVT_SHIFT::offset, shift,
                                        "a shift above 62 is not modelled");
        }
        return;
    }
    check.expect(OUT_CVT_OFFSET::offset, 0, Severity::hang, "conversion is modelled for int8 outputs only");
    check.expect(OUT_CVT_SHIFT::offset, 0, Severity::hang, "conversion is modelled for int8 outputs only");
    if (task.output == Precision::fp16) {
        check.expect(OUT_CVT_SCALE::offset, 0x10001, Severity::hang, "an fp16 output needs FP32TOFP16 and scale 1");
    } else if (scale != 1 && !(scale == 0 && rockchip::info(convolution.input).floating)) {
        check.judge.refuse_register(Severity::hang, OUT_CVT_SCALE::offset, scale, "only scale 1 is modelled here");
    }
}

void read_writer(RegisterCheck& check, DpuTask& task) {
    using namespace reg::DPU;
    const char* disagree = "the blocks disagree about the output cube";
    check.expect(DATA_CUBE_WIDTH::offset, task.width - 1, Severity::hang, disagree);
    check.expect(DATA_CUBE_HEIGHT::offset, task.height - 1, Severity::hang, disagree);
    check.expect(DATA_CUBE_CHANNEL::offset, (task.channels - 1) << 16 | (task.channels - 1), Severity::corrupt,
                 "both halves must be N - 1");
    check.expect(WDMA_SIZE_0::offset, task.channels - 1, Severity::hang, disagree);
    check.expect(WDMA_SIZE_1::offset, (task.height - 1) << 16 | (task.width - 1), Severity::hang, disagree);
    // Cube fields have 13 bits and their exact maximum is published to corrupt; the CNA's 11 bits end before.
    static_assert(reg::CNA::DATA_SIZE0::DATAIN_WIDTH.maximum() < 8191);

    const std::uint32_t notch = check.only(DATA_CUBE_NOTCH_ADDR::offset, 0x1fff1fff, "a notch has 13 bits");
    task.output_notch_atoms = DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_0.of(notch);
    if (DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_1.of(notch) != task.output_notch_atoms) {
        check.judge.refuse_register(Severity::corrupt, DATA_CUBE_NOTCH_ADDR::offset, notch,
                                    "both halves must be the same: which of them counts is unknown");
    }
    task.output_address = check.only(DST_BASE_ADDR::offset, ~0xfU, "addresses are multiples of 16");
    task.output_surface_bytes = check.only(DST_SURF_STRIDE::offset, ~0xfU, "strides are multiples of 16");
    task.output_group_bytes = check.only(SURFACE_ADD::offset, ~0xfU, "strides are multiples of 16");
}

void read_dpu_rdma(RegisterCheck& check, const DpuTask& task) {
    using namespace reg::DPU_RDMA;
    const std::uint32_t mode = check.read(FEATURE_MODE_CFG::offset);
    if (FEATURE_MODE_CFG::MRDMA_DISABLE.of(mode) == 0 || FEATURE_MODE_CFG::FLYING_MODE.of(mode) != 0) {
        check.judge.refuse_register(Severity::hang, FEATURE_MODE_CFG::offset, mode,
                                    "MRDMA is enabled and nothing feeds it: the block waits forever (MRDMA trap)");
    }
    check.only(FEATURE_MODE_CFG::offset,
               FEATURE_MODE_CFG::BURST_LEN(15).value | FEATURE_MODE_CFG::MRDMA_DISABLE(1).value |
                   FEATURE_MODE_CFG::MRDMA_FP16TOFP32_EN(1).value,
               "only a disabled MRDMA is modelled");
    const std::uint32_t element_wise = check.read(ERDMA_CFG::offset);
    if (ERDMA_CFG::ERDMA_DISABLE.of(element_wise) == 0) {
        check.judge.refuse_register(Severity::hang, ERDMA_CFG::offset, element_wise,
                                    "ERDMA is enabled: element-wise operands are not modelled");
    }
    check.expect(BRDMA_CFG::offset, 0, Severity::hang, "per-channel BS operands are not modelled");
    check.expect(NRDMA_CFG::offset, 0, Severity::hang, "per-channel BN operands are not modelled");
    const char* disagree = "the blocks disagree about the output cube";
    check.expect(DATA_CUBE_WIDTH::offset, task.width - 1, Severity::hang, disagree);
    check.expect(DATA_CUBE_HEIGHT::offset, task.height - 1, Severity::hang, disagree);
    check.expect(DATA_CUBE_CHANNEL::offset, task.channels - 1, Severity::hang, disagree);
}

}  // namespace

DpuTask read_dpu(RegisterCheck& check, std::uint32_t enable, const Convolution* feed) {
    DpuTask task;
    if (feed == nullptr) {
        check.judge.refuse(Severity::unmodelled, "a DPU that runs alone is not modelled");
        return task;
    }
    const Convolution& convolution = *feed;
    task.width = convolution.width;
    task.height = convolution.height;
    task.channels = convolution.kernels;
    task.group_channels = convolution.kernels_per_group();
    read_formats(check, convolution, task);
    read_stages(check, task);
    read_conversion(check, convolution, task);
    read_writer(check, task);
    if ((enable & rockchip::enable_bit::dpu_rdma) != 0) {
        read_dpu_rdma(check, task);
    }
    return task;
}

}  // namespace npu::sim
