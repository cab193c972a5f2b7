#include "rockchip/checker_values.h"

#include "base/result.h"

namespace npu::rockchip::check {

namespace {

namespace cna = reg::CNA;
namespace core = reg::CORE;
namespace dpu = reg::DPU;
namespace rdma = reg::DPU_RDMA;

// Every captured and every generated program writes these, and each changes what is computed or where it goes.
constexpr std::uint16_t acting[] = {
    cna::CONV_CON1::offset,
    cna::CONV_CON2::offset,
    cna::CONV_CON3::offset,
    cna::DATA_SIZE0::offset,
    cna::DATA_SIZE1::offset,
    cna::DATA_SIZE2::offset,
    cna::DATA_SIZE3::offset,
    cna::WEIGHT_SIZE0::offset,
    cna::WEIGHT_SIZE1::offset,
    cna::WEIGHT_SIZE2::offset,
    cna::CBUF_CON0::offset,
    cna::CBUF_CON1::offset,
    cna::CVT_CON0::offset,
    cna::FC_CON0::offset,
    cna::FC_CON1::offset,
    cna::PAD_CON0::offset,
    cna::FC_CON2::offset,
    cna::DMA_CON0::offset,
    cna::DMA_CON1::offset,
    cna::DMA_CON2::offset,
    cna::FC_DATA_SIZE0::offset,
    cna::FC_DATA_SIZE1::offset,
    cna::DCOMP_CTRL::offset,
    cna::FEATURE_DATA_ADDR::offset,
    cna::DCOMP_ADDR0::offset,
    cna::CVT_CON5::offset,
    core::MISC_CFG::offset,
    core::DATAOUT_SIZE_0::offset,
    core::DATAOUT_SIZE_1::offset,
    core::CLIP_TRUNCATE::offset,
    core::UNKNOWN_3030::offset,
    dpu::FEATURE_MODE_CFG::offset,
    dpu::DATA_FORMAT::offset,
    dpu::OFFSET_PEND::offset,
    dpu::DST_BASE_ADDR::offset,
    dpu::DST_SURF_STRIDE::offset,
    dpu::DATA_CUBE_WIDTH::offset,
    dpu::DATA_CUBE_HEIGHT::offset,
    dpu::DATA_CUBE_NOTCH_ADDR::offset,
    dpu::DATA_CUBE_CHANNEL::offset,
    dpu::BS_CFG::offset,
    dpu::BS_OW_CFG::offset,
    dpu::BS_OW_OP::offset,
    dpu::WDMA_SIZE_0::offset,
    dpu::WDMA_SIZE_1::offset,
    dpu::BN_CFG::offset,
    dpu::EW_CFG::offset,
    dpu::OUT_CVT_OFFSET::offset,
    dpu::OUT_CVT_SCALE::offset,
    dpu::OUT_CVT_SHIFT::offset,
    dpu::SURFACE_ADD::offset,
    dpu::UNKNOWN_40C4::offset,
};

// The same for DPU_RDMA, when it fires.
constexpr std::uint16_t acting_rdma[] = {
    rdma::DATA_CUBE_WIDTH::offset,  rdma::DATA_CUBE_HEIGHT::offset, rdma::DATA_CUBE_CHANNEL::offset,
    rdma::BRDMA_CFG::offset,        rdma::NRDMA_CFG::offset,        rdma::ERDMA_CFG::offset,
    rdma::FEATURE_MODE_CFG::offset, rdma::SRC_DMA_CFG::offset,      rdma::PAD_CFG::offset,
};

// Every program writes these too, but the stage that reads them is bypassed in a matmul: operands, tables, scales.
constexpr std::uint16_t bypassed[] = {
    cna::CVT_CON1::offset,
    cna::CVT_CON2::offset,
    cna::CVT_CON3::offset,
    cna::CVT_CON4::offset,
    cna::DCOMP_REGNUM::offset,
    cna::DCOMP_AMOUNT0::offset,
    cna::PAD_CON1::offset,
    dpu::BS_ALU_CFG::offset,
    dpu::BS_MUL_CFG::offset,
    dpu::BS_RELUX_CMP_VALUE::offset,
    dpu::BN_ALU_CFG::offset,
    dpu::BN_MUL_CFG::offset,
    dpu::BN_RELUX_CMP_VALUE::offset,
    dpu::EW_CVT_OFFSET_VALUE::offset,
    dpu::EW_CVT_SCALE_VALUE::offset,
    dpu::EW_RELUX_CMP_VALUE::offset,
    dpu::EW_OP_VALUE_0::offset,
    dpu::LUT_ACCESS_CFG::offset,
    dpu::LUT_CFG::offset,
};

struct Fixed {
    std::uint16_t offset;
    std::uint32_t mask;
    std::uint32_t value;  // under the mask
    const char* effect;   // a consequence
    const char* why;
};

constexpr std::uint32_t all = 0xffffffffU;

constexpr std::uint32_t mask(const Field& field) { return field.maximum() << field.low; }

constexpr auto unknown = consequence::not_understood;

constexpr Fixed fixed[] = {
    {cna::CONV_CON1::offset, mask(cna::CONV_CON1::CONV_MODE), 0, unknown,
     "only direct convolution (mode 0) is understood; 3 is depthwise"},
    {cna::CONV_CON1::offset,
     mask(cna::CONV_CON1::NONALIGN_DMA) | mask(cna::CONV_CON1::DECONV) | mask(cna::CONV_CON1::ARGB_IN), 0, unknown,
     "unaligned, deconvolution and image input are not understood"},
    {cna::CONV_CON2::offset, all & ~mask(cna::CONV_CON2::FEATURE_GRAINS), 0, unknown,
     "only FEATURE_GRAINS is understood here; bits 31:28 appear in multi-core vendor programs"},
    {cna::CONV_CON3::offset, all, 9, unknown, "strides of one without dilation or deconvolution (0x9) are understood"},
    {cna::DATA_SIZE3::offset, mask(cna::DATA_SIZE3::SURF_MODE), 0, unknown, "SURF_MODE is 0 in every program"},
    {cna::WEIGHT_SIZE2::offset, mask(cna::WEIGHT_SIZE2::WEIGHT_WIDTH) | mask(cna::WEIGHT_SIZE2::WEIGHT_HEIGHT),
     0x01010000, unknown, "only 1x1 kernels are understood"},
    {cna::CVT_CON0::offset, all, 0xb, unknown, "the input converter must be bypassed (0xb)"},
    {cna::CVT_CON5::offset, all, 0, unknown, "per-channel input conversion"},
    {cna::FC_CON0::offset, all, 0, unknown, "fully-connected skipping"},
    {cna::FC_CON1::offset, all, 0, unknown, "fully-connected data offset"},
    {cna::FC_CON2::offset, all, 0, unknown, "fully-connected weight offset"},
    {cna::PAD_CON0::offset, all, 0, unknown, "padding; its border semantics are not settled by any capture"},
    {cna::DMA_CON0::offset, mask(cna::DMA_CON0::OV4K_BYPASS), 0, unknown, "OV4K_BYPASS is 0 in every program"},
    {cna::DCOMP_CTRL::offset, all, 0, unknown, "compressed weights"},
    {core::MISC_CFG::offset, mask(core::MISC_CFG::DW_EN) | mask(core::MISC_CFG::SOFT_GATING), 0, unknown,
     "depthwise mode and clock gating"},
    {core::CLIP_TRUNCATE::offset, all, 0, unknown, "no matmul shifts its accumulator"},
    {core::UNKNOWN_3030::offset, all, 0, unknown, "every program writes 0"},
    {dpu::FEATURE_MODE_CFG::offset, all & ~mask(dpu::FEATURE_MODE_CFG::BURST_LEN), 4, unknown,
     "a matmul takes its data from the array and writes to memory (0x4 besides the burst length)"},
    {dpu::DATA_FORMAT::offset,
     mask(dpu::DATA_FORMAT::EW_TRUNCATE_NEG) | mask(dpu::DATA_FORMAT::BN_MUL_SHIFT_VALUE_NEG) |
         mask(dpu::DATA_FORMAT::BS_MUL_SHIFT_VALUE_NEG) | mask(dpu::DATA_FORMAT::MC_SURF_OUT),
     0, unknown, "shifts of negative values and MC_SURF_OUT are 0 in every matmul"},
    {dpu::OFFSET_PEND::offset, all, 0, unknown, "value for padded channels"},
    {dpu::DATA_CUBE_HEIGHT::offset, mask(dpu::DATA_CUBE_HEIGHT::MINMAX_CTL), 0, unknown, "MINMAX_CTL"},
    {dpu::BS_CFG::offset, all, 0x53, unknown, "the BS stage must be bypassed (0x53)"},
    {dpu::BN_CFG::offset, all, 0x53, unknown, "the BN stage must be bypassed (0x53)"},
    {dpu::EW_CFG::offset, all, 0x383, unknown, "the element-wise (EW) and LUT stages must be bypassed (0x383)"},
    {dpu::BS_OW_CFG::offset, mask(dpu::BS_OW_CFG::RGP_CNTER) | mask(dpu::BS_OW_CFG::TP_ORG_EN), 0, unknown,
     "transposed output; published to truncate or to hang"},
    {dpu::WDMA_SIZE_0::offset, mask(dpu::WDMA_SIZE_0::TP_PRECISION) | mask(dpu::WDMA_SIZE_0::SIZE_C_WDMA), 0, unknown,
     "transposed output"},
    {dpu::UNKNOWN_40C4::offset, all, 0, unknown, "every program writes 0"},
};

// Readers of a plain matmul's DPU_RDMA: one that is enabled and never fed stops the task (published, measured).
constexpr Fixed fixed_rdma[] = {
    {rdma::FEATURE_MODE_CFG::offset, mask(rdma::FEATURE_MODE_CFG::MRDMA_DISABLE),
     mask(rdma::FEATURE_MODE_CFG::MRDMA_DISABLE), consequence::hangs,
     "MRDMA is left enabled in a plain matmul and is never fed"},
    {rdma::ERDMA_CFG::offset, mask(rdma::ERDMA_CFG::ERDMA_DISABLE), mask(rdma::ERDMA_CFG::ERDMA_DISABLE),
     consequence::hangs, "ERDMA is left enabled in a plain matmul and is never fed"},
    {rdma::FEATURE_MODE_CFG::offset,
     mask(rdma::FEATURE_MODE_CFG::COMB_USE) | mask(rdma::FEATURE_MODE_CFG::CONV_MODE) |
         mask(rdma::FEATURE_MODE_CFG::FLYING_MODE),
     0, unknown, "combined operands and flying mode"},
    {rdma::BRDMA_CFG::offset, all, 0, unknown, "per-channel operands for BS"},
    {rdma::NRDMA_CFG::offset, all, 0, unknown, "per-channel operands for BN"},
    {rdma::SRC_DMA_CFG::offset, all, 0, unknown, "unpooling and line notch of the operand reader"},
    {rdma::PAD_CFG::offset, all, 0, unknown, "padding of the operand reader"},
};

void apply_fixed(const Fixed& rule, const RegisterFile& file, Findings& findings) {
    const std::uint32_t value = file.value(rule.offset);
    if ((value & rule.mask) != rule.value) {
        findings.refuse(rule.offset, value, rule.effect,
                        format("%s; expected 0x%x under mask 0x%08x", rule.why, rule.value, rule.mask));
    }
}

}  // namespace

bool check_written(const RegisterFile& file, std::uint32_t enable, Findings& findings) {
    bool complete = true;
    const auto require = [&](std::uint16_t offset) {
        if (!file.written(offset)) {
            complete = false;
            findings.refuse(offset, 0, consequence::corrupts,
                            "not written in this chain for the register group that the task uses; it holds what the "
                            "previous client left");
        }
    };
    for (const std::uint16_t offset : acting) {
        require(offset);
    }
    if ((enable & enable_bit::dpu_rdma) != 0) {
        for (const std::uint16_t offset : acting_rdma) {
            require(offset);
        }
    }
    for (const std::uint16_t offset : bypassed) {
        if (!file.written(offset)) {
            findings.warn(
                offset, 0, consequence::corrupts,
                "not written in this chain, as every known program does; its stage is bypassed, so it should not act");
        }
    }
    return complete;
}

void check_fixed_values(const RegisterFile& file, std::uint32_t enable, Findings& findings) {
    for (const Fixed& rule : fixed) {
        apply_fixed(rule, file, findings);
    }
    for (std::uint16_t offset = dpu::LUT_ACCESS_CFG::offset; offset <= dpu::LUT_LO_SLOPE_SHIFT::offset; offset += 4) {
        if (file.written(offset) && file.value(offset) != 0) {
            findings.refuse(offset, file.value(offset), unknown, "lookup tables (LUT)");
        }
    }
    for (std::uint16_t offset = cna::DCOMP_REGNUM::offset; offset <= cna::DCOMP_AMOUNT15::offset; offset += 4) {
        if (offset != cna::DCOMP_ADDR0::offset && file.written(offset) && file.value(offset) != 0) {
            findings.refuse(offset, file.value(offset), unknown, "compressed weights");
        }
    }
    // With the element-wise stage live the readers are its operands, and the stage has been refused already.
    if ((enable & enable_bit::dpu_rdma) != 0 && file.value(dpu::EW_CFG::offset) == 0x383) {
        for (const Fixed& rule : fixed_rdma) {
            apply_fixed(rule, file, findings);
        }
    }
}

}  // namespace npu::rockchip::check
