#include "rockchip/checker_values.h"

#include <span>

#include <optional>

#include "base/result.h"
#include "rockchip/precision.h"

namespace npu::rockchip::check {

namespace {

namespace cna = reg::CNA;
namespace core = reg::CORE;
namespace dpu = reg::DPU;
namespace rdma = reg::DPU_RDMA;
namespace ppu = reg::PPU;
namespace ppu_rdma = reg::PPU_RDMA;

// Registers that act whatever a block does: every captured and every generated program writes them.
constexpr std::uint16_t array_registers[] = {
    cna::CONV_CON1::offset,       cna::CONV_CON2::offset,       cna::CONV_CON3::offset,
    cna::DATA_SIZE0::offset,      cna::DATA_SIZE1::offset,      cna::DATA_SIZE2::offset,
    cna::DATA_SIZE3::offset,      cna::WEIGHT_SIZE0::offset,    cna::WEIGHT_SIZE1::offset,
    cna::WEIGHT_SIZE2::offset,    cna::CBUF_CON0::offset,       cna::CBUF_CON1::offset,
    cna::CVT_CON0::offset,        cna::FC_CON0::offset,         cna::FC_CON1::offset,
    cna::PAD_CON0::offset,        cna::FC_CON2::offset,         cna::DMA_CON0::offset,
    cna::DMA_CON1::offset,        cna::DMA_CON2::offset,        cna::FC_DATA_SIZE0::offset,
    cna::FC_DATA_SIZE1::offset,   cna::DCOMP_CTRL::offset,      cna::FEATURE_DATA_ADDR::offset,
    cna::DCOMP_ADDR0::offset,     cna::CVT_CON5::offset,        core::MISC_CFG::offset,
    core::DATAOUT_SIZE_0::offset, core::DATAOUT_SIZE_1::offset, core::CLIP_TRUNCATE::offset,
    core::UNKNOWN_3030::offset,
};
constexpr std::uint16_t dpu_registers[] = {
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
constexpr std::uint16_t rdma_registers[] = {
    rdma::DATA_CUBE_WIDTH::offset,  rdma::DATA_CUBE_HEIGHT::offset, rdma::DATA_CUBE_CHANNEL::offset,
    rdma::BRDMA_CFG::offset,        rdma::NRDMA_CFG::offset,        rdma::ERDMA_CFG::offset,
    rdma::FEATURE_MODE_CFG::offset, rdma::SRC_DMA_CFG::offset,      rdma::PAD_CFG::offset,
};
constexpr std::uint16_t ppu_registers[] = {
    ppu::DATA_CUBE_IN_WIDTH::offset,
    ppu::DATA_CUBE_IN_HEIGHT::offset,
    ppu::DATA_CUBE_IN_CHANNEL::offset,
    ppu::DATA_CUBE_OUT_WIDTH::offset,
    ppu::DATA_CUBE_OUT_HEIGHT::offset,
    ppu::DATA_CUBE_OUT_CHANNEL::offset,
    ppu::OPERATION_MODE_CFG::offset,
    ppu::POOLING_KERNEL_CFG::offset,
    ppu::POOLING_PADDING_CFG::offset,
    ppu::DST_BASE_ADDR::offset,
    ppu::DST_SURF_STRIDE::offset,
    ppu::DATA_FORMAT::offset,
    ppu::MISC_CTRL::offset,
    ppu_rdma::CUBE_IN_WIDTH::offset,
    ppu_rdma::CUBE_IN_HEIGHT::offset,
    ppu_rdma::CUBE_IN_CHANNEL::offset,
    ppu_rdma::SRC_BASE_ADDR::offset,
    ppu_rdma::SRC_LINE_STRIDE::offset,
    ppu_rdma::SRC_SURF_STRIDE::offset,
    ppu_rdma::DATA_FORMAT::offset,
};

bool off(const Reader& r, const Field& bypass, const Field& part) { return r.is_set(bypass) || r.is_set(part); }

// Registers that act only while some stage is on. While it is off, a program that leaves one out is worth a warning when
// all known programs write it (`watched`), because then the stage being off is all that protects it.
struct Conditional {
    std::uint32_t block;  // that must fire
    std::uint16_t first, last;
    bool (*acts)(const Reader& reader);
    bool watched;
};

constexpr Conditional conditional_registers[] = {
    {enable_bit::cna, cna::CVT_CON1::offset, cna::CVT_CON4::offset,
     [](const Reader& r) { return !r.is_set(cna::CVT_CON0::CVT_BYPASS); }, true},
    {enable_bit::cna, cna::DCOMP_REGNUM::offset, cna::DCOMP_REGNUM::offset,
     [](const Reader& r) { return r.value(cna::DCOMP_CTRL::offset) != 0; }, true},
    {enable_bit::cna, cna::DCOMP_AMOUNT0::offset, cna::DCOMP_AMOUNT0::offset,
     [](const Reader& r) { return r.value(cna::DCOMP_CTRL::offset) != 0; }, true},
    {enable_bit::cna, cna::DCOMP_AMOUNT1::offset, cna::DCOMP_AMOUNT15::offset,
     [](const Reader& r) { return r.value(cna::DCOMP_CTRL::offset) != 0; }, false},
    {enable_bit::cna, cna::PAD_CON1::offset, cna::PAD_CON1::offset,
     [](const Reader& r) { return r.value(cna::PAD_CON0::offset) != 0; }, true},
    {enable_bit::dpu, dpu::BS_ALU_CFG::offset, dpu::BS_ALU_CFG::offset,
     [](const Reader& r) {
         return !off(r, dpu::BS_CFG::BS_BYPASS, dpu::BS_CFG::BS_ALU_BYPASS) && !r.is_set(dpu::BS_CFG::BS_ALU_SRC);
     },
     true},
    {enable_bit::dpu, dpu::BS_MUL_CFG::offset, dpu::BS_MUL_CFG::offset,
     [](const Reader& r) { return !off(r, dpu::BS_CFG::BS_BYPASS, dpu::BS_CFG::BS_MUL_BYPASS); }, true},
    {enable_bit::dpu, dpu::BS_RELUX_CMP_VALUE::offset, dpu::BS_RELUX_CMP_VALUE::offset,
     [](const Reader& r) {
         return !off(r, dpu::BS_CFG::BS_BYPASS, dpu::BS_CFG::BS_RELU_BYPASS) && r.is_set(dpu::BS_CFG::BS_RELUX_EN);
     },
     true},
    {enable_bit::dpu, dpu::BN_ALU_CFG::offset, dpu::BN_ALU_CFG::offset,
     [](const Reader& r) {
         return !off(r, dpu::BN_CFG::BN_BYPASS, dpu::BN_CFG::BN_ALU_BYPASS) && !r.is_set(dpu::BN_CFG::BN_ALU_SRC);
     },
     true},
    {enable_bit::dpu, dpu::BN_MUL_CFG::offset, dpu::BN_MUL_CFG::offset,
     [](const Reader& r) { return !off(r, dpu::BN_CFG::BN_BYPASS, dpu::BN_CFG::BN_MUL_BYPASS); }, true},
    {enable_bit::dpu, dpu::BN_RELUX_CMP_VALUE::offset, dpu::BN_RELUX_CMP_VALUE::offset,
     [](const Reader& r) {
         return !off(r, dpu::BN_CFG::BN_BYPASS, dpu::BN_CFG::BN_RELU_BYPASS) && r.is_set(dpu::BN_CFG::BN_RELUX_EN);
     },
     true},
    {enable_bit::dpu, dpu::EW_CVT_OFFSET_VALUE::offset, dpu::EW_CVT_SCALE_VALUE::offset,
     [](const Reader& r) {
         return !off(r, dpu::EW_CFG::EW_BYPASS, dpu::EW_CFG::EW_OP_BYPASS) && !r.is_set(dpu::EW_CFG::EW_OP_CVT_BYPASS);
     },
     true},
    {enable_bit::dpu, dpu::EW_RELUX_CMP_VALUE::offset, dpu::EW_RELUX_CMP_VALUE::offset,
     [](const Reader& r) {
         return !off(r, dpu::EW_CFG::EW_BYPASS, dpu::EW_CFG::EW_RELU_BYPASS) && r.is_set(dpu::EW_CFG::EW_RELUX_EN);
     },
     true},
    {enable_bit::dpu, dpu::EW_OP_VALUE_0::offset, dpu::EW_OP_VALUE_0::offset,
     [](const Reader& r) {
         return !off(r, dpu::EW_CFG::EW_BYPASS, dpu::EW_CFG::EW_OP_BYPASS) && !r.is_set(dpu::EW_CFG::EW_OP_SRC) &&
                r.is_set(dpu::EW_CFG::EW_LUT_BYPASS);
     },
     true},
    {enable_bit::dpu, dpu::EW_OP_VALUE_1::offset, dpu::EW_OP_VALUE_7::offset,
     [](const Reader& r) {
         return !off(r, dpu::EW_CFG::EW_BYPASS, dpu::EW_CFG::EW_OP_BYPASS) && !r.is_set(dpu::EW_CFG::EW_OP_SRC) &&
                r.is_set(dpu::EW_CFG::EW_LUT_BYPASS);
     },
     false},
    {enable_bit::dpu, dpu::LUT_ACCESS_CFG::offset, dpu::LUT_ACCESS_CFG::offset, [](const Reader&) { return false; },
     true},
    {enable_bit::dpu, dpu::LUT_CFG::offset, dpu::LUT_CFG::offset,
     [](const Reader& r) { return !off(r, dpu::EW_CFG::EW_BYPASS, dpu::EW_CFG::EW_LUT_BYPASS); }, true},
    {enable_bit::dpu, dpu::LUT_INFO::offset, dpu::LUT_LO_SLOPE_SHIFT::offset,
     [](const Reader& r) { return !off(r, dpu::EW_CFG::EW_BYPASS, dpu::EW_CFG::EW_LUT_BYPASS); }, false},
    {enable_bit::dpu_rdma, rdma::SRC_BASE_ADDR::offset, rdma::SRC_BASE_ADDR::offset,
     [](const Reader& r) { return !r.is_set(rdma::FEATURE_MODE_CFG::MRDMA_DISABLE); }, false},
    {enable_bit::dpu_rdma, rdma::SURF_NOTCH::offset, rdma::SURF_NOTCH::offset,
     [](const Reader& r) { return !r.is_set(rdma::FEATURE_MODE_CFG::MRDMA_DISABLE); }, false},
    {enable_bit::dpu_rdma, rdma::BS_BASE_ADDR::offset, rdma::BS_BASE_ADDR::offset,
     [](const Reader& r) { return r.is_set(rdma::BRDMA_CFG::BRDMA_DATA_USE); }, false},
    {enable_bit::dpu_rdma, rdma::BN_BASE_ADDR::offset, rdma::BN_BASE_ADDR::offset,
     [](const Reader& r) { return r.is_set(rdma::NRDMA_CFG::NRDMA_DATA_USE); }, false},
    {enable_bit::dpu_rdma, rdma::EW_BASE_ADDR::offset, rdma::EW_BASE_ADDR::offset,
     [](const Reader& r) { return !r.is_set(rdma::ERDMA_CFG::ERDMA_DISABLE); }, false},
    {enable_bit::dpu_rdma, rdma::EW_SURF_STRIDE::offset, rdma::EW_SURF_STRIDE::offset,
     [](const Reader& r) {
         return !r.is_set(rdma::ERDMA_CFG::ERDMA_DISABLE) && r.is_set(rdma::ERDMA_CFG::ERDMA_DATA_MODE);
     },
     false},
    {enable_bit::dpu_rdma, rdma::EW_SURF_NOTCH::offset, rdma::EW_SURF_NOTCH::offset,
     [](const Reader& r) {
         return !r.is_set(rdma::ERDMA_CFG::ERDMA_DISABLE) && r.is_set(rdma::ERDMA_CFG::ERDMA_DATA_MODE);
     },
     false},
    {enable_bit::ppu, ppu::RECIP_KERNEL_WIDTH::offset, ppu::RECIP_KERNEL_HEIGHT::offset,
     [](const Reader& r) { return !r.is_set(ppu::OPERATION_MODE_CFG::POOLING_METHOD); }, false},
    {enable_bit::ppu, ppu::PADDING_VALUE_1_CFG::offset, ppu::PADDING_VALUE_2_CFG::offset,
     [](const Reader& r) { return r.value(ppu::POOLING_PADDING_CFG::offset) != 0; }, false},
};

struct Unexplained {
    std::uint32_t block;
    Field field;
    const char* what;
};

constexpr Unexplained unexplained_fields[] = {
    {enable_bit::cna, cna::CONV_CON2::UNKNOWN_31_28, "appears only in multi-core vendor programs"},
    {enable_bit::cna, cna::CONV_CON2::KERNEL_GROUP, "0 in every program"},
    {enable_bit::cna, cna::CONV_CON2::CSC_WO_EN, "0 in every program"},
    {enable_bit::cna, cna::CONV_CON2::CSC_DO_EN, "0 in every program"},
    {enable_bit::cna, cna::CONV_CON2::CMD_FIFO_SRST, "0 in every program"},
    {enable_bit::cna, cna::CONV_CON3::NN_MODE, "0 in every program"},
    {enable_bit::cna, cna::CONV_CON3::DECONV_X_STRIDE, "transposed convolution is not explained"},
    {enable_bit::cna, cna::CONV_CON3::DECONV_Y_STRIDE, "transposed convolution is not explained"},
    {enable_bit::cna, cna::DATA_SIZE3::SURF_MODE, "SURF_MODE is 0 in every program"},
    {enable_bit::cna, cna::FC_CON0::FC_SKIP_EN, "fully-connected skipping"},
    {enable_bit::cna, cna::FC_CON0::FC_SKIP_DATA, "fully-connected skipping"},
    {enable_bit::cna, cna::FC_CON1::DATA_OFFSET, "fully-connected data offset"},
    {enable_bit::cna, cna::FC_CON2::WEIGHT_OFFSET, "fully-connected weight offset"},
    {enable_bit::cna, cna::DMA_CON0::OV4K_BYPASS, "OV4K_BYPASS is 0 in every program"},
    {enable_bit::core, core::MISC_CFG::SOFT_GATING, "clock gating, 0 in every program"},
    {enable_bit::core, core::UNKNOWN_3030::UNKNOWN, "every program writes 0"},
    {enable_bit::dpu, dpu::FEATURE_MODE_CFG::COMB_USE, "0 in every program"},
    {enable_bit::dpu, dpu::FEATURE_MODE_CFG::TP_EN, "0 in every program"},
    {enable_bit::dpu, dpu::FEATURE_MODE_CFG::RGP_TYPE, "0 in every program"},
    {enable_bit::dpu, dpu::FEATURE_MODE_CFG::NONALIGN, "appears only in a vendor reduction"},
    {enable_bit::dpu, dpu::FEATURE_MODE_CFG::SURF_LEN, "appears only in a vendor reduction"},
    {enable_bit::dpu, dpu::DATA_FORMAT::MC_SURF_OUT, "0 in every program"},
    {enable_bit::dpu, dpu::DATA_CUBE_HEIGHT::MINMAX_CTL, "MINMAX_CTL appears only in a vendor reduction"},
    {enable_bit::dpu, dpu::BS_OW_CFG::RGP_CNTER, "0 in every program"},
    {enable_bit::dpu, dpu::UNKNOWN_40C4::UNKNOWN, "every program writes 0"},
};

// The input converter: bypassed in exactly one way, or live for integers.
void check_input_converter(const Reader& reader) {
    namespace con0 = cna::CVT_CON0;
    const std::uint32_t low = reader.value(con0::offset) & 0xfU;
    if (reader.is_set(con0::CVT_BYPASS)) {
        if (low != 0xb) {
            reader.refuse(
                con0::CVT_BYPASS, consequence::not_understood, source::programs,
                format("the input converter is bypassed by 0x%x in the low four bits; every program writes 0xb", low));
        }
        return;
    }
    const std::uint32_t precision = reader.of(cna::CONV_CON1::IN_PRECISION);
    if (precision != static_cast<std::uint32_t>(Precision::int8) &&
        precision != static_cast<std::uint32_t>(Precision::int16)) {
        reader.refuse(con0::CVT_BYPASS, consequence::not_understood, source::none,
                      "a live input converter; known for int8 and int16 only, others write 0xb");
    }
}

void check_clip(const Reader& reader) {
    const std::optional<Precision> input = precision_from_cna_code(reader.of(cna::CONV_CON1::IN_PRECISION));
    if (reader.value(core::CLIP_TRUNCATE::offset) != 0 && input && info(*input).floating) {
        reader.refuse(core::CLIP_TRUNCATE::CLIP_TRUNCATE, consequence::not_understood, source::none,
                      "no float program shifts its accumulator");
    }
}

}  // namespace

bool check_written(const Reader& reader) {
    bool complete = true;
    const auto require = [&](std::uint16_t offset) {
        if (!reader.file.written(offset)) {
            complete = false;
            reader.findings.refuse(offset, 0, consequence::corrupts, source::measured,
                                   "not written in this chain for the register group that the task uses; it holds what "
                                   "the previous client left");
        }
    };
    static constexpr struct {
        std::uint32_t block;
        std::span<const std::uint16_t> registers;
    } always[] = {{enable_bit::cna, array_registers},
                  {enable_bit::dpu, dpu_registers},
                  {enable_bit::dpu_rdma, rdma_registers},
                  {enable_bit::ppu, ppu_registers}};
    for (const auto& entry : always) {
        if (reader.fires(entry.block)) {
            for (const std::uint16_t offset : entry.registers) {
                require(offset);
            }
        }
    }
    for (const Conditional& entry : conditional_registers) {
        if (!reader.fires(entry.block)) {
            continue;
        }
        const bool acts = entry.acts(reader);
        for (std::uint16_t offset = entry.first; offset <= entry.last; offset += 4) {
            if (acts) {
                require(offset);
            } else if (entry.watched && !reader.file.written(offset)) {
                reader.findings.warn(
                    offset, 0, consequence::corrupts, source::programs,
                    "not written in this chain, as every known program does; its stage is bypassed, so "
                    "it should not act");
            }
        }
    }
    return complete;
}

void check_unexplained(const Reader& reader) {
    for (const Unexplained& entry : unexplained_fields) {
        if (reader.fires(entry.block)) {
            reader.unexplained(entry.field, entry.what);
        }
    }
    if (reader.fires(enable_bit::cna)) {
        check_input_converter(reader);
        check_clip(reader);
    }
}

}  // namespace npu::rockchip::check
