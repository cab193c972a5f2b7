#include "sim/task.h"

#include <algorithm>
#include <iterator>
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

void read_convolution_task(RegisterCheck& check, std::uint32_t enable, const rockchip::ChipProfile& chip, Task& task) {
    // The input precision decides how all other numbers are read.
    const std::uint32_t code = check.read(reg::CNA::CONV_CON1::IN_PRECISION);
    const auto input = rockchip::precision_from_cna_code(code);
    if (!input) {
        check.judge.stop(Severity::hang, "%s: input precision %u means nothing",
                         register_text(reg::CNA::CONV_CON1::offset, check.read(reg::CNA::CONV_CON1::offset)).c_str(),
                         code);
        return;
    }
    Convolution& convolution = task.convolution.emplace();
    convolution.input = *input;
    read_cna(check, chip, convolution);
    read_core(check, convolution);
    task.dpu = read_dpu(check, enable, &convolution);
    convolution.wants_window_sums = task.dpu->wants_window_sums;
    if (!check.judge.refused()) {
        check_cbuf(check, chip, convolution);
    }
}

}  // namespace

std::optional<Task> read_task(const RegisterState& state, std::uint32_t enable, const rockchip::ChipProfile& chip,
                              Judge& judge) {
    RegisterReader reader(state, judge.mode());
    Judge opinion = judge;
    RegisterCheck check(reader, opinion);
    Task task;
    task.enable = enable;
    if (enable == rockchip::enable_element_wise) {
        task.dpu = read_dpu(check, enable, nullptr);
    } else if (enable == rockchip::enable_pooling) {
        task.pooling = read_pooling(check);
    } else {
        read_convolution_task(check, enable, chip, task);
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
        if (judge.refused()) {
            return std::nullopt;
        }
        std::ranges::move(judge.findings(), std::back_inserter(opinion.findings()));
    }
    judge = std::move(opinion);
    return judge.refused() ? std::nullopt : std::optional(task);
}

}  // namespace npu::sim
