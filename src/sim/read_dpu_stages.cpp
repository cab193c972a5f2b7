// Reader of the OW, BS and BN stages. See read_dpu.h.
#include "sim/read_dpu.h"

namespace npu::sim {

namespace {

namespace reg = rockchip::reg;

// BS and BN have the same fields at different offsets.
struct StageRegisters {
    std::uint16_t configuration;
    std::uint16_t alu_operand;
    std::uint16_t multiplier;
    std::uint16_t bound;
    rockchip::Field negative_shift;
    bool is_bn;
};

using reg::DPU::BS_CFG::BS_ALU_ALGO;
using reg::DPU::BS_CFG::BS_ALU_BYPASS;
using reg::DPU::BS_CFG::BS_ALU_SRC;
using reg::DPU::BS_CFG::BS_BYPASS;
using reg::DPU::BS_CFG::BS_MUL_BYPASS;
using reg::DPU::BS_CFG::BS_MUL_PRELU;
using reg::DPU::BS_CFG::BS_RELU_BYPASS;
using reg::DPU::BS_CFG::BS_RELUX_EN;

constexpr StageRegisters bs_registers{reg::DPU::BS_CFG::offset,
                                      reg::DPU::BS_ALU_CFG::offset,
                                      reg::DPU::BS_MUL_CFG::offset,
                                      reg::DPU::BS_RELUX_CMP_VALUE::offset,
                                      reg::DPU::DATA_FORMAT::BS_MUL_SHIFT_VALUE_NEG,
                                      false};
constexpr StageRegisters bn_registers{reg::DPU::BN_CFG::offset,
                                      reg::DPU::BN_ALU_CFG::offset,
                                      reg::DPU::BN_MUL_CFG::offset,
                                      reg::DPU::BN_RELUX_CMP_VALUE::offset,
                                      reg::DPU::DATA_FORMAT::BN_MUL_SHIFT_VALUE_NEG,
                                      true};

constexpr std::uint32_t stage_fields = 0x000f01f3;

void read_alu(const DpuReading& reading, const StageRegisters& registers, std::uint32_t configuration,
              ScaleStage& stage) {
    const auto algorithm = static_cast<AluAlgorithm>(BS_ALU_ALGO.of(configuration));
    switch (algorithm) {
        case AluAlgorithm::maximum:
        case AluAlgorithm::minimum:
        case AluAlgorithm::add:
        case AluAlgorithm::subtract: break;
        default:
            reading.refuse(Severity::unmodelled, registers.configuration,
                           "this stage is known with the algorithms maximum, minimum, add and subtract");
            return;
    }
    stage.alu = true;
    stage.algorithm = algorithm;
    stage.alu_per_channel = BS_ALU_SRC.of(configuration) != 0;
    if (!stage.alu_per_channel) {
        stage.alu_operand = reading.check.read(registers.alu_operand);
    }
}

void read_multiplier(const DpuReading& reading, const StageRegisters& registers, std::uint32_t configuration,
                     ScaleStage& stage) {
    using namespace reg::DPU::BS_MUL_CFG;
    const std::uint32_t value = reading.check.read(registers.multiplier);
    reading.unexplained(registers.multiplier, value, BS_TRUNCATE_SRC(1).value, "a shift per channel");
    stage.multiply = true;
    stage.multiply_first = registers.is_bn;
    stage.multiplier_unsigned = registers.is_bn;
    stage.negatives_only = BS_MUL_PRELU.of(configuration) != 0;
    stage.multiplier_per_channel = BS_MUL_SRC.of(value) != 0;
    stage.multiplier = BS_MUL_OPERAND.of(value);
    stage.shift = BS_MUL_SHIFT_VALUE.of(value);
    if (reading.task.floating()) {
        if (stage.shift != 0) {
            reading.refuse(Severity::unmodelled, registers.multiplier, "a shift of a float has no known meaning");
        }
        return;
    }
    stage.negative_shift = registers.negative_shift.of(reading.check.read(reg::DPU::DATA_FORMAT::offset));
    if (registers.is_bn && stage.negatives_only && stage.alu) {
        reading.refuse(Severity::unmodelled, registers.configuration,
                       "PRELU and ALU together on integers: what is shifted is not published");
    }
    if (registers.is_bn && stage.alu && stage.algorithm != AluAlgorithm::add &&
        stage.algorithm != AluAlgorithm::subtract) {
        reading.refuse(Severity::unmodelled, registers.configuration,
                       "a multiplier before a maximum or minimum of integers: what is shifted is not published");
    }
}

void read_stage(const DpuReading& reading, const StageRegisters& registers, ScaleStage& stage) {
    const std::uint32_t configuration = reading.check.read(registers.configuration);
    if (BS_BYPASS.of(configuration) != 0) {
        return;
    }
    reading.unexplained(registers.configuration, configuration, ~stage_fields, "no field");
    if (BS_ALU_BYPASS.of(configuration) == 0) {
        read_alu(reading, registers, configuration, stage);
    }
    if (BS_MUL_BYPASS.of(configuration) == 0) {
        read_multiplier(reading, registers, configuration, stage);
    }
    stage.relu.active = BS_RELU_BYPASS.of(configuration) == 0;
    stage.relu.bounded = BS_RELUX_EN.of(configuration) != 0;
    if (stage.relu.bounded) {
        if (!stage.relu.active) {
            reading.refuse(Severity::unmodelled, registers.configuration, "an upper bound with ReLU bypassed");
        }
        stage.relu.bound = reading.check.read(registers.bound);
    }
    stage.active = stage.alu || stage.multiply || stage.relu.active;
}

void read_zero_point(const DpuReading& reading) {
    using namespace reg::DPU;
    DpuTask& task = reading.task;
    const std::uint32_t value = reading.check.read(BS_OW_CFG::offset);
    if (BS_OW_CFG::OD_BYPASS.of(value) != 0) {
        return;
    }
    task.ow.per_channel = BS_OW_CFG::OW_SRC.of(value) != 0;
    if (!task.ow.per_channel) {
        task.ow.operand = static_cast<std::int16_t>(BS_OW_OP::OW_OP.of(reading.zero_if_unwritten(BS_OW_OP::offset)));
    }
    task.ow.active = task.ow.per_channel || task.ow.operand != 0;
    if (reading.feed == nullptr) {
        if (task.ow.active) {
            reading.refuse(Severity::unmodelled, BS_OW_CFG::offset,
                           "OD_BYPASS = 0: there are no sums of inputs in flying mode");
        }
        task.ow = {};
        return;
    }
    if (reading.check.read(reg::CORE::MISC_CFG::QD_EN) == 0) {
        reading.refuse(
            Severity::corrupt, BS_OW_CFG::offset,
            "OD_BYPASS = 0 needs CORE.MISC_CFG.QD_EN = 1, or the sums of inputs are not there: published to give "
            "wrong values");
    }
    if (task.ow.active && task.floating()) {
        reading.refuse(Severity::unmodelled, BS_OW_CFG::offset, "a zero point of float weights has no known meaning");
        task.ow = {};
    }
    task.wants_window_sums = task.ow.active;
}

}  // namespace

void read_dpu_stages(const DpuReading& reading) {
    DpuTask& task = reading.task;
    read_zero_point(reading);
    read_stage(reading, bs_registers, task.bs);
    read_stage(reading, bn_registers, task.bn);
    if (task.bn.alu_per_channel || task.bn.multiplier_per_channel) {
        reading.refuse(Severity::unmodelled, reg::DPU::BN_CFG::offset,
                       "BN operands per channel: the one configuration that was tried never completed (published)");
    }
}

}  // namespace npu::sim
