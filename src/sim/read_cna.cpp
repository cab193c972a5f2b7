// Reader of the CNA (feature and weight side) and CORE registers.
#include <cinttypes>

#include "sim/convolution.h"

namespace npu::sim {

namespace {

namespace reg = rockchip::reg;
using rockchip::Precision;

void read_mode(RegisterCheck& check, Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t mode = check.only(
        CONV_CON1::offset,
        CONV_CON1::GROUP_LINE_OFF(1).value | CONV_CON1::PROC_PRECISION(7).value | CONV_CON1::IN_PRECISION(7).value,
        "deconvolution, depthwise, image input and unaligned fetch are not modelled");
    const std::uint32_t processing = CONV_CON1::PROC_PRECISION.of(mode);
    if (processing != static_cast<std::uint32_t>(convolution.input)) {
        check.judge.refuse_register(Severity::hang, CONV_CON1::offset, mode,
                                    "processing precision %u differs from input precision %u", processing,
                                    static_cast<unsigned>(convolution.input));
    }
    convolution.lines_in_groups_of_four = CONV_CON1::GROUP_LINE_OFF.of(mode) == 0;

    const std::uint32_t grains = check.only(CONV_CON2::offset, CONV_CON2::FEATURE_GRAINS(0x3ff).value,
                                            "only FEATURE_GRAINS is modelled (10 bits; a larger value spills)");
    if (CONV_CON2::FEATURE_GRAINS.of(grains) == 0) {
        check.judge.warn("CNA.CONV_CON2 asks for a prefetch of 0 lines: no known program does");
    }
    check.expect(CONV_CON3::offset, CONV_CON3::CONV_X_STRIDE(1).value | CONV_CON3::CONV_Y_STRIDE(1).value,
                 Severity::hang, "only stride 1 without dilation is modelled");
    check.expect(PAD_CON0::offset, 0, Severity::hang, "padding is not modelled");
    check.expect(CVT_CON0::offset, 0xb, Severity::hang, "the input converter is modelled as bypassed only");
    check.expect(CVT_CON5::offset, 0, Severity::hang, "per-channel input conversion is not modelled");
    check.expect(FC_CON0::offset, 0, Severity::hang, "fully-connected mode is not modelled");
    check.expect(FC_CON1::offset, 0, Severity::hang, "fully-connected mode is not modelled");
    check.expect(FC_CON2::offset, 0, Severity::hang, "fully-connected mode is not modelled");
    check.read(DMA_CON0::offset);  // burst lengths: no effect on the result
}

void read_feature_plane(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t size = check.only(DATA_SIZE0::offset, 0x07ff07ff, "extents have 11 bits");
    convolution.width = DATA_SIZE0::DATAIN_WIDTH.of(size);
    convolution.height = DATA_SIZE0::DATAIN_HEIGHT.of(size);
    if (convolution.width == 0 || convolution.height == 0) {
        check.judge.refuse_register(Severity::hang, DATA_SIZE0::offset, size, "the feature plane is empty");
    }
    const std::uint32_t channels = check.read(DATA_SIZE1::offset);
    convolution.channels = DATA_SIZE1::DATAIN_CHANNEL.of(channels);
    const std::uint32_t block = rockchip::info(convolution.input).channels_per_block;
    if (convolution.channels == 0 || convolution.channels % block != 0) {
        check.judge.refuse_register(Severity::corrupt, DATA_SIZE1::offset, channels,
                                    "K = %u is not a multiple of the %u channels of a weight block; the chip does not "
                                    "mask the rest",
                                    convolution.channels, block);
    }
    if (convolution.channels > chip.max_k) {
        check.judge.refuse_register(Severity::corrupt, DATA_SIZE1::offset, channels, "K = %u is more than %u",
                                    convolution.channels, chip.max_k);
    }
    if (((DATA_SIZE1::DATAIN_CHANNEL_REAL.of(channels) ^ (convolution.channels - 1)) & 63) != 0) {
        check.judge.warn(
            "CNA.DATA_SIZE1.DATAIN_CHANNEL_REAL = %u does not match K - 1 = %u in its low 6 bits; its "
            "effect is unknown",
            DATA_SIZE1::DATAIN_CHANNEL_REAL.of(channels), convolution.channels - 1);
    }
    if (convolution.channels > chip.hazard_k_low && convolution.channels < chip.hazard_k_high &&
        convolution.rows() > 4) {
        check.judge.warn("K = %u: two sources report failures between %u and %u with more than 4 rows",
                         convolution.channels, chip.hazard_k_low, chip.hazard_k_high);
    }
    const char* disagree = "the blocks disagree about the feature plane";
    check.expect(DATA_SIZE2::offset, convolution.width, Severity::hang, disagree);
    check.expect(DATA_SIZE3::offset, convolution.rows(), Severity::hang, disagree);
    check.expect(FC_DATA_SIZE0::offset, convolution.width << 16 | convolution.height, Severity::hang, disagree);
    check.expect(FC_DATA_SIZE1::offset, convolution.channels, Severity::hang, disagree);

    convolution.feature_address = check.only(FEATURE_DATA_ADDR::offset, ~0xfU, "addresses are multiples of 16");
    convolution.line_atoms = check.only(DMA_CON1::offset, 0x0fffffff, "strides have 28 bits");
    const std::uint32_t surface = check.only(DMA_CON2::offset, 0x0fffffff, "strides have 28 bits");
    convolution.surface_atoms = static_cast<std::int32_t>(surface << 4) >> 4;
}

void read_weights(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t shape = check.only(WEIGHT_SIZE2::offset, 0x1f1f3fff, "unknown bits");
    convolution.kernels = WEIGHT_SIZE2::WEIGHT_KERNELS.of(shape);
    if (WEIGHT_SIZE2::WEIGHT_WIDTH.of(shape) != 1 || WEIGHT_SIZE2::WEIGHT_HEIGHT.of(shape) != 1) {
        check.judge.refuse_register(Severity::hang, WEIGHT_SIZE2::offset, shape, "only 1x1 kernels are modelled");
    }
    if (convolution.kernels == 0 || convolution.kernels > chip.max_n) {
        check.judge.refuse_register(Severity::corrupt, WEIGHT_SIZE2::offset, shape, "N = %u is not within 1..%u",
                                    convolution.kernels, chip.max_n);
    }
    const std::uint32_t group = convolution.kernels_per_group();
    if (convolution.kernels % group != 0) {
        check.judge.refuse_register(Severity::corrupt, WEIGHT_SIZE2::offset, shape,
                                    "N = %u is not a multiple of the %u kernels of a group: published as silently "
                                    "wrong",
                                    convolution.kernels, group);
    }
    const std::uint64_t kernel_bytes = convolution.row_bytes();
    check.expect(WEIGHT_SIZE1::offset, static_cast<std::uint32_t>(kernel_bytes), Severity::hang,
                 "bytes per kernel are K times the element size");
    if (kernel_bytes > chip.max_bytes_per_kernel) {
        check.judge.refuse_register(Severity::corrupt, WEIGHT_SIZE1::offset, static_cast<std::uint32_t>(kernel_bytes),
                                    "a kernel may have at most %u bytes", chip.max_bytes_per_kernel);
    }
    convolution.weight_bytes = kernel_bytes * convolution.kernels;
    check.expect(WEIGHT_SIZE0::offset, static_cast<std::uint32_t>(convolution.weight_bytes), Severity::hang,
                 "weight bytes are N times the bytes per kernel");
    convolution.weight_address = check.only(DCOMP_ADDR0::offset, ~0xfU, "addresses are multiples of 16");

    const char* compressed = "compressed weights are not modelled";
    check.only(DCOMP_CTRL::offset, DCOMP_CTRL::WT_DEC_BYPASS(1).value, compressed);
    check.expect(DCOMP_REGNUM::offset, 0, Severity::hang, compressed);
    for (std::uint16_t lane = 0; lane < 16; ++lane) {
        check.expect(static_cast<std::uint16_t>(DCOMP_AMOUNT0::offset + 4 * lane), 0, Severity::hang, compressed);
    }
}

}  // namespace

void read_cna(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution) {
    using namespace reg::CNA;
    read_mode(check, convolution);
    read_feature_plane(check, chip, convolution);
    read_weights(check, chip, convolution);

    const std::uint32_t banks = check.only(CBUF_CON0::offset, 0x37ff, "unknown bits");
    convolution.data_banks = CBUF_CON0::DATA_BANK.of(banks);
    convolution.weight_banks = CBUF_CON0::WEIGHT_BANK.of(banks);
    convolution.data_reuse = CBUF_CON0::DATA_REUSE.of(banks) != 0;
    convolution.weight_reuse = CBUF_CON0::WEIGHT_REUSE.of(banks) != 0;
    if (CBUF_CON0::FC_DATA_BANK.of(banks) != 0) {
        check.judge.refuse_register(Severity::corrupt, CBUF_CON0::offset, banks,
                                    "FC_DATA_BANK must be 0: 1..7 measured to corrupt most outputs");
    }
}

void read_core(RegisterCheck& check, Convolution& convolution) {
    using namespace reg::CORE;
    const std::uint32_t mode =
        check.only(MISC_CFG::offset, MISC_CFG::PROC_PRECISION(7).value | MISC_CFG::QD_EN(1).value,
                   "depthwise and gating are not modelled");
    if (MISC_CFG::PROC_PRECISION.of(mode) != static_cast<std::uint32_t>(convolution.input)) {
        check.judge.refuse_register(Severity::hang, MISC_CFG::offset, mode,
                                    "processing precision differs from the CNA's input precision %u",
                                    static_cast<unsigned>(convolution.input));
    }
    const char* disagree = "the blocks disagree about the output cube";
    check.expect(DATAOUT_SIZE_0::offset, (convolution.height - 1) << 16 | (convolution.width - 1), Severity::hang,
                 disagree);
    check.expect(DATAOUT_SIZE_1::offset, convolution.kernels - 1, Severity::hang, disagree);
    check.expect(CLIP_TRUNCATE::offset, 0, Severity::hang, "truncation of the accumulator is not modelled");
    check.expect(UNKNOWN_3030::offset, 0, Severity::hang, "every known program writes 0");
}

void check_cbuf(RegisterCheck& check, const rockchip::ChipProfile& chip, const Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t banks = check.read(CBUF_CON0::offset);
    const auto refuse = [&](Severity severity, const char* why, std::uint64_t have, std::uint64_t bound) {
        check.judge.refuse_register(severity, CBUF_CON0::offset, banks, "%s: %" PRIu64 " against %" PRIu64, why, have,
                                    bound);
    };
    if (convolution.data_banks + convolution.weight_banks > chip.cbuf_banks) {
        refuse(Severity::hang, "data and weight banks together exceed the buffer",
               convolution.data_banks + convolution.weight_banks, chip.cbuf_banks);
    }
    if (convolution.data_banks == 0 || convolution.weight_banks == 0) {
        refuse(Severity::hang, "features and weights need at least one bank each (data against weight banks)",
               convolution.data_banks, convolution.weight_banks);
        return;
    }
    const std::uint64_t data_capacity = std::uint64_t{convolution.data_banks} * chip.cbuf_bank_bytes;
    const std::uint64_t weight_capacity = std::uint64_t{convolution.weight_banks} * chip.cbuf_bank_bytes;
    if (convolution.feature_bytes() > data_capacity) {
        refuse(Severity::hang, "the features do not fit the data banks (bytes)", convolution.feature_bytes(),
               data_capacity);
    }
    // Weights stream through their banks one kernel group after the other, so one group has to fit. No source states
    // this; it follows from how the array consumes them, and every known program satisfies it.
    const std::uint64_t group_bytes = convolution.row_bytes() * convolution.kernels_per_group();
    if (group_bytes > weight_capacity) {
        refuse(Severity::hang, "one kernel group does not fit the weight banks (bytes)", group_bytes, weight_capacity);
    }
    if (convolution.weight_reuse && convolution.weight_bytes > weight_capacity) {
        refuse(Severity::corrupt, "WEIGHT_REUSE needs all weights in the weight banks (bytes)",
               convolution.weight_bytes, weight_capacity);
    }
    if (convolution.weight_banks < chip.min_weight_banks) {
        check.judge.warn("weight_bank = %u: published to hang until power-cycle with narrow N",
                         convolution.weight_banks);
    }
    // Published sweep: garbage in the last rows when an int8 cube of width 1 nearly fills its last bank.
    const std::uint64_t in_last_bank = convolution.feature_bytes() % chip.cbuf_bank_bytes;
    const bool no_spare_bank = convolution.feature_bytes() > data_capacity - chip.cbuf_bank_bytes;
    if (convolution.input == Precision::int8 && convolution.width == 1 && no_spare_bank &&
        in_last_bank * 10 >= std::uint64_t{chip.cbuf_bank_bytes} * 9) {
        check.judge.warn("int8, W = 1, M = %u, K = %u: the features fill their last bank to %" PRIu64
                         " of %u bytes without a slack bank; published as garbage in the last rows",
                         convolution.rows(), convolution.channels, in_last_bank, chip.cbuf_bank_bytes);
    }
    const std::uint64_t line_bytes = convolution.width * convolution.row_bytes();
    const std::uint64_t entries = check.only(CBUF_CON1::offset, 0x3fff, "DATA_ENTRIES has 14 bits");
    const std::uint64_t at_least = (line_bytes + 63) / 64;
    const std::uint64_t at_most = convolution.width * ((convolution.row_bytes() + 63) / 64);
    if (entries < at_least || entries > at_most) {
        check.judge.refuse_register(Severity::corrupt, CBUF_CON1::offset, static_cast<std::uint32_t>(entries),
                                    "a line of features takes %" PRIu64 "..%" PRIu64 " entries of 64 bytes", at_least,
                                    at_most);
    }
}

}  // namespace npu::sim
