#include "rockchip/checker_elementwise.h"

#include "base/result.h"

namespace npu::rockchip::check {

namespace {

namespace dpu = reg::DPU;
namespace ew = reg::DPU::EW_CFG;

constexpr std::uint32_t size_16 = 2;  // codes of EDATA_SIZE
constexpr std::uint32_t size_32 = 3;
constexpr std::uint32_t algorithm_maximum = 0;
constexpr std::uint32_t algorithm_minimum = 1;
constexpr std::uint32_t algorithm_add = 2;
constexpr std::uint32_t table_entries = 513;

// The operand converter: (x + offset) * scale >> shift. Float adders need it, float multipliers must not have it.
void check_operand_converter(const Reader& reader, const Pipeline& pipeline, bool multiplies) {
    const bool live = !reader.is_set(ew::EW_OP_CVT_BYPASS);
    const std::uint32_t size = reader.of(ew::EDATA_SIZE);
    if (!pipeline.floating()) {
        if (live && size == size_32) {
            reader.refuse(ew::EW_OP_CVT_BYPASS, consequence::corrupts, source::measured,
                          "a 32-bit integer operand through the live converter becomes garbage; set EW_OP_CVT_BYPASS");
        }
    } else if (multiplies && live) {
        reader.refuse(
            ew::EW_OP_CVT_BYPASS, pipeline.flying() ? consequence::hangs : consequence::not_understood,
            pipeline.flying() ? source::measured : source::none,
            "float multiplication with a live operand converter; every working program sets EW_OP_CVT_BYPASS");
    } else if (!multiplies && !live && size == size_16) {
        reader.refuse(ew::EW_OP_CVT_BYPASS, consequence::corrupts, source::measured,
                      "float ALU with a bypassed operand converter drops the operand; clear EW_OP_CVT_BYPASS");
    }
    if (live && !reader.is_set(dpu::EW_CVT_SCALE_VALUE::EW_OP_CVT_SCALE)) {
        reader.refuse(dpu::EW_CVT_SCALE_VALUE::EW_OP_CVT_SCALE, consequence::corrupts, source::manual,
                      "scale 0 of the live operand converter makes every operand the same");
    }
}

void check_integer_operation(const Reader& reader, const Pipeline& pipeline, bool multiplies) {
    const std::uint32_t size = reader.of(ew::EDATA_SIZE);
    const std::uint32_t algorithm = reader.of(ew::EW_ALU_ALGO);
    if (multiplies && size == size_32) {
        reader.warn(ew::EDATA_SIZE, consequence::corrupts, source::measured,
                    "multiplication takes a 32-bit integer operand as signed 16 bits");
    }
    const bool compares = !multiplies && (algorithm == algorithm_maximum || algorithm == algorithm_minimum);
    if (compares && reader.is_set(ew::EW_OP_CVT_BYPASS) && !reader.is_set(ew::EW_EQUAL_EN)) {
        reader.refuse(ew::EW_EQUAL_EN, consequence::corrupts, source::measured,
                      "maximum and minimum of integers need EW_EQUAL_EN");
    }
    if (!pipeline.flying() && !multiplies && algorithm == algorithm_add && size == size_32) {
        reader.warn(ew::EW_ALU_ALGO, consequence::corrupts, source::inferred,
                    "adding int32 behind the array follows from a measured multiplication there, and was not measured "
                    "itself; a flying task of its own was");
    }
}

void check_tables(const Reader& reader, const Pipeline& pipeline) {
    for (std::size_t table = 0; table < 2; ++table) {
        if (const std::uint32_t entries = reader.file.table_entries(table); entries != table_entries) {
            reader.warn(ew::EW_LUT_BYPASS, consequence::corrupts, source::measured,
                        format("this chain loads %u of %u entries of lookup table %s; the rest is what the core loaded "
                               "last, and lost by a reset",
                               entries, table_entries, table == 0 ? "LE" : "LO"));
        }
    }
    if (pipeline.width >= 8191) {
        reader.refuse(
            dpu::DATA_CUBE_WIDTH::WIDTH, consequence::corrupts, source::measured,
            format("lookup over %u columns; at 8191 some of the last were wrong, 4096 are safe", pipeline.width));
    }
}

}  // namespace

ElementWise check_element_wise(const Reader& reader, const Pipeline& pipeline) {
    ElementWise result;
    if (reader.is_set(ew::EW_BYPASS)) {
        return result;
    }
    reader.unexplained(ew::EW_BINARY_EN, "0 in every program");
    const bool tables = !reader.is_set(ew::EW_LUT_BYPASS);
    if (tables) {
        check_tables(reader, pipeline);
    }
    result.operand_from_memory = reader.is_set(ew::EW_OP_SRC);
    // Programs with tables leave the operation on without an operand; it does nothing there.
    if (reader.is_set(ew::EW_OP_BYPASS) || (tables && !result.operand_from_memory)) {
        return {};
    }
    result.multiplies = reader.is_set(ew::EW_OP_TYPE);
    if (const std::uint32_t algorithm = reader.of(ew::EW_ALU_ALGO); !result.multiplies && algorithm > 8) {
        reader.refuse(ew::EW_ALU_ALGO, consequence::not_understood, source::manual,
                      format("EW algorithm %u; 0 to 8 are known", algorithm));
    }
    check_operand_converter(reader, pipeline, result.multiplies);
    if (!pipeline.floating()) {
        check_integer_operation(reader, pipeline, result.multiplies);
    }
    if (result.operand_from_memory && !reader.fires(enable_bit::dpu_rdma)) {
        reader.refuse(ew::EW_OP_SRC, consequence::hangs, source::measured,
                      "the element-wise stage (EW) waits for an operand from DPU_RDMA, which this task does not fire");
        result.operand_from_memory = false;
    }
    return result;
}

}  // namespace npu::rockchip::check
