// Reader of the output converter and the writer. See read_dpu.h.
#include <algorithm>

#include "sim/output_addressing.h"
#include "sim/read_dpu.h"

namespace npu::sim {

namespace {

namespace reg = rockchip::reg;
using namespace reg::DPU;
using rockchip::Precision;

// How sure it is that the DPU turns values of one format into another.
enum class Known { published, plausible, no };

Known from_integers(Precision input, Precision output, bool flying) {
    switch (output) {
        case Precision::int8:
            return input == Precision::int8 ? Known::published : flying ? Known::plausible : Known::no;
        case Precision::int16: return input == Precision::int32 ? Known::plausible : Known::published;
        case Precision::int32:
            return input == Precision::int4 || (flying && input != Precision::int32) ? Known::plausible
                                                                                     : Known::published;
        case Precision::fp32:
            return input == Precision::int8 || input == Precision::int32 ? Known::published : Known::plausible;
        case Precision::fp16: return Known::plausible;
        default: return Known::no;
    }
}

Known from_floats(Precision input, Precision output, bool flying) {
    switch (output) {
        case Precision::fp32: return flying && input != Precision::fp32 ? Known::plausible : Known::published;
        case Precision::fp16:
            return input == Precision::fp16             ? Known::published
                   : input == Precision::bf16 || flying ? Known::plausible
                                                        : Known::no;
        case Precision::bf16:
            return input == Precision::fp16 || input == Precision::bf16 ? Known::published
                   : flying                                             ? Known::plausible
                                                                        : Known::no;
        case Precision::int16: return input == Precision::fp16 ? Known::published : Known::no;
        default: return Known::no;
    }
}

// What the look-up tables deliver is an integer in both domains; captures write it as int8, int16, fp16 and fp32.
Known from_tables(Precision output) {
    return output == Precision::int32 || output == Precision::bf16 ? Known::plausible : Known::published;
}

void check_formats(const DpuReading& reading) {
    const DpuTask& task = reading.task;
    if (task.writes_nothing) {
        return;
    }
    const Known known = task.lookup.active ? from_tables(task.output)
                        : task.floating()  ? from_floats(task.input, task.output, task.flying)
                                           : from_integers(task.input, task.output, task.flying);
    const char* in = rockchip::info(task.input).name;
    const char* out = rockchip::info(task.output).name;
    if (known == Known::no) {
        reading.check.judge.refuse_register(Severity::unmodelled, DATA_FORMAT::offset,
                                            reading.check.read(DATA_FORMAT::offset),
                                            "%s inputs to an %s output are not known to any source", in, out);
    } else if (known == Known::plausible) {
        const bool narrow = task.input == Precision::int8 && task.output == Precision::fp16;
        reading.check.judge.warn(
            "%s: %s inputs to an %s output: %s",
            register_text(DATA_FORMAT::offset, reading.check.read(DATA_FORMAT::offset)).c_str(), in, out,
            narrow && !task.flying ? "published to be right for one small tile and sums up to 2048 only"
                                   : "no published program does this");
    }
}

bool is_narrow_float(Precision output) { return output == Precision::fp16 || output == Precision::bf16; }

void read_integer_conversion(const DpuReading& reading, std::uint32_t scale, std::uint32_t shift) {
    DpuTask& task = reading.task;
    OutputConversion& conversion = task.conversion;
    conversion.scale = static_cast<std::int16_t>(OUT_CVT_SCALE::OUT_CVT_SCALE.of(scale));
    conversion.offset = static_cast<std::int32_t>(reading.zero_if_unwritten(OUT_CVT_OFFSET::offset));
    conversion.shift = OUT_CVT_SHIFT::OUT_CVT_SHIFT.of(shift);
    conversion.ties_away = OUT_CVT_SHIFT::CVT_ROUND.of(shift) != 0;
    if (rockchip::info(task.output).floating) {
        conversion.scaled = OUT_CVT_SHIFT::CVT_TYPE.of(shift) != 0;
        conversion.minus_exponent = OUT_CVT_SHIFT::MINUS_EXP.of(shift);
        if (conversion.scaled && conversion.shift != 0) {
            reading.refuse(Severity::unmodelled, OUT_CVT_SHIFT::offset,
                           "a shift beside the float conversion (CVT_TYPE = 1)");
        }
    }
    if (conversion.shift > 62) {
        reading.check.judge.refuse_register(Severity::unmodelled, OUT_CVT_SHIFT::offset, shift,
                                            "a shift above 62 of a 64-bit product");
        conversion.shift = 62;
    }
}

// Floats keep their scale; only the exponent may be lowered.
void read_float_conversion(const DpuReading& reading, std::uint32_t scale, std::uint32_t shift) {
    DpuTask& task = reading.task;
    OutputConversion& conversion = task.conversion;
    if (reading.zero_if_unwritten(OUT_CVT_OFFSET::offset) != 0) {
        reading.refuse(Severity::unmodelled, OUT_CVT_OFFSET::offset, "an offset of float values is 0 in every program");
    }
    reading.unexplained(OUT_CVT_SHIFT::offset, shift, OUT_CVT_SHIFT::OUT_CVT_SHIFT(0xfff).value,
                        "a shift of float values");
    const std::uint32_t factor = OUT_CVT_SCALE::OUT_CVT_SCALE.of(scale);
    conversion.scaled = OUT_CVT_SHIFT::CVT_TYPE.of(shift) != 0;
    if (conversion.scaled) {
        conversion.scale = static_cast<std::int16_t>(factor);
        conversion.minus_exponent = OUT_CVT_SHIFT::MINUS_EXP.of(shift);
    } else {
        reading.unexplained(OUT_CVT_SHIFT::offset, shift, OUT_CVT_SHIFT::MINUS_EXP(0xff).value,
                            "MINUS_EXP of float values without CVT_TYPE");
        const bool ignored = factor == 0 && task.output == Precision::fp32;  // a hardware-tested generator writes 0
        if (factor != 1 && !ignored) {
            reading.refuse(Severity::unmodelled, OUT_CVT_SCALE::offset,
                           "the scale of float values is 1 in every program");
        }
    }
    if (OUT_CVT_SHIFT::CVT_ROUND.of(shift) != 0) {
        reading.check.judge.warn("%s: CVT_ROUND with float values; ties go to even here",
                                 register_text(OUT_CVT_SHIFT::offset, shift).c_str());
    }
}

void read_conversion(const DpuReading& reading) {
    DpuTask& task = reading.task;
    const std::uint32_t scale = reading.check.only(OUT_CVT_SCALE::offset, 0x1ffff, "17 bits");
    const std::uint32_t shift = reading.zero_if_unwritten(OUT_CVT_SHIFT::offset);
    constexpr std::uint32_t no_field = 0x3ff00000;
    reading.unexplained(OUT_CVT_SHIFT::offset, shift, no_field, "no field");
    const bool narrows = OUT_CVT_SCALE::FP32TOFP16_EN.of(scale) != 0;
    if (is_narrow_float(task.output) && !narrows) {
        reading.refuse(Severity::hang, OUT_CVT_SCALE::offset,
                       "a 16-bit float output needs FP32TOFP16_EN = 1: without it the task never completes (published "
                       "measurement)");
    } else if (narrows && !is_narrow_float(task.output) && task.output != Precision::int16) {
        reading.refuse(Severity::unmodelled, OUT_CVT_SCALE::offset,
                       "FP32TOFP16_EN is set for 16-bit outputs of floats only, in every program");
    }
    if (task.floating() && !task.lookup.active) {
        read_float_conversion(reading, scale, shift);
    } else {
        read_integer_conversion(reading, scale, shift);
    }
    if (task.conversion.minus_exponent > 126) {
        reading.refuse(Severity::unmodelled, OUT_CVT_SHIFT::offset,
                       "MINUS_EXP above 126: whether it is signed is not known");
        task.conversion.minus_exponent = 126;
    }
}

// The transposed writer is known from one program: int16 sums, one column of M pixels, at most 32 channels.
void read_transposed(const DpuReading& reading, std::uint32_t size_e) {
    DpuTask& task = reading.task;
    const std::uint64_t plane = std::uint64_t{task.pixels()} * rockchip::atom_bytes;
    const bool known = task.input == Precision::int16 && task.output == Precision::int16 && task.channels <= 32 &&
                       size_e == 7 && !task.flying && task.output_surface_bytes == plane &&
                       task.output_group_bytes == 8 * plane;
    if (!known) {
        reading.refuse(
            Severity::unmodelled, BS_OW_CFG::offset,
            "TP_ORG_EN is known for int16 to int16 with at most 32 channels, SIZE_E 7, DST_SURF_STRIDE of one "
            "plane and SURFACE_ADD of eight; where other programs write is not published");
        return;
    }
    if (task.channels <= 16) {
        reading.refuse(
            Severity::hang, BS_OW_CFG::offset,
            "TP_ORG_EN with 16 channels never completes, though everything is written (published measurement)");
    }
    const OutputConversion& how = task.conversion;
    if (how.scale != 1 || how.shift != 0 || how.offset != 0) {
        reading.refuse(Severity::unmodelled, OUT_CVT_SCALE::offset,
                       "the transposed writer is known without conversion");
    }
    task.transposed = true;
}

void read_surfaces(const DpuReading& reading) {
    DpuTask& task = reading.task;
    Judge& judge = reading.check.judge;
    const std::uint32_t value = reading.check.read(BS_OW_CFG::offset);
    reading.unexplained(BS_OW_CFG::offset, value, ~0x080007ffU, "grouped writers");
    const std::uint32_t size_e = BS_OW_CFG::SIZE_E_0.of(value);
    if (BS_OW_CFG::SIZE_E_1.of(value) != size_e || BS_OW_CFG::SIZE_E_2.of(value) != size_e) {
        reading.refuse(Severity::unmodelled, BS_OW_CFG::offset,
                       "SIZE_E_0, SIZE_E_1 and SIZE_E_2 are the same in every program");
    }
    task.group_surfaces = task.written_surfaces = size_e + 1;
    if (std::min(task.surfaces(), task.group_surfaces) > 1) {
        task.output_surface_bytes = reading.multiple_of_16(DST_SURF_STRIDE::offset);
    }
    if (task.surfaces() > task.group_surfaces) {
        task.output_group_bytes = reading.multiple_of_16(SURFACE_ADD::offset);
    }
    if (BS_OW_CFG::TP_ORG_EN.of(value) != 0) {
        task.output_surface_bytes = reading.multiple_of_16(DST_SURF_STRIDE::offset);
        task.output_group_bytes = reading.multiple_of_16(SURFACE_ADD::offset);
        read_transposed(reading, size_e);
        return;
    }
    if (reading.feed == nullptr) {
        return;
    }
    const std::uint32_t full = task.group_channels * task.output_element_bytes() / rockchip::atom_bytes;
    if (size_e + 1 > full) {
        judge.refuse_register(
            Severity::hang, BS_OW_CFG::offset, value,
            "SIZE_E must be %u in all three fields: a kernel group fills %u surfaces, and the writer waits "
            "for more (published measurement, int16 with SIZE_E 7)",
            full - 1, full);
        task.group_surfaces = task.written_surfaces = full;
    } else if (size_e + 1 < full && task.surfaces() > size_e + 1) {
        const std::uint64_t stride = reading.multiple_of_16(DST_SURF_STRIDE::offset);
        if (task.output_group_bytes != (size_e + 1) * stride) {
            judge.refuse_register(
                Severity::corrupt, BS_OW_CFG::offset, value,
                "SIZE_E must be %u in all three fields: a kernel group fills %u surfaces, of which the "
                "later ones are never written (published measurement)",
                full - 1, full);
            task.group_surfaces = full;
            task.output_surface_bytes = stride;
        }
    }
}

void read_writer(const DpuReading& reading) {
    DpuTask& task = reading.task;
    Judge& judge = reading.check.judge;
    task.output_address = reading.multiple_of_16(DST_BASE_ADDR::offset);
    if (task.height > 1) {
        const std::uint32_t notch = reading.check.only(DATA_CUBE_NOTCH_ADDR::offset, 0x1fff1fff, "a notch has 13 bits");
        task.output_notch_atoms = DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_0.of(notch);
        if (DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_1.of(notch) != task.output_notch_atoms) {
            judge.refuse_register(Severity::corrupt, DATA_CUBE_NOTCH_ADDR::offset, notch,
                                  "both halves must be the same: which of them counts is unknown");
        }
    }
    read_surfaces(reading);
}

// The writer has sizes of its own. With the transposed writer they mean something else.
void check_writer_size(const DpuReading& reading) {
    const DpuTask& task = reading.task;
    if (BS_OW_CFG::TP_ORG_EN.of(reading.check.read(BS_OW_CFG::offset)) != 0) {
        return;
    }
    const std::uint32_t channels = reading.check.read(WDMA_SIZE_0::offset);
    reading.unexplained(WDMA_SIZE_0::offset, channels, ~WDMA_SIZE_0::CHANNEL_WDMA(0x1fff).value,
                        "the sizes of a transposed writer");
    if (WDMA_SIZE_0::CHANNEL_WDMA.of(channels) + 1 != task.channels) {
        reading.refuse(Severity::hang, WDMA_SIZE_0::offset,
                       "the blocks disagree about the channels of the output cube");
    }
    const std::uint32_t plane = reading.check.only(WDMA_SIZE_1::offset, 0x1fff1fff, "13 bits each");
    if (plane != ((task.height - 1) << 16 | (task.width - 1))) {
        reading.refuse(Severity::hang, WDMA_SIZE_1::offset, "the blocks disagree about the plane of the output cube");
    }
}

}  // namespace

void read_dpu_output(const DpuReading& reading) {
    check_formats(reading);
    read_conversion(reading);
    read_writer(reading);
    check_writer_size(reading);
}

}  // namespace npu::sim
