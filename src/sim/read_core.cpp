// Reader of the CORE registers, and the comparison of what both blocks say about the output.
#include <algorithm>

#include "base/integers.h"
#include "sim/read_cna_parts.h"

namespace npu::sim {

namespace reg = rockchip::reg;
using rockchip::Precision;

namespace {

// Far more than the windows of any plane that fits a buffer.
constexpr std::uint64_t most_pixels = std::uint64_t{1} << 18;

// Whether the last of `outputs` windows along one axis begins inside the plane.
bool begins_inside(std::uint32_t outputs, std::uint32_t stride, std::uint32_t padding, std::uint32_t extent) {
    return std::int64_t{outputs - 1} * stride - padding < std::int64_t{extent};
}

bool ends_outside(std::uint32_t outputs, std::uint32_t stride, std::uint32_t padding, std::uint32_t extent,
                  std::uint32_t window) {
    return std::int64_t{outputs - 1} * stride - padding + window > std::int64_t{extent};
}

void check_plane(RegisterCheck& check, const Convolution& convolution) {
    const std::uint32_t value = check.read(reg::CORE::DATAOUT_SIZE_0::offset);
    const auto refuse = [&](const char* why) {
        check.judge.refuse_register(Severity::hang, reg::CORE::DATAOUT_SIZE_0::offset, value,
                                    "the blocks disagree about the output: %u x %u outputs of a %u x %u plane: %s",
                                    convolution.output_width, convolution.output_height, convolution.width,
                                    convolution.height, why);
    };
    const bool dense = convolution.positions() == 1 && convolution.stride_x == 1 && convolution.stride_y == 1 &&
                       convolution.pad_left == 0 && convolution.pad_top == 0;
    if (dense && (convolution.output_width != convolution.width || convolution.output_height != convolution.height)) {
        refuse("a 1x1 window without padding gives one for each pixel");
    } else if (!begins_inside(convolution.output_width, convolution.stride_x, convolution.pad_left,
                              convolution.width) ||
               !begins_inside(convolution.output_height, convolution.stride_y, convolution.pad_top,
                              convolution.height)) {
        refuse("the last window does not touch the plane, and the array waits for features that never come");
    }
}

void read_pad_value(RegisterCheck& check, Convolution& convolution) {
    const std::uint32_t reach_x = (convolution.kernel_width - 1) * convolution.dilation_x + 1;
    const std::uint32_t reach_y = (convolution.kernel_height - 1) * convolution.dilation_y + 1;
    if (convolution.pad_left == 0 && convolution.pad_top == 0 &&
        !ends_outside(convolution.output_width, convolution.stride_x, 0, convolution.width, reach_x) &&
        !ends_outside(convolution.output_height, convolution.stride_y, 0, convolution.height, reach_y)) {
        return;
    }
    convolution.pad_value = check.read(reg::CNA::PAD_CON1::offset);
    const std::uint32_t low = convolution.pad_value & 0xff;
    if (convolution.input == Precision::int8 && !convolution.depthwise && (convolution.pad_value >> 8 & 0xff) != low) {
        check.judge.warn(
            "CNA.PAD_CON1 = 0x%08x: all channels are padded with the low byte; a captured depthwise "
            "convolution padded odd channels with the second one, and only equal bytes are safe",
            convolution.pad_value);
    }
}

void check_channels(RegisterCheck& check, Convolution& convolution) {
    using namespace reg::CORE;
    const std::uint32_t value = check.read(DATAOUT_SIZE_1::offset);
    const std::uint32_t channels = DATAOUT_SIZE_1::DATAOUT_CHANNEL.of(value) + 1;
    const std::uint32_t group = convolution.kernels_per_group();
    convolution.output_channels = align_up(channels, group);
    if (convolution.output_channels != channels) {
        // Matrix products were measured to be wrong then; convolutions were not tried.
        if (convolution.positions() == 1 && !convolution.depthwise) {
            check.judge.refuse_register(Severity::corrupt, DATAOUT_SIZE_1::offset, value,
                                        "N = %u output channels are not a multiple of the %u kernels of a group: "
                                        "published as silently wrong",
                                        channels, group);
        } else {
            check.judge.warn(
                "CORE.DATAOUT_SIZE_1: N = %u output channels are not a multiple of the %u kernels of a group", channels,
                group);
        }
    }
    const std::uint32_t fed = convolution.depthwise ? convolution.channels : convolution.kernels;
    const bool agree = convolution.depthwise ? align_up(fed, group) <= convolution.output_channels
                                             : align_up(fed, group) == convolution.output_channels;
    if (!agree) {
        check.judge.refuse_register(Severity::hang, DATAOUT_SIZE_1::offset, value,
                                    "the blocks disagree about the output cube: %u channels in groups of %u, and CNA "
                                    "feeds %u",
                                    channels, group, fed);
    }
}

}  // namespace

void read_core(RegisterCheck& check, Convolution& convolution) {
    using namespace reg::CORE;
    const std::uint32_t mode = known_bits(check, MISC_CFG::offset,
                                          MISC_CFG::SOFT_GATING(0x3f).value | MISC_CFG::PROC_PRECISION(7).value |
                                              MISC_CFG::DW_EN(1).value | MISC_CFG::QD_EN(1).value,
                                          "unknown bits");
    if (MISC_CFG::PROC_PRECISION.of(mode) != static_cast<std::uint32_t>(convolution.input)) {
        check.judge.refuse_register(Severity::hang, MISC_CFG::offset, mode,
                                    "processing precision differs from the CNA's input precision %u",
                                    static_cast<unsigned>(convolution.input));
    }
    if ((MISC_CFG::DW_EN.of(mode) != 0) != convolution.depthwise) {
        check.judge.refuse_register(
            Severity::hang, MISC_CFG::offset, mode,
            "the blocks disagree: DW_EN is for a depthwise CNA.CONV_CON1.CONV_MODE, which is %s",
            convolution.depthwise ? "3" : "0");
    }
    const std::uint32_t size = check.read(DATAOUT_SIZE_0::offset);
    convolution.output_width = DATAOUT_SIZE_0::DATAOUT_WIDTH.of(size) + 1;
    convolution.output_height = DATAOUT_SIZE_0::DATAOUT_HEIGHT.of(size) + 1;
    const std::uint64_t pixels = std::uint64_t{convolution.output_width} * convolution.output_height;
    if (pixels > most_pixels) {
        check.judge.stop(Severity::unmodelled, "%s: %llu output pixels are more than any plane gives",
                         register_text(DATAOUT_SIZE_0::offset, size).c_str(), static_cast<unsigned long long>(pixels));
        return;
    }
    const char* disagree = "the blocks disagree about the output plane";
    check.expect(reg::CNA::DATA_SIZE2::offset, convolution.output_width, Severity::hang, disagree);
    check.expect(reg::CNA::DATA_SIZE3::offset, static_cast<std::uint32_t>(pixels), Severity::hang, disagree);
    check_plane(check, convolution);
    read_pad_value(check, convolution);
    check_channels(check, convolution);

    const std::uint32_t truncate = known_bits(check, CLIP_TRUNCATE::offset, 0x5f, "unknown bits");
    convolution.truncate_bits = CLIP_TRUNCATE::CLIP_TRUNCATE.of(truncate);
    convolution.truncate_half_up = CLIP_TRUNCATE::ROUND_TYPE.of(truncate) != 0;
    if (convolution.truncate_bits != 0 && rockchip::info(convolution.input).floating) {
        check.judge.refuse_register(Severity::unmodelled, CLIP_TRUNCATE::offset, truncate,
                                    "what a shift does to sums of floats no source tells");
    }
    const std::uint32_t unknown = zero_if_unwritten(check, UNKNOWN_3030::offset);
    if (unknown != 0) {
        check.judge.refuse_register(Severity::unmodelled, UNKNOWN_3030::offset, unknown,
                                    "every known program writes 0");
    }
}

}  // namespace npu::sim
