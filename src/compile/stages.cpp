#include "compile/stages.h"

namespace npu::compile {

namespace reg = rockchip::reg;

void write_pointers(CommandWriter& writer, bool operand_readers) {
    namespace dpu = reg::DPU::S_POINTER;
    namespace rdma = reg::DPU_RDMA::S_POINTER;
    writer.write({{dpu::POINTER_PP_MODE, 1}, {dpu::EXECUTER_PP_EN, 1}, {dpu::POINTER_PP_EN, 1}});
    if (operand_readers) {
        writer.write({{rdma::POINTER_PP_MODE, 1}, {rdma::EXECUTER_PP_EN, 1}, {rdma::POINTER_PP_EN, 1}});
    }
}

void write_bypassed_bs(CommandWriter& writer) {
    using namespace reg::DPU;
    writer.write(
        {{BS_CFG::BS_RELU_BYPASS, 1}, {BS_CFG::BS_MUL_BYPASS, 1}, {BS_CFG::BS_ALU_BYPASS, 1}, {BS_CFG::BS_BYPASS, 1}});
    writer.zero(BS_ALU_CFG::offset, BS_RELUX_CMP_VALUE::offset);
}

void write_bypassed_bn(CommandWriter& writer) {
    using namespace reg::DPU;
    writer.write(
        {{BN_CFG::BN_RELU_BYPASS, 1}, {BN_CFG::BN_MUL_BYPASS, 1}, {BN_CFG::BN_ALU_BYPASS, 1}, {BN_CFG::BN_BYPASS, 1}});
    writer.zero(BN_ALU_CFG::offset, BN_RELUX_CMP_VALUE::offset);
}

void write_end_of_dpu(CommandWriter& writer, std::int64_t group_stride) {
    using namespace reg::DPU;
    writer.zero(EW_OP_VALUE_0::offset, EW_OP_VALUE_7::offset);
    writer.write({{SURFACE_ADD::SURF_ADD, group_stride}});
    writer.zero(UNKNOWN_40C4::offset);
    writer.zero(LUT_ACCESS_CFG::offset, LUT_LO_SLOPE_SHIFT::offset);
}

}  // namespace npu::compile
