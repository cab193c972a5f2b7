// Reader of the DPU's registers: mode, number formats and the size of the output cube. See read_dpu.h.
#include "sim/read_dpu.h"

#include <algorithm>
#include <iterator>

#include "sim/dpu_operands.h"
#include "sim/output_addressing.h"

namespace npu::sim {

namespace {

namespace reg = rockchip::reg;
using rockchip::Precision;

// Values that flying mode reads at a time: whole atoms of every format.
constexpr std::uint32_t flying_group = 16;

void read_mode(const DpuReading& reading) {
    using namespace reg::DPU;
    DpuTask& task = reading.task;
    const std::uint32_t mode = reading.check.read(FEATURE_MODE_CFG::offset);
    constexpr std::uint32_t unknown = FEATURE_MODE_CFG::COMB_USE(1).value | FEATURE_MODE_CFG::TP_EN(1).value |
                                      FEATURE_MODE_CFG::RGP_TYPE(15).value | FEATURE_MODE_CFG::NONALIGN(1).value |
                                      FEATURE_MODE_CFG::SURF_LEN(0xffff).value;
    reading.unexplained(FEATURE_MODE_CFG::offset, mode, unknown, "surface length, row reductions and grouped writers");
    task.flying = reading.feed == nullptr;
    const bool flying = FEATURE_MODE_CFG::FLYING_MODE.of(mode) != 0;
    if (flying != task.flying) {
        reading.refuse(
            Severity::hang, FEATURE_MODE_CFG::offset,
            flying ? "FLYING_MODE, but CNA and CORE are started: nobody takes their sums (register manual)"
                   : "FLYING_MODE is 0, but CNA and CORE are not started: the sums never come (register manual)");
    }
    const std::uint32_t output = FEATURE_MODE_CFG::OUTPUT_MODE.of(mode);
    task.goes_to_ppu = (output & 1) != 0;
    if (task.goes_to_ppu) {
        reading.refuse(Severity::hang, FEATURE_MODE_CFG::offset,
                       "OUTPUT_MODE sends results to the PPU, which is not started with the DPU: nobody takes them "
                       "(register manual)");
    } else if (output == 0) {
        reading.refuse(Severity::unmodelled, FEATURE_MODE_CFG::offset, "OUTPUT_MODE 0 leads nowhere");
        task.writes_nothing = true;
    }
    const std::uint32_t conv_mode = FEATURE_MODE_CFG::CONV_MODE.of(mode);
    const std::uint32_t wanted = reading.feed != nullptr && reading.feed->depthwise ? 3 : 0;
    if (conv_mode != wanted) {
        reading.check.judge.refuse_register(Severity::unmodelled, FEATURE_MODE_CFG::offset, mode,
                                            "CONV_MODE must be %u, as CNA and CORE have it", wanted);
    }
}

void read_formats(const DpuReading& reading) {
    using namespace reg::DPU;
    DpuTask& task = reading.task;
    Judge& judge = reading.check.judge;
    const std::uint32_t formats = reading.check.read(DATA_FORMAT::offset);
    const std::uint32_t in = DATA_FORMAT::IN_PRECISION.of(formats);
    const std::uint32_t processing = DATA_FORMAT::PROC_PRECISION.of(formats);
    if (reading.feed != nullptr) {
        task.input = reading.feed->input;
        const std::uint32_t wanted = rockchip::info(task.input).dpu_code;
        if (in == 7 || processing == 7) {
            judge.refuse_register(Severity::corrupt, DATA_FORMAT::offset, formats,
                                  "the DPU knows no format 7 (tf32 sums are fp32, code 5): nothing would be written "
                                  "(published measurement)");
            task.writes_nothing = true;
        } else if (in != wanted || processing != wanted) {
            judge.refuse_register(Severity::unmodelled, DATA_FORMAT::offset, formats,
                                  "input and processing format must be %u, the CNA's precision, as in every program",
                                  wanted);
        }
    } else {
        const auto input = rockchip::precision_from_dpu_code(in);
        if (!input || *input == Precision::int4 || processing != in) {
            judge.refuse_register(Severity::unmodelled, DATA_FORMAT::offset, formats,
                                  "flying mode is known with int8, int16, int32, fp16, bf16 and fp32 only, and the "
                                  "processing format is the input's");
        }
        task.input = input.value_or(Precision::int8);
    }
    const std::uint32_t out = DATA_FORMAT::OUT_PRECISION.of(formats);
    const auto output = rockchip::precision_from_dpu_code(out);
    task.output = output.value_or(task.floating() ? Precision::fp32 : Precision::int32);
    if (!output) {
        judge.refuse_register(Severity::corrupt, DATA_FORMAT::offset, formats,
                              "output format 7: nothing would be written (published measurement)");
        task.writes_nothing = true;
    } else if (*output == Precision::int4) {
        judge.refuse_register(Severity::unmodelled, DATA_FORMAT::offset, formats, "no program writes int4");
        task.output = Precision::int8;
    }
    reading.unexplained(DATA_FORMAT::offset, formats, DATA_FORMAT::MC_SURF_OUT(1).value, "MC_SURF_OUT");
}

// How many channels the array delivers, and how many of them the DPU writes.
void read_channels(const DpuReading& reading) {
    using namespace reg::DPU;
    DpuTask& task = reading.task;
    Judge& judge = reading.check.judge;
    const std::uint32_t value = reading.check.only(DATA_CUBE_CHANNEL::offset, 0x1fff1fff, "13 bits each");
    const std::uint32_t original = DATA_CUBE_CHANNEL::ORIG_CHANNEL.of(value) + 1;
    task.channels = DATA_CUBE_CHANNEL::CHANNEL.of(value) + 1;
    task.valid_channels = task.channels;
    if (reading.feed == nullptr) {
        if (original != task.channels) {
            judge.refuse_register(Severity::corrupt, DATA_CUBE_CHANNEL::offset, value,
                                  "both halves must be the same in flying mode: else only lane 0 of each atom is right "
                                  "(published measurement)");
        }
        task.group_channels = flying_group;
        return;
    }
    // The array delivers whole groups; kernels that the last one lacks are padding.
    const std::uint32_t group = reading.feed->kernels_per_group();
    const std::uint32_t delivered = reading.feed->output_channels;
    const std::uint32_t kernels = reading.feed->depthwise ? delivered : reading.feed->kernels;
    task.group_channels = group;
    if (task.channels > delivered || delivered - task.channels >= group) {
        judge.refuse_register(Severity::hang, DATA_CUBE_CHANNEL::offset, value,
                              "the blocks disagree about the output cube: CHANNEL + 1 is %u, but the array delivers %u "
                              "channels in groups of %u",
                              task.channels, delivered, group);
        task.channels = delivered;
    }
    // Kernels are stored in pairs; what is beyond the original channels in the last pair belongs to nobody.
    if (original > task.channels || (!reading.feed->depthwise && original + original % 2 < kernels)) {
        judge.refuse_register(
            Severity::corrupt, DATA_CUBE_CHANNEL::offset, value,
            "ORIG_CHANNEL + 1 is %u, but %u channels are written and there are %u kernels: published to "
            "give wrong channels",
            original, task.channels, kernels);
    }
    task.valid_channels = std::min({original, kernels, task.channels});
    if (task.valid_channels < task.channels) {
        task.pad_value = static_cast<std::uint16_t>(reading.zero_if_unwritten(OFFSET_PEND::offset));
        if (task.pad_value != 0) {
            judge.warn("%s: which format the value of padded channels has is not published; the output's is taken",
                       register_text(OFFSET_PEND::offset, task.pad_value).c_str());
        }
    }
    if (task.output == Precision::int8 && task.channels % 32 != 0) {
        judge.refuse_register(Severity::hang, DATA_CUBE_CHANNEL::offset, value,
                              "%u channels: an int8 output with a part of a group of 32 never completes (published "
                              "measurement)",
                              task.channels);
    }
}

void read_size(const DpuReading& reading) {
    using namespace reg::DPU;
    DpuTask& task = reading.task;
    RegisterCheck& check = reading.check;
    const std::uint32_t width = check.read(DATA_CUBE_WIDTH::offset);
    const std::uint32_t height = check.read(DATA_CUBE_HEIGHT::offset);
    reading.unexplained(DATA_CUBE_HEIGHT::offset, height, DATA_CUBE_HEIGHT::MINMAX_CTL(7).value,
                        "MINMAX_CTL, a reduction in a vendor softmax");
    task.width = DATA_CUBE_WIDTH::WIDTH.of(width) + 1;
    task.height = DATA_CUBE_HEIGHT::HEIGHT.of(height) + 1;
    if (reading.feed != nullptr) {
        const char* disagree = "the blocks disagree about the output cube";
        check.expect(DATA_CUBE_WIDTH::offset, reading.feed->output_width - 1, Severity::hang, disagree);
        if (task.height != reading.feed->output_height) {
            reading.refuse(Severity::hang, DATA_CUBE_HEIGHT::offset, disagree);
        }
        task.width = reading.feed->output_width;
        task.height = reading.feed->output_height;
    } else if (task.width == 8192 || task.height == 8192) {
        reading.refuse(Severity::corrupt, task.width == 8192 ? DATA_CUBE_WIDTH::offset : DATA_CUBE_HEIGHT::offset,
                       "the exact maximum of the field: published to corrupt about 54 positions");
    }
    read_channels(reading);
}

void count_bytes(DpuTask& task) {
    const std::uint64_t surface = std::uint64_t{task.pixels()} * rockchip::atom_bytes;
    if (task.flying) {
        task.bytes_read += surface * cube_surfaces(task.channels, rockchip::info(task.input).bits / 8);
    }
    if (task.ew.active && task.ew.source == OperandSource::channels) {
        task.bytes_read += std::uint64_t{task.channels} * task.ew.operand.bytes;
    } else if (task.ew.active && task.ew.source != OperandSource::registers) {
        task.bytes_read += surface * cube_surfaces(task.channels, task.ew.operand.bytes);
    }
    if (task.records.active) {
        task.bytes_read += std::uint64_t{(task.channels + 7) / 8} * task.records.record_bytes;
    }
    if (!task.writes_nothing && !task.goes_to_ppu) {
        task.bytes_written = std::uint64_t{task.pixels()} * task.channels * task.output_element_bytes();
    }
}

std::vector<MemoryAccess> element_wise_reads(const DpuTask& task) {
    using namespace reg::DPU_RDMA;
    const ElementWiseStage& ew = task.ew;
    const std::uint32_t surfaces = cube_surfaces(task.channels, ew.operand.bytes);
    switch (ew.source) {
        case OperandSource::registers: return {};
        case OperandSource::channels: {
            const auto begin = static_cast<std::int64_t>(ew.first.address);
            const auto bytes = std::int64_t{task.channels} * ew.operand.bytes;
            return {{{begin, begin + bytes}, "element-wise operands per channel", EW_BASE_ADDR::offset}};
        }
        case OperandSource::elements:
            return {{stream_extent(ew.first, task, surfaces), "element-wise operands", EW_BASE_ADDR::offset}};
        case OperandSource::pairs: break;
    }
    std::vector<MemoryAccess> reads = {{stream_extent(ew.first, task, (surfaces + 1) / 2),
                                        "element-wise operands, even surfaces", SRC_BASE_ADDR::offset}};
    if (surfaces > 1) {
        reads.push_back({stream_extent(ew.second, task, surfaces / 2), "element-wise operands, odd surfaces",
                         EW_BASE_ADDR::offset});
    }
    return reads;
}

// Beside the array, silicon reads the operand while it writes results: in place is published to corrupt. The DPU alone
// reads each element before it writes it.
void check_in_place(const DpuReading& reading) {
    if (reading.feed == nullptr || !reading.task.ew.active || reading.task.writes_nothing) {
        return;
    }
    const Extent outputs = output_extent(reading.task);
    for (const MemoryAccess& operand : element_wise_reads(reading.task)) {
        if (operand.extent.overlaps(outputs)) {
            reading.refuse(Severity::corrupt, operand.address_register,
                           "the operand overlaps the output: accumulating in place beside the array gives wrong values "
                           "(published measurement); use two buffers in turn");
            return;
        }
    }
}

}  // namespace

std::uint32_t DpuReading::zero_if_unwritten(std::uint16_t offset) const {
    RegisterReader probe = check.read;
    const std::uint32_t value = probe(offset);
    if (probe.missing().size() == check.read.missing().size()) {
        return value;
    }
    const rockchip::RegisterInfo* info = rockchip::find_register(offset);
    check.judge.warn(
        "%s.%s (0x%04x) was never written in its group and counts as 0, its value after reset; silicon uses what an "
        "earlier client left",
        rockchip::block_name(info->block), info->name, offset);
    return 0;
}

std::vector<MemoryAccess> dpu_reads(const DpuTask& task) {
    std::vector<MemoryAccess> reads;
    if (task.flying) {
        const std::uint32_t surfaces = cube_surfaces(task.channels, rockchip::info(task.input).bits / 8);
        reads.push_back(
            {stream_extent(task.main, task, surfaces), "the DPU's input", reg::DPU_RDMA::SRC_BASE_ADDR::offset});
    }
    if (task.ew.active) {
        std::ranges::copy(element_wise_reads(task), std::back_inserter(reads));
    }
    if (task.records.active) {
        const auto begin = static_cast<std::int64_t>(task.records.address);
        const auto bytes = std::int64_t{(task.channels + 7) / 8} * task.records.record_bytes;
        reads.push_back({{begin, begin + bytes}, "operands per channel", reg::DPU_RDMA::BS_BASE_ADDR::offset});
    }
    return reads;
}

std::vector<MemoryAccess> dpu_writes(const DpuTask& task) {
    if (task.writes_nothing || task.goes_to_ppu) {
        return {};
    }
    return {{output_extent(task), "outputs", reg::DPU::DST_BASE_ADDR::offset}};
}

DpuTask read_dpu(RegisterCheck& check, std::uint32_t enable, const Convolution* feed) {
    DpuTask task;
    const DpuReading reading{check, enable, feed, task};
    read_mode(reading);
    read_formats(reading);
    read_size(reading);
    read_dpu_stages(reading);
    read_dpu_element_wise(reading);
    read_dpu_rdma(reading);
    read_dpu_output(reading);
    if (reading.zero_if_unwritten(reg::DPU::UNKNOWN_40C4::offset) != 0) {
        reading.refuse(Severity::unmodelled, reg::DPU::UNKNOWN_40C4::offset, "every known program writes 0");
    }
    check_in_place(reading);
    count_bytes(task);
    return task;
}

}  // namespace npu::sim
