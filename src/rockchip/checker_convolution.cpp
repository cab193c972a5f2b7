#include "rockchip/checker_convolution.h"

#include <algorithm>

#include "base/integers.h"
#include "base/result.h"

namespace npu::rockchip::check {

namespace {

namespace cna = reg::CNA;
namespace core = reg::CORE;
namespace dpu = reg::DPU;

// Output channels that the array makes together. Twice as many in a depthwise convolution, for the two formats whose
// depthwise programs ran on hardware; 0 for the others.
std::uint32_t group_of(Precision input, bool depthwise) {
    if (!depthwise) {
        return info(input).kernels_per_group;
    }
    return input == Precision::int8 ? 64 : input == Precision::fp16 ? 32 : 0;
}

// One direction of the plane: the field that gives the output, and everything it must follow from.
struct Axis {
    const char* name;
    Field output;
    std::uint32_t found;    // output pixels
    std::uint32_t input;    // input pixels
    std::uint32_t padding;  // before the first pixel
    std::uint32_t kernel, stride, dilation;
    Field kernel_field, stride_field, dilation_field, padding_field;
};

void read_modes(const Reader& reader, bool& understood) {
    const auto mode = [&](const Field& field, const char* what) {
        understood = !reader.unexplained(field, what) && understood;
    };
    if (const std::uint32_t kind = reader.of(cna::CONV_CON1::CONV_MODE); kind != 0 && kind != 3) {
        reader.refuse(cna::CONV_CON1::CONV_MODE, consequence::not_understood, source::none,
                      format("CONV_MODE %u; known: 0 direct, 3 depthwise", kind));
        understood = false;
    }
    mode(cna::CONV_CON1::NONALIGN_DMA, "unaligned image input is not explained");
    mode(cna::CONV_CON1::DECONV, "transposed convolution is not explained");
    mode(cna::CONV_CON1::ARGB_IN, "image input is not explained");
}

bool read_input_format(const Reader& reader, Convolution& task) {
    const std::uint32_t code = reader.of(cna::CONV_CON1::IN_PRECISION);
    const std::optional<Precision> input = precision_from_cna_code(code);
    if (!input) {
        reader.refuse(cna::CONV_CON1::IN_PRECISION, consequence::corrupts, source::manual,
                      format("input precision code %u means nothing", code));
        return false;
    }
    task.input = *input;
    task.depthwise = reader.of(cna::CONV_CON1::CONV_MODE) == 3;
    task.group = group_of(*input, task.depthwise);
    bool same = reader.agree(cna::CONV_CON1::PROC_PRECISION, code, "the input precision code");
    same = reader.agree(core::MISC_CFG::PROC_PRECISION, code, "the input precision code") && same;
    if (reader.is_set(core::MISC_CFG::DW_EN) != task.depthwise) {
        reader.refuse(core::MISC_CFG::DW_EN, consequence::corrupts, source::programs,
                      format("DW_EN is %u in a convolution whose CONV_MODE says %s; depthwise mode is both or neither",
                             reader.of(core::MISC_CFG::DW_EN), task.depthwise ? "depthwise" : "direct"));
        same = false;
    }
    if (task.group == 0) {
        reader.refuse(
            cna::CONV_CON1::CONV_MODE, consequence::not_understood, source::none,
            format("depthwise convolution of %s; programs that ran on hardware have int8 or fp16", info(*input).name));
        return false;
    }
    return same;
}

std::uint32_t extent(const Reader& reader, const Field& field) {
    const std::uint32_t value = reader.of(field);
    if (value == 0) {
        reader.refuse(field, consequence::hangs, source::inferred, format("%s is 0", field.name));
    }
    return value;
}

void check_axis(const Reader& reader, const Axis& axis) {
    if (axis.stride == 0) {
        reader.refuse(axis.stride_field, consequence::not_understood, source::manual,
                      format("%s is 0; strides are literal, so at least 1", axis.stride_field.name));
        return;
    }
    // No source says whether the dilation field counts the gap or the distance between two taps; 0 is no dilation.
    const std::int64_t taps = axis.kernel;
    const std::int64_t gap = (taps - 1) * (std::int64_t{axis.dilation} + 1) + 1;
    const std::int64_t distance = (taps - 1) * std::max<std::int64_t>(axis.dilation, 1) + 1;
    if (gap != distance) {
        reader.warn(
            axis.dilation_field, consequence::not_understood, source::none,
            format("%s %u: a kernel of %lld covers %lld pixels if the field counts the gap between taps, %lld if "
                   "it counts their distance; no program shows which",
                   axis.dilation_field.name, axis.dilation, static_cast<long long>(taps), static_cast<long long>(gap),
                   static_cast<long long>(distance)));
    }
    if (axis.padding >= gap) {
        reader.refuse(axis.padding_field, consequence::not_understood, source::none,
                      format("%s is %u; the kernel covers %lld pixels, so whole windows would lie in the padding",
                             axis.padding_field.name, axis.padding, static_cast<long long>(gap)));
        return;
    }
    const std::int64_t padded = std::int64_t{axis.input} + axis.padding;
    const std::int64_t least = std::max<std::int64_t>(0, padded - gap) / axis.stride + 1;
    const std::int64_t most = std::max<std::int64_t>(0, padded - 1) / axis.stride + 1;
    if (axis.found < least || axis.found > most) {
        const std::string range =
            least == most ? format("%lld", static_cast<long long>(least))
                          : format("%lld to %lld", static_cast<long long>(least), static_cast<long long>(most));
        reader.refuse(axis.output, consequence::corrupts, source::programs,
                      format("%s is %u; %u input pixels, %u of padding, a kernel of %u and stride %u give a %s of %s",
                             axis.output.name, reader.of(axis.output), axis.input, axis.padding, axis.kernel,
                             axis.stride, axis.name, range.c_str()));
    } else if (axis.found > least && !reader.file.written(cna::PAD_CON1::offset)) {
        reader.refuse(cna::PAD_CON1::PAD_VALUE, consequence::corrupts, source::programs,
                      format("the last window of %u reaches past the %u input pixels, so they are padded with a value "
                             "that was not written in this chain",
                             axis.found, axis.input));
    }
}

void read_plane(const Reader& reader, Convolution& task) {
    task.width = extent(reader, cna::DATA_SIZE0::DATAIN_WIDTH);
    task.height = extent(reader, cna::DATA_SIZE0::DATAIN_HEIGHT);
    reader.agree(cna::FC_DATA_SIZE0::DMA_WIDTH, task.width, "input width");
    reader.agree(cna::FC_DATA_SIZE0::DMA_HEIGHT, task.height, "input height");
    task.output_width = extent(reader, cna::DATA_SIZE2::DATAOUT_WIDTH);
    task.output_height = reader.of(core::DATAOUT_SIZE_0::DATAOUT_HEIGHT) + 1;
    reader.agree(core::DATAOUT_SIZE_0::DATAOUT_WIDTH, std::uint64_t{task.output_width} - 1, "output width - 1");
    reader.agree(cna::DATA_SIZE3::DATAOUT_ATOMICS, std::uint64_t{task.output_width} * task.output_height,
                 "output width x height");
    if (task.width > reader.chip.max_extent || task.height > reader.chip.max_extent) {
        reader.refuse(
            cna::DATA_SIZE0::DATAIN_WIDTH, consequence::corrupts, source::manual,
            format("plane %ux%u; the chip's fields end at %u", task.width, task.height, reader.chip.max_extent));
    }
    if (task.width == 0 || task.height == 0 || task.output_width == 0) {
        return;
    }
    const std::uint32_t kernel_width = extent(reader, cna::WEIGHT_SIZE2::WEIGHT_WIDTH);
    const std::uint32_t kernel_height = extent(reader, cna::WEIGHT_SIZE2::WEIGHT_HEIGHT);
    if (kernel_width == 0 || kernel_height == 0) {
        return;
    }
    namespace con3 = cna::CONV_CON3;
    check_axis(reader, {"width", cna::DATA_SIZE2::DATAOUT_WIDTH, task.output_width, task.width,
                        reader.of(cna::PAD_CON0::PAD_LEFT), kernel_width, reader.of(con3::CONV_X_STRIDE),
                        reader.of(con3::ATROUS_X_DILATION), cna::WEIGHT_SIZE2::WEIGHT_WIDTH, con3::CONV_X_STRIDE,
                        con3::ATROUS_X_DILATION, cna::PAD_CON0::PAD_LEFT});
    check_axis(reader, {"height", core::DATAOUT_SIZE_0::DATAOUT_HEIGHT, task.output_height, task.height,
                        reader.of(cna::PAD_CON0::PAD_TOP), kernel_height, reader.of(con3::CONV_Y_STRIDE),
                        reader.of(con3::ATROUS_Y_DILATION), cna::WEIGHT_SIZE2::WEIGHT_HEIGHT, con3::CONV_Y_STRIDE,
                        con3::ATROUS_Y_DILATION, cna::PAD_CON0::PAD_TOP});
    if (!reader.is_set(cna::CONV_CON2::FEATURE_GRAINS)) {
        reader.refuse(cna::CONV_CON2::FEATURE_GRAINS, consequence::not_understood, source::measured,
                      "FEATURE_GRAINS is 0; every program writes at least 2, and too small a value corrupts some K");
    }
}

constexpr std::uint32_t longest_row = 10752;  // K of one int8 row that one project ran

// K in whole blocks of the weight stream. Half a block ends the stream of a convolution in two programs that ran on
// hardware, one int8 and one int16.
bool whole_blocks(const Convolution& task) {
    const std::uint32_t block = info(task.input).channels_per_block;
    const bool half = task.input == Precision::int8 || task.input == Precision::int16;
    return task.channels % (half ? block / 2 : block) == 0;
}

void read_channels(const Reader& reader, Convolution& task) {
    const std::uint32_t channels = reader.of(cna::DATA_SIZE1::DATAIN_CHANNEL);
    const PrecisionInfo& in = info(task.input);
    const Field& field = cna::DATA_SIZE1::DATAIN_CHANNEL;
    task.channels = channels;
    if (channels == 0) {
        reader.refuse(field, consequence::hangs, source::inferred, "K is 0");
        return;
    }
    reader.agree(cna::FC_DATA_SIZE1::DMA_CHANNEL, channels, "K");
    // K - 1; or its low six bits, as vendor convolutions have it; or the channels that are no padding.
    const std::uint32_t real = reader.of(cna::DATA_SIZE1::DATAIN_CHANNEL_REAL);
    if (real != channels - 1 && real != ((channels - 1) & 63U) && align_up<std::uint32_t>(real + 1, 16) != channels) {
        reader.refuse(cna::DATA_SIZE1::DATAIN_CHANNEL_REAL, consequence::corrupts, source::programs,
                      format("DATAIN_CHANNEL_REAL is %u; K - 1 is %u", real, channels - 1));
    }
    if (!whole_blocks(task)) {
        reader.refuse(field, consequence::corrupts, source::measured,
                      format("K %u is no multiple of %u for %s; the chip does not mask the rest", channels,
                             in.channels_per_block, in.name));
    }
    if (channels > reader.chip.max_k) {
        const bool one_row = task.input == Precision::int8 && task.width * task.height == 1 && channels <= longest_row;
        const std::string why = format("K %u exceeds %u, the most that sources verified%s", channels, reader.chip.max_k,
                                       one_row ? " but one, which ran single int8 rows of up to 10752" : "");
        if (one_row) {
            reader.warn(field, consequence::corrupts, source::measured, why);
        } else {
            reader.refuse(field, consequence::corrupts, source::measured, why);
        }
    }
    if (channels > reader.chip.hazard_k_low && channels < reader.chip.hazard_k_high && task.width * task.height > 4) {
        reader.warn(
            field, consequence::hangs, source::measured,
            format("K %u lies between %u and %u, where two sources saw failures and timeouts with more than 4 rows",
                   channels, reader.chip.hazard_k_low, reader.chip.hazard_k_high));
    }
    if (task.input == Precision::tf32 && channels > 4096) {
        reader.warn(field, consequence::corrupts, source::measured,
                    format("K %u; tf32 was verified up to 4096", channels));
    }
    const std::uint64_t pixels = std::uint64_t{task.width} * task.height;
    task.feature_bytes = ceil_div<std::uint64_t>(pixels * channels * in.bits, 8);
}

void read_feature_addresses(const Reader& reader, Convolution& task) {
    const Field& surface = cna::DMA_CON2::SURF_STRIDE;
    const std::int64_t raw = reader.of(surface);
    const std::int64_t span = static_cast<std::int64_t>(surface.maximum()) + 1;
    task.single_line = reader.is_set(cna::CONV_CON1::GROUP_LINE_OFF);
    task.line_stride = reader.of(cna::DMA_CON1::LINE_STRIDE);
    task.surface_stride = raw >= span / 2 ? raw - span : raw;  // two's complement in 28 bits
    task.feature_address = reader.value(cna::FEATURE_DATA_ADDR::offset);
    task.weight_address = reader.value(cna::DCOMP_ADDR0::offset);
    task.cbuf_con0 = reader.value(cna::CBUF_CON0::offset);
    task.cbuf_con1 = reader.value(cna::CBUF_CON1::offset);
    if (!task.single_line && task.height < 4 && task.surface_stride == 0 &&
        task.channels > channels_per_atom(task.input)) {
        // Published as "height < 4 is broken": the generator clamped the negative stride that short planes need.
        reader.warn(
            surface, consequence::corrupts, source::layout,
            format("surface stride 0 with %u lines in groups of four: channel blocks are read %u atoms apart; a "
                   "dense plane needs %lld",
                   task.height, 4 * task.width,
                   static_cast<long long>(task.width) * (static_cast<long long>(task.height) - 4)));
    }
}

}  // namespace

std::optional<Convolution> read_convolution(const Reader& reader) {
    Convolution task;
    bool understood = true;
    read_modes(reader, understood);
    if (!understood || !read_input_format(reader, task)) {
        return std::nullopt;
    }
    read_plane(reader, task);
    read_channels(reader, task);
    const bool empty = task.width == 0 || task.height == 0 || task.output_width == 0 || task.channels == 0;
    if (empty) {
        return std::nullopt;
    }
    read_kernels(reader, task);
    if (task.kernels == 0) {
        return std::nullopt;
    }
    read_feature_addresses(reader, task);
    return task;
}

}  // namespace npu::rockchip::check
