// Reader of the EW stage and the look-up tables. See read_dpu.h.
//
// Operands. An ALU operand is as wide as the values, 32 bits; a multiplier operand is 16 bits: an int16 or an fp16, also
// where memory has 32 bits per element. The operand converter turns a narrow float into fp32, which an ALU needs and a
// multiplier must not have; with integers it is a multiplication and a shift, which EW_CVT_TYPE = 1 asks for. With
// EW_CVT_TYPE = 0 an integer goes through the float converter and comes out as garbage. All of this is published for single
// programs; the sentence that explains them is ours.
#include <array>

#include "sim/read_dpu.h"

namespace npu::sim {

namespace {

namespace reg = rockchip::reg;
using namespace reg::DPU;
using rockchip::Precision;

ElementFormat operand_format(const DpuReading& reading, std::uint32_t configuration) {
    const DpuTask& task = reading.task;
    const std::uint32_t size = EW_CFG::EDATA_SIZE.of(configuration);
    const Precision narrow =
        task.floating() ? (task.input == Precision::bf16 ? Precision::bf16 : Precision::fp16) : Precision::int16;
    if (size == 3) {
        const Precision wide = task.floating() ? Precision::fp32 : Precision::int32;
        return {task.ew.multiply ? narrow : wide, 4};
    }
    if (size == 1 && !task.floating()) {
        return {Precision::int8, 1};
    }
    if (size != 2) {
        reading.refuse(Severity::unmodelled, EW_CFG::offset,
                       task.floating() ? "EDATA_SIZE: operands of float values are known with 16 and 32 bits"
                                       : "EDATA_SIZE: operands of 4 bits are not known");
    }
    return {narrow, 2};
}

// Whether the operand converter does what the operation needs.
void read_converter(const DpuReading& reading, std::uint32_t configuration) {
    ElementWiseStage& ew = reading.task.ew;
    Judge& judge = reading.check.judge;
    const bool live = EW_CFG::EW_OP_CVT_BYPASS.of(configuration) == 0;
    if (reading.task.floating()) {
        if (ew.multiply && live) {
            reading.refuse(Severity::hang, EW_CFG::offset,
                           "a multiplication of floats needs EW_OP_CVT_BYPASS = 1: with the converter live it never "
                           "completes (published measurement, flying mode)");
        } else if (!ew.multiply && !live && ew.operand.bytes == 2) {
            ew.passes_main = true;
            reading.refuse(
                Severity::corrupt, EW_CFG::offset,
                "an ALU operation on 16-bit floats needs EW_OP_CVT_BYPASS = 0: else the operand is dropped and "
                "the main value passes (published measurement)");
        } else if (live && ew.operand.bytes == 4) {
            reading.refuse(Severity::unmodelled, EW_CFG::offset, "a converter of 32-bit floats is not known");
        } else if (live) {
            const std::uint32_t scale = reading.check.read(EW_CVT_SCALE_VALUE::offset) & 0x3fffff;
            if (scale != 1 || reading.check.read(EW_CVT_OFFSET_VALUE::offset) != 0) {
                judge.refuse_register(Severity::unmodelled, EW_CVT_SCALE_VALUE::offset, scale,
                                      "float operands are known with scale 1, shift 0 and offset 0 only");
            }
        }
        return;
    }
    if (!live) {
        return;
    }
    const std::uint32_t scale = reading.check.read(EW_CVT_SCALE_VALUE::offset);
    ew.convert = true;
    ew.offset_first = EW_CFG::EW_CVT_TYPE.of(configuration) != 0;
    ew.ties_away = EW_CFG::EW_CVT_ROUND.of(configuration) != 0;
    ew.offset = static_cast<std::int32_t>(reading.check.read(EW_CVT_OFFSET_VALUE::offset));
    ew.scale = static_cast<std::int16_t>(EW_CVT_SCALE_VALUE::EW_OP_CVT_SCALE.of(scale));
    ew.shift = EW_CVT_SCALE_VALUE::EW_OP_CVT_SHIFT.of(scale);
    if (!ew.offset_first) {
        reading.refuse(
            Severity::corrupt, EW_CFG::offset,
            "an integer operand with EW_OP_CVT_BYPASS = 0 and EW_CVT_TYPE = 0 goes through the float converter: "
            "published to give garbage. Bypass the converter, or set EW_CVT_TYPE");
    } else if (ew.operand.bytes == 4) {
        reading.refuse(Severity::unmodelled, EW_CFG::offset, "a converter of 32-bit integers is not known");
    }
}

void read_algorithm(const DpuReading& reading, std::uint32_t configuration) {
    ElementWiseStage& ew = reading.task.ew;
    ew.algorithm = static_cast<AluAlgorithm>(EW_CFG::EW_ALU_ALGO.of(configuration));
    const bool floating = reading.task.floating();
    const bool comparison = EW_CFG::EW_EQUAL_EN.of(configuration) != 0;
    switch (ew.algorithm) {
        case AluAlgorithm::maximum:
        case AluAlgorithm::minimum:
            if (!floating && !comparison) {
                reading.refuse(Severity::corrupt, EW_CFG::offset,
                               "maximum and minimum of integers need EW_EQUAL_EN = 1 (published measurement)");
            }
            break;
        case AluAlgorithm::add:
        case AluAlgorithm::subtract: break;
        case AluAlgorithm::absolute:
        case AluAlgorithm::negate:
            reading.check.judge.warn(
                "%s: absolute value and negation are in the register manual; nobody published a "
                "measurement",
                register_text(EW_CFG::offset, configuration).c_str());
            break;
        case AluAlgorithm::divide:
        case AluAlgorithm::floor:
        case AluAlgorithm::ceiling:
            if (floating) {
                reading.check.judge.warn(
                    "%s: division, floor and ceiling are in the register manual; nobody published a "
                    "measurement",
                    register_text(EW_CFG::offset, configuration).c_str());
                break;
            }
            [[fallthrough]];
        default:
            reading.refuse(Severity::unmodelled, EW_CFG::offset, "this ALU algorithm is not known for these values");
            ew.algorithm = AluAlgorithm::add;
            break;
    }
    const bool compares = ew.algorithm == AluAlgorithm::maximum || ew.algorithm == AluAlgorithm::minimum;
    if (comparison && (floating || !compares)) {
        reading.refuse(Severity::unmodelled, EW_CFG::offset,
                       "EW_EQUAL_EN is known for maximum and minimum of integers only");
    }
}

// One operand for all elements. Eight registers hold it; which of them serves which channel is not published.
std::uint32_t read_register_operand(const DpuReading& reading) {
    constexpr std::uint16_t step = 4;
    const std::uint32_t first = reading.check.read(EW_OP_VALUE_0::offset);
    bool same = true;
    for (std::uint16_t offset = EW_OP_VALUE_0::offset; offset <= EW_OP_VALUE_7::offset; offset += step) {
        same = reading.check.read(offset) == first && same;
    }
    if (!same) {
        reading.refuse(Severity::unmodelled, EW_OP_VALUE_0::offset,
                       "EW_OP_VALUE_0..7 differ: which of them serves which channel is not known");
    }
    return first;
}

void read_operation(const DpuReading& reading, std::uint32_t configuration) {
    ElementWiseStage& ew = reading.task.ew;
    ew.active = true;
    ew.multiply = EW_CFG::EW_OP_TYPE.of(configuration) != 0;
    ew.negatives_only = EW_CFG::EW_MUL_PRELU.of(configuration) != 0;
    reading.unexplained(EW_CFG::offset, configuration, EW_CFG::EW_BINARY_EN(1).value, "EW_BINARY_EN");
    if (EW_CFG::EW_DATA_MODE.of(configuration) > 1) {
        reading.refuse(Severity::unmodelled, EW_CFG::offset, "EW_DATA_MODE is 0 or 1 in every program");
    }
    ew.operand = operand_format(reading, configuration);
    if (!ew.multiply) {
        read_algorithm(reading, configuration);
    } else if (EW_CFG::EW_EQUAL_EN.of(configuration) != 0) {
        reading.refuse(Severity::unmodelled, EW_CFG::offset, "EW_EQUAL_EN with a multiplication");
    }
    if (ew.negatives_only && !ew.multiply) {
        reading.refuse(Severity::unmodelled, EW_CFG::offset, "EW_MUL_PRELU without a multiplication");
    }
    read_converter(reading, configuration);
    // read_dpu_rdma() tells how the operand lies in memory.
    ew.source = EW_CFG::EW_OP_SRC.of(configuration) != 0 ? OperandSource::elements : OperandSource::registers;
    if (ew.source == OperandSource::registers) {
        ew.register_operand = read_register_operand(reading);
    }
    if (!reading.task.floating()) {
        ew.truncate = EW_CVT_SCALE_VALUE::EW_TRUNCATE.of(reading.check.read(EW_CVT_SCALE_VALUE::offset));
        ew.negative_truncate = DATA_FORMAT::EW_TRUNCATE_NEG.of(reading.check.read(DATA_FORMAT::offset));
        if (ew.truncate > 62 || ew.negative_truncate > 62) {
            reading.refuse(Severity::unmodelled, EW_CVT_SCALE_VALUE::offset, "a truncation of more than 62 bits");
            ew.truncate = ew.negative_truncate = 0;
        }
    }
}

LookupRange read_range(const DpuReading& reading, std::uint16_t start, std::uint16_t end, std::uint32_t distance,
                       std::uint16_t scale, std::uint16_t shift) {
    LookupRange range;
    range.start = static_cast<std::int32_t>(reading.check.read(start));
    range.end = static_cast<std::int32_t>(reading.check.read(end));
    range.distance = distance;
    const std::int64_t width = std::int64_t{range.end} - range.start;
    if (distance > 22 || width < 0 || width > std::int64_t{512} << distance) {
        reading.refuse(Severity::unmodelled, end, "the range must not be wider than the table, 512 steps of LUT_INFO");
        range.end = range.start;
        range.distance = 0;
    }
    const std::uint32_t scales = reading.check.read(scale);
    const std::uint32_t shifts = reading.check.read(shift);
    range.underflow_scale = static_cast<std::int16_t>(LUT_LE_SLOPE_SCALE::LUT_LE_SLOPE_UFLOW_SCALE.of(scales));
    range.overflow_scale = static_cast<std::int16_t>(LUT_LE_SLOPE_SCALE::LUT_LE_SLOPE_OFLOW_SCALE.of(scales));
    range.underflow_shift = LUT_LE_SLOPE_SHIFT::LUT_LE_SLOPE_UFLOW_SHIFT.of(shifts);
    range.overflow_shift = LUT_LE_SLOPE_SHIFT::LUT_LE_SLOPE_OFLOW_SHIFT.of(shifts);
    if ((range.underflow_scale != 0 && range.underflow_shift > 15) ||
        (range.overflow_scale != 0 && range.overflow_shift > 15)) {
        reading.refuse(Severity::unmodelled, shift, "whether a slope shift above 15 is negative is not known");
    }
    return range;
}

void read_lookup(const DpuReading& reading) {
    LookupStage& lookup = reading.task.lookup;
    lookup.active = true;
    const std::uint32_t configuration = reading.check.read(LUT_CFG::offset);
    constexpr std::uint32_t priorities = LUT_CFG::LUT_HYBRID_PRIORITY(1).value | LUT_CFG::LUT_OFLOW_PRIORITY(1).value |
                                         LUT_CFG::LUT_UFLOW_PRIORITY(1).value;
    if ((configuration & ~priorities) != LUT_CFG::LUT_LO_LE_MUX(2).value) {
        reading.refuse(Severity::unmodelled, LUT_CFG::offset,
                       "only the priorities are explained; the rest is 8 (LUT_LO_LE_MUX = 2) in every program");
    }
    lookup.lo_where_both = LUT_CFG::LUT_HYBRID_PRIORITY.of(configuration) != 0;
    lookup.lo_above = LUT_CFG::LUT_OFLOW_PRIORITY.of(configuration) != 0;
    lookup.lo_below = LUT_CFG::LUT_UFLOW_PRIORITY.of(configuration) != 0;
    const std::uint32_t info = reading.check.read(LUT_INFO::offset);
    lookup.le = read_range(reading, LUT_LE_START::offset, LUT_LE_END::offset, LUT_INFO::LUT_LE_INDEX_SELECT.of(info),
                           LUT_LE_SLOPE_SCALE::offset, LUT_LE_SLOPE_SHIFT::offset);
    lookup.lo = read_range(reading, LUT_LO_START::offset, LUT_LO_END::offset, LUT_INFO::LUT_LO_INDEX_SELECT.of(info),
                           LUT_LO_SLOPE_SCALE::offset, LUT_LO_SLOPE_SHIFT::offset);
}

}  // namespace

void read_dpu_element_wise(const DpuReading& reading) {
    ElementWiseStage& ew = reading.task.ew;
    const std::uint32_t configuration = reading.check.read(EW_CFG::offset);
    if (EW_CFG::EW_BYPASS.of(configuration) != 0) {
        return;
    }
    constexpr std::uint32_t no_field = 0x0f00f818;
    reading.unexplained(EW_CFG::offset, configuration, no_field, "no field");
    const bool tables = EW_CFG::EW_LUT_BYPASS.of(configuration) == 0;
    const bool from_memory = EW_CFG::EW_OP_SRC.of(configuration) != 0;
    // Measured: with tables and no operand from memory the operation does nothing, even when it is not bypassed.
    if (EW_CFG::EW_OP_BYPASS.of(configuration) == 0 && (!tables || from_memory)) {
        read_operation(reading, configuration);
    }
    ew.relu.active = EW_CFG::EW_RELU_BYPASS.of(configuration) == 0;
    ew.relu.bounded = EW_CFG::EW_RELUX_EN.of(configuration) != 0;
    if (ew.relu.bounded) {
        if (!ew.relu.active) {
            reading.refuse(Severity::unmodelled, EW_CFG::offset, "an upper bound with ReLU bypassed");
        }
        ew.relu.bound = reading.check.read(EW_RELUX_CMP_VALUE::offset);
    }
    if (tables) {
        read_lookup(reading);
        if (ew.relu.active) {
            reading.refuse(Severity::unmodelled, EW_CFG::offset,
                           "tables and ReLU together: which comes first is not known");
        }
        if (ew.active) {
            reading.check.judge.warn(
                "%s: an operand and the tables in one task; the operation is taken to come first, as "
                "the register manual draws it",
                register_text(EW_CFG::offset, configuration).c_str());
        }
    }
    if (!ew.active && ew.relu.active) {  // ReLU alone
        ew.active = true;
        ew.passes_main = true;
        ew.multiply = false;
        ew.algorithm = AluAlgorithm::add;
        ew.source = OperandSource::registers;
        ew.operand = {reading.task.floating() ? Precision::fp32 : Precision::int32, 4};
    }
}

}  // namespace npu::sim
