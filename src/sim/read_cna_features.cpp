// Reader of the CNA registers that describe the features: plane, addresses, window and input converter.
#include <algorithm>

#include "base/integers.h"
#include "sim/read_cna_parts.h"

namespace npu::sim {

namespace reg = rockchip::reg;
using rockchip::Precision;

namespace {

// No buffer of a known chip holds a fraction of this; larger tasks come from noise read as a program.
constexpr std::uint64_t most_feature_bytes = std::uint64_t{64} << 20;

void read_channels(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t value = check.read(DATA_SIZE1::offset);
    const std::uint32_t channels = DATA_SIZE1::DATAIN_CHANNEL.of(value);
    if (channels == 0) {
        check.judge.stop(Severity::hang, "%s: there are no channels", register_text(DATA_SIZE1::offset, value).c_str());
    }
    // Silicon reads whole atoms. That it takes part of a block of 32 channels (16 of tf32) is proven by programs of int8 and
    // int16 with 16 of them.
    const std::uint32_t atom = rockchip::channels_per_atom(convolution.input);
    convolution.channels = align_up(std::max(channels, 1U), atom);
    const bool proven = channels % rockchip::info(convolution.input).channels_per_block == 0 ||
                        (channels % 16 == 0 && !rockchip::info(convolution.input).floating);
    if (convolution.channels != channels) {
        check.judge.refuse_register(
            Severity::corrupt, DATA_SIZE1::offset, value,
            "K = %u is not a multiple of the %u channels of an atom; the chip does not mask the "
            "rest",
            channels, atom);
    } else if (!proven && !convolution.depthwise) {
        check.judge.warn(
            "K = %u is not a multiple of the %u channels of a weight block: read as a block with the channels "
            "that exist, as int8 and int16 programs have it",
            channels, rockchip::info(convolution.input).channels_per_block);
    }
    if (channels > chip.max_k) {
        constexpr std::uint32_t garbage = 11008;
        const bool one_row = convolution.width == 1 && convolution.height == 1;
        if (!one_row || channels >= garbage) {
            check.judge.refuse_register(
                Severity::corrupt, DATA_SIZE1::offset, value,
                "K = %u is more than %u: published to work with one row only, and as garbage at "
                "%u",
                channels, chip.max_k, garbage);
        } else {
            check.judge.warn("K = %u: three sources verified up to %u, one up to 10752 with one row", channels,
                             chip.max_k);
        }
    }
    if (convolution.input == Precision::tf32 && channels > 4096) {
        check.judge.warn("K = %u: tf32 is published to work up to 4096", channels);
    }
    // Vendor convolutions keep the low six bits of C - 1 with C the channels without padding; padding is less than a block.
    if (((channels - 1 - DATA_SIZE1::DATAIN_CHANNEL_REAL.of(value)) & 63) >= 32) {
        check.judge.warn(
            "CNA.DATA_SIZE1.DATAIN_CHANNEL_REAL = %u is not within a block of K - 1 = %u (low 6 bits); its "
            "effect is unknown",
            DATA_SIZE1::DATAIN_CHANNEL_REAL.of(value), channels - 1);
    }
    if (channels > chip.hazard_k_low && channels < chip.hazard_k_high &&
        std::uint64_t{convolution.width} * convolution.height > 4) {
        check.judge.warn("K = %u: two sources report failures between %u and %u with more than 4 rows", channels,
                         chip.hazard_k_low, chip.hazard_k_high);
    }
}

void read_strides(RegisterCheck& check, Convolution& convolution) {
    using namespace reg::CNA;
    convolution.feature_address = check.only(FEATURE_DATA_ADDR::offset, ~0xfU, "addresses are multiples of 16");
    convolution.line_atoms = unspilled(check, DMA_CON1::offset, 0x0fffffff, "strides have 28 bits") & 0x0fffffff;
    const std::uint32_t surface = unspilled(check, DMA_CON2::offset, 0x0fffffff, "strides have 28 bits");
    convolution.surface_atoms = static_cast<std::int32_t>(surface << 4) >> 4;
    const bool several_surfaces = convolution.row_bytes() > rockchip::atom_bytes;
    if (convolution.lines_in_groups_of_four && several_surfaces && convolution.width == 1 && convolution.height < 4 &&
        convolution.surface_atoms == 0) {
        check.judge.warn(
            "CNA.DMA_CON2 = 0 with %u lines in groups of four: channel blocks are read 4 atoms apart, dense "
            "features need the negative stride %d (published as wrong results below 4 rows)",
            convolution.height, static_cast<int>(convolution.height) - 4);
    }
}

}  // namespace

void read_features(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t size = unspilled(check, DATA_SIZE0::offset, 0x07ff07ff, "extents have 11 bits");
    convolution.width = DATA_SIZE0::DATAIN_WIDTH.of(size);
    convolution.height = DATA_SIZE0::DATAIN_HEIGHT.of(size);
    if (convolution.width == 0 || convolution.height == 0) {
        check.judge.stop(Severity::hang, "%s: the feature plane is empty",
                         register_text(DATA_SIZE0::offset, size).c_str());
    }
    read_channels(check, chip, convolution);
    if (convolution.feature_bytes() > most_feature_bytes) {
        check.judge.stop(Severity::unmodelled, "%s: %llu bytes of features are more than any chip holds",
                         register_text(DATA_SIZE0::offset, size).c_str(),
                         static_cast<unsigned long long>(convolution.feature_bytes()));
    }
    read_strides(check, convolution);

    // What the DMA fetches. One open driver fetches another width than it convolves in one special case.
    const std::uint32_t fetched = check.read(FC_DATA_SIZE0::offset);
    const std::uint32_t fetched_channels = check.read(FC_DATA_SIZE1::offset);
    if (fetched != size || fetched_channels != DATA_SIZE1::DATAIN_CHANNEL.of(check.read(DATA_SIZE1::offset))) {
        check.judge.warn(
            "CNA.FC_DATA_SIZE0 = 0x%x and FC_DATA_SIZE1 = %u are not the plane and the channels of DATA_SIZE0 "
            "and DATA_SIZE1, as in nearly every program: which of them counts is unknown",
            fetched, fetched_channels);
    }
}

void read_window(RegisterCheck& check, Convolution& convolution, const CnaReadings& readings) {
    using namespace reg::CNA;
    const std::uint32_t value =
        known_bits(check, CONV_CON3::offset,
                   CONV_CON3::ATROUS_Y_DILATION(31).value | CONV_CON3::ATROUS_X_DILATION(31).value |
                       CONV_CON3::CONV_Y_STRIDE(7).value | CONV_CON3::CONV_X_STRIDE(7).value,
                   "NN_MODE and the strides of deconvolution are 0 in every known program and not explained");
    convolution.stride_x = CONV_CON3::CONV_X_STRIDE.of(value);
    convolution.stride_y = CONV_CON3::CONV_Y_STRIDE.of(value);
    if (convolution.stride_x == 0 || convolution.stride_y == 0) {
        check.judge.stop(Severity::hang, "%s: a stride of 0 never advances; strides are literal, 1 for a dense one",
                         register_text(CONV_CON3::offset, value).c_str());
    }
    const std::uint32_t dilation_x = CONV_CON3::ATROUS_X_DILATION.of(value);
    const std::uint32_t dilation_y = CONV_CON3::ATROUS_Y_DILATION.of(value);
    const auto distance = [&](std::uint32_t field) {
        return readings.dilation_is_distance ? std::max(field, 1U) : field + 1;
    };
    convolution.dilation_x = distance(dilation_x);
    convolution.dilation_y = distance(dilation_y);
    if (dilation_x != 0 || dilation_y != 0) {
        check.judge.warn(
            "CNA.CONV_CON3 dilates by %u and %u: no program or source tells whether the fields count "
            "distances or gaps; read as a distance of %u and %u",
            dilation_x, dilation_y, convolution.dilation_x, convolution.dilation_y);
    }
    const std::uint32_t padding = zero_if_unwritten(check, PAD_CON0::offset);
    convolution.pad_left = PAD_CON0::PAD_LEFT.of(padding);
    convolution.pad_top = PAD_CON0::PAD_TOP.of(padding);
    if ((padding & ~0xffU) != 0) {
        check.judge.refuse_register(Severity::corrupt, PAD_CON0::offset, padding,
                                    "padding has 4 bits for each side; published: larger values wrap silently");
    }
}

void read_conversion(RegisterCheck& check, Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t value = check.read(CVT_CON0::offset);
    InputConversion& conversion = convolution.conversion;
    conversion.bypassed = CVT_CON0::CVT_BYPASS.of(value) != 0;
    if (conversion.bypassed) {
        if (CVT_CON0::DATA_SIGN.of(value) == 0 && !rockchip::info(convolution.input).floating) {
            check.judge.warn(
                "CNA.CVT_CON0 = 0x%x bypasses the converter with DATA_SIGN = 0, where every program has 1: "
                "inputs are taken as signed",
                value);
        }
        return;
    }
    if (convolution.input != Precision::int8 && convolution.input != Precision::int16) {
        check.judge.refuse_register(
            Severity::unmodelled, CVT_CON0::offset, value,
            "the input converter is modelled for int8 and int16; no source tells what it does to "
            "%s",
            rockchip::info(convolution.input).name);
        return;
    }
    conversion.is_signed = CVT_CON0::DATA_SIGN.of(value) != 0;
    conversion.adds_first = CVT_CON0::CVT_TYPE.of(value) != 0;
    conversion.ties_half_up = CVT_CON0::ROUND_TYPE.of(value) != 0;
    conversion.truncate = {static_cast<std::uint8_t>(CVT_CON0::CVT_TRUNCATE_0.of(value)),
                           static_cast<std::uint8_t>(CVT_CON0::CVT_TRUNCATE_1.of(value)),
                           static_cast<std::uint8_t>(CVT_CON0::CVT_TRUNCATE_2.of(value)),
                           static_cast<std::uint8_t>(CVT_CON0::CVT_TRUNCATE_3.of(value))};
    for (std::size_t set = 0; set < 4; ++set) {
        const std::uint32_t constants = check.read(static_cast<std::uint16_t>(CVT_CON1::offset + 4 * set));
        conversion.offset[set] = static_cast<std::int16_t>(CVT_CON1::CVT_OFFSET0.of(constants));
        conversion.scale[set] = static_cast<std::int16_t>(CVT_CON1::CVT_SCALE0.of(constants));
    }
    conversion.channel_mask = check.read(CVT_CON5::offset);
    if (conversion.channel_mask == 0) {
        check.judge.warn("the input converter is on, and CNA.CVT_CON5 = 0 enables it for no channel");
    }
}

}  // namespace npu::sim
