// Reader of the CNA registers: the kind of convolution, and what the parts share.
#include "sim/read_cna_parts.h"

namespace npu::sim {

namespace reg = rockchip::reg;
using rockchip::Precision;

namespace {

void read_mode(RegisterCheck& check, Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t mode = check.read(CONV_CON1::offset);
    const auto refuse = [&](Severity severity, const char* why) {
        check.judge.refuse_register(severity, CONV_CON1::offset, mode, "%s", why);
    };
    const std::uint32_t processing = CONV_CON1::PROC_PRECISION.of(mode);
    if (processing != static_cast<std::uint32_t>(convolution.input)) {
        check.judge.refuse_register(Severity::hang, CONV_CON1::offset, mode,
                                    "processing precision %u differs from input precision %u", processing,
                                    static_cast<unsigned>(convolution.input));
    }
    convolution.lines_in_groups_of_four = CONV_CON1::GROUP_LINE_OFF.of(mode) == 0;
    switch (CONV_CON1::CONV_MODE.of(mode)) {
        case 0: break;
        case 3:
            convolution.depthwise = true;
            if (convolution.input == Precision::int4 || convolution.input == Precision::tf32) {
                refuse(Severity::unmodelled,
                       "depthwise convolution of int4 or tf32 is not modelled: no source gives its group of channels");
            }
            break;
        default:
            refuse(Severity::unmodelled, "convolution modes other than 0 (direct) and 3 (depthwise) are not known");
    }
    if (CONV_CON1::DECONV.of(mode) != 0) {
        refuse(Severity::unmodelled,
               "deconvolution is not modelled: no source tells where zeros are inserted and how padding then counts");
    }
    if (CONV_CON1::ARGB_IN.of(mode) != 0 || CONV_CON1::NONALIGN_DMA.of(mode) != 0) {
        refuse(Severity::unmodelled,
               "image input (ARGB_IN, NONALIGN_DMA) is not modelled: no source tells in which unit its line stride "
               "counts and how packed pixels are cut into lines");
    }
    known_bits(check, CONV_CON1::offset,
               CONV_CON1::NONALIGN_DMA(1).value | CONV_CON1::GROUP_LINE_OFF(1).value | CONV_CON1::DECONV(1).value |
                   CONV_CON1::ARGB_IN(15).value | CONV_CON1::PROC_PRECISION(7).value |
                   CONV_CON1::IN_PRECISION(7).value | CONV_CON1::CONV_MODE(15).value,
               "unknown bits");
}

// Prefetch. It has no effect on the result here; published: too small a value corrupts some K.
void read_prefetch(RegisterCheck& check) {
    using namespace reg::CNA;
    const std::uint32_t value = check.read(CONV_CON2::offset);
    if ((value >> 28) != 0) {
        check.judge.refuse_register(Severity::unmodelled, CONV_CON2::offset, value,
                                    "bits 31 to 28 are set by vendor programs that share one operation between cores, "
                                    "which is not modelled");
    }
    constexpr std::uint32_t spilled = 0x0000c000;
    unspilled(check, CONV_CON2::offset, ~spilled, "FEATURE_GRAINS has 10 bits");
    known_bits(check, CONV_CON2::offset, 0xf0000000 | spilled | CONV_CON2::FEATURE_GRAINS(0x3ff).value,
               "0 in every known program and not explained");
    if (CONV_CON2::FEATURE_GRAINS.of(value) == 0) {
        check.judge.warn("CNA.CONV_CON2 asks for a prefetch of 0 lines: no known program does");
    }
}

void read_unexplained(RegisterCheck& check) {
    using namespace reg::CNA;
    for (const std::uint16_t offset : {FC_CON0::offset, FC_CON1::offset, FC_CON2::offset}) {
        const std::uint32_t value = zero_if_unwritten(check, offset);
        if (value != 0) {
            check.judge.refuse_register(Severity::unmodelled, offset, value,
                                        "fully-connected mode: 0 in every known program and not explained");
        }
    }
}

}  // namespace

std::uint32_t known_bits(RegisterCheck& check, std::uint16_t offset, std::uint32_t known, const char* why) {
    const std::uint32_t value = check.read(offset);
    if ((value & ~known) != 0) {
        check.judge.refuse_register(Severity::unmodelled, offset, value, "bits 0x%x must be 0: %s", value & ~known,
                                    why);
    }
    return value;
}

std::uint32_t unspilled(RegisterCheck& check, std::uint16_t offset, std::uint32_t fields, const char* why) {
    const std::uint32_t value = check.read(offset);
    if ((value & ~fields) != 0) {
        check.judge.refuse_register(Severity::corrupt, offset, value,
                                    "bits 0x%x must be 0: %s; published: a larger value wraps silently",
                                    value & ~fields, why);
    }
    return value;
}

std::uint32_t zero_if_unwritten(RegisterCheck& check, std::uint16_t offset) {
    RegisterReader probe = check.read;
    const std::uint32_t value = probe(offset);
    if (probe.missing().size() == check.read.missing().size()) {
        return value;
    }
    const rockchip::RegisterInfo* info = rockchip::find_register(offset);
    check.judge.warn(
        "%s.%s (0x%04x) was never written in its group and counts as 0, its value after reset; silicon uses "
        "what an earlier client left",
        rockchip::block_name(info->block), info->name, offset);
    return 0;
}

void read_cna(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution,
              const CnaReadings& readings) {
    using namespace reg::CNA;
    read_mode(check, convolution);
    read_prefetch(check);
    read_unexplained(check);
    read_features(check, chip, convolution);
    read_window(check, convolution, readings);
    read_conversion(check, convolution);
    read_weights(check, chip, convolution);

    const std::uint32_t banks = known_bits(check, CBUF_CON0::offset, 0x37ff, "unknown bits");
    convolution.data_banks = CBUF_CON0::DATA_BANK.of(banks);
    convolution.weight_banks = CBUF_CON0::WEIGHT_BANK.of(banks);
    convolution.data_reuse = CBUF_CON0::DATA_REUSE.of(banks) != 0;
    convolution.weight_reuse = CBUF_CON0::WEIGHT_REUSE.of(banks) != 0;
    if (CBUF_CON0::FC_DATA_BANK.of(banks) != 0) {
        check.judge.refuse_register(Severity::corrupt, CBUF_CON0::offset, banks,
                                    "FC_DATA_BANK must be 0: 1..7 measured to corrupt most outputs");
    }
}

}  // namespace npu::sim
