#include "sim/convolution.h"

#include <algorithm>
#include <string>

#include "rockchip/command.h"
#include "sim/register_check.h"

namespace npu::sim {

namespace {

namespace reg = rockchip::reg;
using rockchip::Precision;

std::string missing_text(const std::vector<std::uint16_t>& missing) {
    std::string text;
    for (const std::uint16_t offset : missing) {
        const rockchip::RegisterInfo* info = rockchip::find_register(offset);
        text += text.empty() ? "" : ", ";
        if (text.size() > 300) {
            return text + "and more";
        }
        text += format("%s.%s (0x%04x)", rockchip::block_name(info->block), info->name, offset);
    }
    return text;
}

}  // namespace

std::optional<Convolution> read_convolution(const RegisterState& state, std::uint32_t enable,
                                            const rockchip::ChipProfile& chip, Judge& judge) {
    RegisterReader reader(state);
    Judge opinion = judge;
    RegisterCheck check(reader, opinion);
    Convolution convolution;

    // The input precision decides how all other numbers are read.
    const std::uint32_t code = reader(reg::CNA::CONV_CON1::IN_PRECISION);
    const auto input = rockchip::precision_from_cna_code(code);
    if (!input) {
        opinion.refuse_register(Severity::hang, reg::CNA::CONV_CON1::offset, reader(reg::CNA::CONV_CON1::offset),
                                "input precision %u means nothing", code);
    } else if (*input == Precision::int16) {
        opinion.refuse_register(Severity::hang, reg::CNA::CONV_CON1::offset, reader(reg::CNA::CONV_CON1::offset),
                                "int16 inputs are not modelled: the chip has no usable output format for them");
    } else {
        convolution.input = *input;
        read_cna(check, chip, convolution);
        read_core(check, convolution);
        read_dpu(check, convolution);
        if ((enable & rockchip::enable_bit::dpu_rdma) != 0) {
            read_dpu_rdma(check, convolution);
        }
        if (!opinion.refused()) {
            check_cbuf(check, chip, convolution);
        }
    }
    if (!reader.missing().empty()) {
        const bool trap =
            std::ranges::find(reader.missing(), reg::DPU_RDMA::FEATURE_MODE_CFG::offset) != reader.missing().end();
        judge.refuse(Severity::hang,
                     "registers that this task reads were never written in their group (register group %u of the "
                     "DPU); on silicon they hold what an earlier client left%s: %s",
                     state.block(rockchip::Block::DPU).pointer(),
                     trap ? " (the reset value of DPU_RDMA is an enabled and unfed MRDMA: MRDMA trap)" : "",
                     missing_text(reader.missing()).c_str());
        return std::nullopt;
    }
    judge = std::move(opinion);
    return judge.refused() ? std::nullopt : std::optional(convolution);
}

}  // namespace npu::sim
