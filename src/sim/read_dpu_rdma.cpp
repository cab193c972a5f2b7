// Reader of DPU_RDMA: which engines run, whether somebody takes what they bring, and where it lies. See read_dpu.h.
//
// An engine that is enabled and not served, or that nobody listens to, waits for ever: the whole task does. That is the
// MRDMA trap of the mainline driver (the block's reset value enables MRDMA) and its mirror image, an EW path half armed.
#include <algorithm>

#include "sim/dpu_operands.h"
#include "sim/read_dpu.h"

namespace npu::sim {

namespace {

namespace reg = rockchip::reg;
using namespace reg::DPU_RDMA;
using rockchip::Precision;

// Measured: beside the array, planes of fewer pixels than this are read with a wrong stride by a program that puts at
// least so many atoms into the notch registers.
constexpr std::uint32_t least_notch_atoms = 12;

bool has_lines(const DpuTask& task) { return task.height > 1; }

std::uint64_t plane_bytes(const DpuTask& task) { return std::uint64_t{task.pixels()} * rockchip::atom_bytes; }

// A cube of which one stream reads `surfaces` surfaces.
CubeStream read_stream(const DpuReading& reading, std::uint16_t address, rockchip::Field line_notch,
                       std::uint32_t surfaces) {
    CubeStream stream;
    stream.address = reading.multiple_of_16(address);
    const std::uint32_t notch =
        has_lines(reading.task) ? line_notch.of(reading.zero_if_unwritten(line_notch.offset)) : 0;
    stream.line_bytes = std::uint64_t{reading.task.width + notch} * rockchip::atom_bytes;
    if (notch != 0 && surfaces > 1) {
        reading.refuse(
            Severity::unmodelled, line_notch.offset,
            "a gap after each line of an operand with several surfaces: whether the surface stride contains it "
            "is not published");
    }
    return stream;
}

void check_size(const DpuReading& reading) {
    const DpuTask& task = reading.task;
    const char* disagree = "DPU and DPU_RDMA disagree about the cube";
    reading.check.expect(DATA_CUBE_WIDTH::offset, task.width - 1, Severity::hang, disagree);
    if (reading.check.read(DATA_CUBE_HEIGHT::HEIGHT) + 1 != task.height) {
        reading.refuse(Severity::hang, DATA_CUBE_HEIGHT::offset, disagree);
    }
    reading.check.expect(DATA_CUBE_CHANNEL::offset, task.channels - 1, Severity::hang, disagree);
}

void read_records(const DpuReading& reading) {
    DpuTask& task = reading.task;
    const std::uint32_t value = reading.zero_if_unwritten(BRDMA_CFG::offset);
    const std::uint32_t use = BRDMA_CFG::BRDMA_DATA_USE.of(value);
    const std::uint32_t wanted = (task.bs.alu_per_channel ? 1U : 0) | (task.ow.active && task.ow.per_channel ? 2U : 0) |
                                 (task.bs.multiplier_per_channel ? 4U : 0);
    if ((use & 8) != 0) {
        reading.refuse(Severity::unmodelled, BRDMA_CFG::offset, "operands for a shift per channel are not known");
    }
    if ((wanted & ~use) != 0) {
        reading.check.judge.refuse_register(
            Severity::hang, BRDMA_CFG::offset, value,
            "BS and OW wait for operands per channel (BRDMA_DATA_USE bits 0x%x) that are "
            "not asked for (register manual)",
            wanted & ~use);
        task.bs.alu_per_channel = task.bs.multiplier_per_channel = task.ow.per_channel = false;
    } else if (use != 0 && wanted == 0) {
        reading.refuse(
            Severity::hang, BRDMA_CFG::offset,
            "BRDMA brings operands per channel that no stage takes (as an EW path half armed, which is measured "
            "to hang)");
    } else if (wanted != 0) {
        ChannelRecords& records = task.records;
        records.active = true;
        records.address = reading.multiple_of_16(BS_BASE_ADDR::offset);
        records.zero_point_offset = (use & 1) != 0 ? 32 : 0;
        records.multiplier_offset = records.zero_point_offset + ((use & 2) != 0 ? 16 : 0);
        records.record_bytes = records.multiplier_offset + ((use & 4) != 0 ? 16 : 0);
    }
    if (reading.zero_if_unwritten(NRDMA_CFG::offset) != 0) {
        reading.refuse(Severity::unmodelled, NRDMA_CFG::offset,
                       "BN operands per channel: the one configuration that was tried never completed (published)");
    }
}

// What MRDMA could do besides reading a cube.
void check_main_reader(const DpuReading& reading) {
    const std::uint32_t source = reading.zero_if_unwritten(SRC_DMA_CFG::offset);
    reading.unexplained(SRC_DMA_CFG::offset, source, ~SRC_DMA_CFG::LINE_NOTCH_ADDR(0x1fff).value, "unpooling");
    reading.unexplained(PAD_CFG::offset, reading.zero_if_unwritten(PAD_CFG::offset), ~0U, "padding");
}

void read_main_cube(const DpuReading& reading, std::uint32_t mode) {
    DpuTask& task = reading.task;
    const std::uint32_t code = rockchip::info(task.input).dpu_code;
    const std::uint32_t surfaces = cube_surfaces(task.channels, rockchip::info(task.input).bits / 8);
    if (FEATURE_MODE_CFG::IN_PRECISION.of(mode) != code || FEATURE_MODE_CFG::PROC_PRECISION.of(mode) != code) {
        reading.check.judge.refuse_register(
            Severity::unmodelled, FEATURE_MODE_CFG::offset, mode,
            "DPU and DPU_RDMA disagree about the format of the input: %u in DPU.DATA_FORMAT", code);
    }
    const bool widened = FEATURE_MODE_CFG::MRDMA_FP16TOFP32_EN.of(mode) != 0;
    if (widened != (task.input == Precision::fp16) && task.input != Precision::bf16) {
        reading.refuse(Severity::unmodelled, FEATURE_MODE_CFG::offset,
                       "MRDMA_FP16TOFP32_EN is 1 for fp16 and 0 for the other formats in every program");
    }
    check_main_reader(reading);
    task.main = read_stream(reading, SRC_BASE_ADDR::offset, SRC_DMA_CFG::LINE_NOTCH_ADDR, surfaces);
    if (surfaces > 1) {
        const std::uint32_t notch = reading.zero_if_unwritten(SURF_NOTCH::offset);
        task.main.surface_bytes = plane_bytes(task) + reading.multiple_of_16(SURF_NOTCH::offset, notch);
    }
}

// The DPU alone: ERDMA reads all surfaces. Programs set EW_SURF_STRIDE to a plane and EW_SURF_NOTCH to 0.
void read_operand_cube(const DpuReading& reading) {
    DpuTask& task = reading.task;
    ElementWiseStage& ew = task.ew;
    const std::uint32_t surfaces = cube_surfaces(task.channels, ew.operand.bytes);
    ew.source = OperandSource::elements;
    ew.first = read_stream(reading, EW_BASE_ADDR::offset, DATA_CUBE_HEIGHT::EW_LINE_NOTCH_ADDR, surfaces);
    if (surfaces > 1) {
        const std::uint64_t stride = reading.multiple_of_16(EW_SURF_STRIDE::offset);
        const std::uint64_t notch =
            reading.multiple_of_16(EW_SURF_NOTCH::offset, reading.zero_if_unwritten(EW_SURF_NOTCH::offset));
        if (notch != 0 && stride != plane_bytes(task)) {
            reading.refuse(
                Severity::unmodelled, EW_SURF_STRIDE::offset,
                "is not one plane, and EW_SURF_NOTCH is not 0: which of them makes the stride is not published");
        }
        ew.first.surface_bytes = stride + notch;
    }
}

// One of the two streams of an operand beside the array.
CubeStream read_half_cube(const DpuReading& reading, std::uint16_t address, rockchip::Field line_notch,
                          std::uint16_t notch_register, std::uint32_t surfaces) {
    CubeStream stream = read_stream(reading, address, line_notch, surfaces);
    const std::uint64_t notch = reading.multiple_of_16(notch_register);
    stream.surface_bytes = plane_bytes(reading.task) + notch;
    if (notch == 0) {
        reading.refuse(Severity::corrupt, notch_register,
                       "a notch of 0 beside the array: every element gets the operands of the first atom (published "
                       "measurement); a dense cube has a notch of one plane");
        stream.surface_bytes = stream.line_bytes = stream.pixel_bytes = 0;
    } else if (reading.task.pixels() < least_notch_atoms && notch == least_notch_atoms * rockchip::atom_bytes) {
        reading.check.judge.refuse_register(Severity::corrupt, notch_register, reading.check.read(notch_register),
                                            "12 atoms for a plane of %u: surfaces of the operand are read at a wrong "
                                            "stride (published measurement); a dense cube has a notch of one plane",
                                            reading.task.pixels());
    }
    return stream;
}

// Beside the array: even surfaces by MRDMA, odd ones by ERDMA, both a plane and a notch apart.
void read_operand_pairs(const DpuReading& reading, std::uint32_t mode) {
    DpuTask& task = reading.task;
    ElementWiseStage& ew = task.ew;
    const std::uint32_t surfaces = cube_surfaces(task.channels, ew.operand.bytes);
    const std::uint32_t in = FEATURE_MODE_CFG::IN_PRECISION.of(mode);
    const auto format = rockchip::precision_from_dpu_code(in);
    const bool fits = format && rockchip::info(*format).bits / 8 == ew.operand.bytes &&
                      rockchip::info(*format).floating == task.floating();
    if (!fits || FEATURE_MODE_CFG::PROC_PRECISION.of(mode) != in) {
        reading.refuse(
            Severity::unmodelled, FEATURE_MODE_CFG::offset,
            "IN_PRECISION and PROC_PRECISION must be the operand's format, of the size that DPU.EW_CFG says");
    }
    if (FEATURE_MODE_CFG::COMB_USE.of(mode) != 5) {
        reading.refuse(Severity::unmodelled, FEATURE_MODE_CFG::offset,
                       "COMB_USE is 5 in every program that reads an operand beside the array");
    }
    reading.unexplained(FEATURE_MODE_CFG::offset, mode, FEATURE_MODE_CFG::MRDMA_FP16TOFP32_EN(1).value,
                        "MRDMA_FP16TOFP32_EN beside the array");
    check_main_reader(reading);
    ew.source = OperandSource::pairs;
    ew.first = read_half_cube(reading, SRC_BASE_ADDR::offset, SRC_DMA_CFG::LINE_NOTCH_ADDR, SURF_NOTCH::offset,
                              (surfaces + 1) / 2);
    ew.second = read_half_cube(reading, EW_BASE_ADDR::offset, DATA_CUBE_HEIGHT::EW_LINE_NOTCH_ADDR,
                               EW_SURF_NOTCH::offset, surfaces / 2);
    if (reading.multiple_of_16(EW_SURF_STRIDE::offset) != plane_bytes(task)) {
        reading.check.judge.warn(
            "%s is not one plane: beside the array the stride is taken as a plane and the notch, the "
            "reading that fits the published programs",
            register_text(EW_SURF_STRIDE::offset, reading.check.read(EW_SURF_STRIDE::offset)).c_str());
    }
}

void read_operand_channels(const DpuReading& reading, bool main_reader) {
    DpuTask& task = reading.task;
    task.ew.source = OperandSource::channels;
    task.ew.first.address = reading.multiple_of_16(EW_BASE_ADDR::offset);
    if (!task.ew.multiply && task.pixels() > 1) {
        reading.refuse(
            Severity::corrupt, ERDMA_CFG::offset,
            "one operand per channel (ERDMA_DATA_MODE 0) with an ALU operation: published not to broadcast over "
            "the plane; only a multiplication does");
    }
    if (!task.flying && main_reader) {
        reading.refuse(Severity::unmodelled, FEATURE_MODE_CFG::offset,
                       "MRDMA and operands per channel together, beside the array");
    }
}

// Says whether an operand from memory arrives; if not, the stage is switched off so that the task can run.
void read_operand(const DpuReading& reading, std::uint32_t mode, bool main_reader) {
    DpuTask& task = reading.task;
    ElementWiseStage& ew = task.ew;
    const bool wanted = ew.active && ew.source == OperandSource::elements;
    const std::uint32_t configuration = reading.check.read(ERDMA_CFG::offset);
    const bool enabled = ERDMA_CFG::ERDMA_DISABLE.of(configuration) == 0;
    if (enabled != wanted) {
        reading.refuse(
            Severity::hang, ERDMA_CFG::offset,
            enabled ? "ERDMA is enabled, but DPU.EW_CFG takes no operand from memory: an EW path half armed never "
                      "completes (published measurement)"
                    : "DPU.EW_CFG waits for an operand from memory, but ERDMA is disabled: an EW path half armed "
                      "never completes (published measurement)");
    }
    if (!enabled || !wanted) {
        ew.active = ew.active && !wanted;
        return;
    }
    reading.unexplained(ERDMA_CFG::offset, configuration,
                        ERDMA_CFG::ERDMA_SURF_MODE(1).value | ERDMA_CFG::ERDMA_NONALIGN(1).value,
                        "surface mode and unaligned operands");
    if (ERDMA_CFG::ERDMA_DATA_SIZE.of(configuration) !=
        reg::DPU::EW_CFG::EDATA_SIZE.of(reading.check.read(reg::DPU::EW_CFG::offset))) {
        reading.refuse(Severity::unmodelled, ERDMA_CFG::offset,
                       "ERDMA_DATA_SIZE is EDATA_SIZE of DPU.EW_CFG in every program");
    }
    const std::uint32_t data_mode = ERDMA_CFG::ERDMA_DATA_MODE.of(configuration);
    if (data_mode > 1) {
        reading.refuse(Severity::hang, ERDMA_CFG::offset,
                       "ERDMA_DATA_MODE 2 and 3 never complete (published measurement)");
    }
    if (task.flying && (FEATURE_MODE_CFG::COMB_USE.of(mode) & 1) != 0) {
        reading.refuse(Severity::hang, FEATURE_MODE_CFG::offset,
                       "bit 0 of COMB_USE must be 0 in flying mode: 1 and 5 never complete (published measurement)");
    }
    if (data_mode == 0) {
        read_operand_channels(reading, main_reader);
    } else if (task.flying) {
        read_operand_cube(reading);
    } else if (main_reader) {
        read_operand_pairs(reading, mode);
    } else {
        const bool tall = task.width == 1 && task.height > 1;
        reading.refuse(
            tall ? Severity::hang : Severity::unmodelled, FEATURE_MODE_CFG::offset,
            "MRDMA_DISABLE with an operand per element beside the array: ERDMA alone is published to hang with "
            "planes one pixel wide; every program reads even surfaces with MRDMA");
        ew.active = false;
    }
}

void read_engines(const DpuReading& reading) {
    DpuTask& task = reading.task;
    const std::uint32_t mode = reading.check.read(FEATURE_MODE_CFG::offset);
    const bool main_reader = FEATURE_MODE_CFG::MRDMA_DISABLE.of(mode) == 0;
    const bool operand_reader = reading.check.read(ERDMA_CFG::ERDMA_DISABLE) == 0;
    if (!task.flying && main_reader && !operand_reader) {
        reading.refuse(
            Severity::hang, FEATURE_MODE_CFG::offset,
            "MRDMA is enabled and nobody takes what it brings: the block waits forever (MRDMA trap, published "
            "measurement); set MRDMA_DISABLE");
    }
    if ((FEATURE_MODE_CFG::FLYING_MODE.of(mode) != 0) != task.flying) {
        reading.refuse(Severity::hang, FEATURE_MODE_CFG::offset,
                       "FLYING_MODE must be 1 exactly when the DPU runs without CNA and CORE (MRDMA trap)");
    }
    if (task.flying && !main_reader) {
        reading.refuse(Severity::hang, FEATURE_MODE_CFG::offset, "MRDMA_DISABLE in flying mode: the input never comes");
    }
    read_records(reading);
    if (task.flying) {
        read_main_cube(reading, mode);
    }
    read_operand(reading, mode, main_reader);
    if (task.flying || task.records.active || operand_reader) {
        const std::uint32_t wanted = reading.feed != nullptr && reading.feed->depthwise ? 3 : 0;
        if (FEATURE_MODE_CFG::CONV_MODE.of(mode) != wanted) {
            reading.check.judge.refuse_register(Severity::unmodelled, FEATURE_MODE_CFG::offset, mode,
                                                "CONV_MODE must be %u, as the DPU's", wanted);
        }
        check_size(reading);
    }
}

}  // namespace

void read_dpu_rdma(const DpuReading& reading) {
    DpuTask& task = reading.task;
    const bool channels =
        task.bs.alu_per_channel || task.bs.multiplier_per_channel || (task.ow.active && task.ow.per_channel);
    const bool elements = task.ew.active && task.ew.source == OperandSource::elements;
    if (reading.has_rdma()) {
        read_engines(reading);
    } else if (channels || elements) {
        reading.check.judge.refuse(
            Severity::hang,
            "enable 0x%x does not start DPU_RDMA, but %s takes operands from memory: they never come "
            "(register manual)",
            reading.enable, elements ? "DPU.EW_CFG" : "DPU.BS_CFG or DPU.BS_OW_CFG");
    }
    if (!task.records.active) {
        task.bs.alu_per_channel = task.bs.multiplier_per_channel = task.ow.per_channel = false;
    }
    if (!reading.has_rdma() && elements) {
        task.ew.active = false;
    }
}

}  // namespace npu::sim
