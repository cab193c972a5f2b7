#include "rockchip/checker_stages.h"

#include "base/result.h"

namespace npu::rockchip::check {

namespace {

namespace dpu = reg::DPU;
namespace rdma = reg::DPU_RDMA;
namespace ow = reg::DPU::BS_OW_CFG;

// What a data-use field asks of a per-channel reader.
enum Use : std::uint32_t { use_alu = 1, use_zero_point = 2, use_multiplier = 4, use_shift = 8 };

struct Stage {
    const char* name;
    Field bypass, alu_bypass, multiplier_bypass, alu_algorithm, alu_source, multiplier_source, shift_source;
    Field data_use, base;
};

constexpr Stage bs{"BS",
                   dpu::BS_CFG::BS_BYPASS,
                   dpu::BS_CFG::BS_ALU_BYPASS,
                   dpu::BS_CFG::BS_MUL_BYPASS,
                   dpu::BS_CFG::BS_ALU_ALGO,
                   dpu::BS_CFG::BS_ALU_SRC,
                   dpu::BS_MUL_CFG::BS_MUL_SRC,
                   dpu::BS_MUL_CFG::BS_TRUNCATE_SRC,
                   rdma::BRDMA_CFG::BRDMA_DATA_USE,
                   rdma::BS_BASE_ADDR::BS_BASE_ADDR};
constexpr Stage bn{"BN",
                   dpu::BN_CFG::BN_BYPASS,
                   dpu::BN_CFG::BN_ALU_BYPASS,
                   dpu::BN_CFG::BN_MUL_BYPASS,
                   dpu::BN_CFG::BN_ALU_ALGO,
                   dpu::BN_CFG::BN_ALU_SRC,
                   dpu::BN_MUL_CFG::BN_MUL_SRC,
                   dpu::BN_MUL_CFG::BN_TRUNCATE_SRC,
                   rdma::NRDMA_CFG::NRDMA_DATA_USE,
                   rdma::BN_BASE_ADDR::BN_BASE_ADDR};

// The per-channel operands that a stage waits for.
std::uint32_t needed_operands(const Reader& reader, const Stage& stage) {
    std::uint32_t needed = 0;
    if (reader.is_set(stage.bypass)) {
        return needed;
    }
    if (!reader.is_set(stage.alu_bypass)) {
        needed |= reader.is_set(stage.alu_source) ? use_alu : 0U;
        if (const std::uint32_t algorithm = reader.of(stage.alu_algorithm); algorithm > 8) {
            reader.refuse(stage.alu_algorithm, consequence::not_understood, source::manual,
                          format("%s algorithm %u; 0 to 8 are known", stage.name, algorithm));
        }
    }
    if (!reader.is_set(stage.multiplier_bypass)) {
        needed |= reader.is_set(stage.multiplier_source) ? use_multiplier : 0U;
        reader.unexplained(stage.shift_source, "a shift per channel, which no program has");
    }
    return needed;
}

// The operand that CPEND waits for, or nothing.
std::uint32_t check_zero_point(const Reader& reader, const Pipeline& pipeline) {
    if (reader.is_set(ow::OD_BYPASS)) {
        return 0;
    }
    const bool per_channel = reader.is_set(ow::OW_SRC);
    if (!per_channel && reader.value(dpu::BS_OW_OP::offset) == 0) {
        return 0;  // adds nothing
    }
    if (pipeline.flying() || pipeline.floating()) {
        reader.refuse(ow::OD_BYPASS, consequence::not_understood, source::none,
                      format("the weight zero-point stage is live with an operand %s; bypass it (OD_BYPASS) or write "
                             "BS_OW_OP 0",
                             pipeline.flying() ? "in flying mode, where there is no window" : "on the float path"));
        return 0;
    }
    if (!reader.is_set(reg::CORE::MISC_CFG::QD_EN)) {
        reader.refuse(
            reg::CORE::MISC_CFG::QD_EN, consequence::corrupts, source::measured,
            "QD_EN is 0, so no window sums are made, but the weight zero-point stage (OD_BYPASS 0) adds them");
    }
    if (pipeline.output == Precision::int32) {
        reader.refuse(ow::OD_BYPASS, consequence::corrupts, source::measured,
                      "the weight zero-point stage is live with an operand; with int32 output its results were wrong");
    }
    return per_channel ? use_zero_point : 0U;
}

void check_operands(const Reader& reader, const Pipeline& pipeline, const Stage& stage, std::uint32_t needed,
                    std::vector<Operand>& operands) {
    if (!reader.fires(enable_bit::dpu_rdma)) {
        if (needed != 0) {
            reader.refuse(stage.bypass, consequence::hangs, source::inferred,
                          format("%s waits for operands from DPU_RDMA, which this task does not fire", stage.name));
        }
        return;
    }
    const std::uint32_t sent = reader.of(stage.data_use);
    if (needed == 0) {
        if (sent != 0) {
            reader.refuse(stage.data_use, consequence::not_understood, source::none,
                          format("reads per-channel operands for %s, which takes none", stage.name));
        }
        return;
    }
    if ((needed & ~sent) != 0) {
        reader.refuse(stage.data_use, consequence::hangs, source::inferred,
                      format("%s waits for per-channel operands 0x%x, and %s is 0x%x", stage.name, needed,
                             stage.data_use.name, sent));
        return;
    }
    if ((sent & use_shift) != 0) {
        reader.refuse(stage.data_use, consequence::not_understood, source::none,
                      format("%s bit 3 reads a shift per channel, which no program has", stage.data_use.name));
        return;
    }
    const std::uint32_t address = reader.value(stage.base.offset);
    if (address % atom_bytes != 0) {
        reader.refuse(stage.base, consequence::corrupts, source::manual,
                      format("%s is no multiple of 16 bytes", stage.base.name));
    }
    // One int32 for the ALU, one 16-bit number for each other use; all three make the record of 64 bytes per 8 channels.
    const std::int64_t per_channel = ((sent & use_alu) != 0 ? 4 : 0) + ((sent & use_zero_point) != 0 ? 2 : 0) +
                                     ((sent & use_multiplier) != 0 ? 2 : 0);
    operands.push_back({{address, address + per_channel * pipeline.channels}, stage.base, "per-channel operands"});
}

}  // namespace

void check_stages(const Reader& reader, const Pipeline& pipeline, std::vector<Operand>& operands) {
    const std::uint32_t zero_point = check_zero_point(reader, pipeline);
    check_operands(reader, pipeline, bs, needed_operands(reader, bs) | zero_point, operands);
    const std::uint32_t second = needed_operands(reader, bn);
    if (second != 0 && reader.fires(enable_bit::dpu_rdma)) {
        reader.refuse(bn.bypass, consequence::hangs, source::measured,
                      "BN with one operand per channel; the one program that tried never ended");
        return;
    }
    check_operands(reader, pipeline, bn, second, operands);
}

}  // namespace npu::rockchip::check
