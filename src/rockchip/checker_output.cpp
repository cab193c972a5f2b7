#include "rockchip/checker_output.h"

#include <algorithm>
#include <iterator>

#include "base/integers.h"
#include "base/result.h"

namespace npu::rockchip::check {

namespace {

namespace dpu = reg::DPU;
using enum Precision;

struct Pair {
    Precision input, output;
};

// Output formats that programs or published measurements have shown after the array ...
constexpr Pair convolution_pairs[] = {{fp16, fp16}, {fp16, fp32},   {fp16, int16}, {bf16, fp32},  {bf16, bf16},
                                      {tf32, fp32}, {int8, int8},   {int8, int16}, {int8, int32}, {int8, fp32},
                                      {int8, fp16}, {int16, int32}, {int4, int16}};
// ... the transposing writer alone has ...
constexpr Pair transposed_pairs[] = {{fp16, fp16}, {int16, int16}};
// ... and in flying mode. All float formats convert into each other.
constexpr Pair flying_pairs[] = {{int8, int8}, {int16, int16}, {int32, int32}, {int32, fp32}, {fp16, fp16},
                                 {fp16, bf16}, {fp16, fp32},   {bf16, bf16},   {bf16, fp16},  {bf16, fp32},
                                 {fp32, fp32}, {fp32, fp16},   {fp32, bf16}};

std::span<const Pair> known_pairs(const Reader& reader, bool flying) {
    if (flying) {
        return flying_pairs;
    }
    return reader.is_set(dpu::BS_OW_CFG::TP_ORG_EN) ? std::span<const Pair>(transposed_pairs) : convolution_pairs;
}

std::optional<Precision> main_format(const Reader& reader, const Convolution* convolution) {
    if (convolution != nullptr) {
        return convolution->input;
    }
    const std::uint32_t code = reader.of(dpu::DATA_FORMAT::IN_PRECISION);
    const std::optional<Precision> input = precision_from_dpu_code(code);
    if (!input) {
        reader.refuse(dpu::DATA_FORMAT::IN_PRECISION, consequence::corrupts, source::manual,
                      format("input precision code %u means nothing in the DPU", code));
    }
    return input;
}

void read_sizes(const Reader& reader, Pipeline& pipeline) {
    if (const Convolution* convolution = pipeline.convolution; convolution != nullptr) {
        pipeline.width = convolution->output_width;
        pipeline.height = convolution->output_height;
        pipeline.channels = convolution->output_channels;
    } else {
        pipeline.width = reader.of(dpu::DATA_CUBE_WIDTH::WIDTH) + 1;
        pipeline.height = reader.of(dpu::DATA_CUBE_HEIGHT::HEIGHT) + 1;
        pipeline.channels = reader.of(dpu::DATA_CUBE_CHANNEL::CHANNEL) + 1;
        if (reader.of(dpu::DATA_CUBE_CHANNEL::ORIG_CHANNEL) + 1 != pipeline.channels) {
            reader.refuse(dpu::DATA_CUBE_CHANNEL::ORIG_CHANNEL, consequence::corrupts, source::measured,
                          format("ORIG_CHANNEL is %u and CHANNEL %u; when they differ in flying mode only the first of "
                                 "each group of channels is right",
                                 reader.of(dpu::DATA_CUBE_CHANNEL::ORIG_CHANNEL), pipeline.channels - 1));
        }
    }
    reader.agree(dpu::DATA_CUBE_WIDTH::WIDTH, std::uint64_t{pipeline.width} - 1, "output width - 1");
    reader.agree(dpu::DATA_CUBE_HEIGHT::HEIGHT, std::uint64_t{pipeline.height} - 1, "output height - 1");
    reader.agree(dpu::DATA_CUBE_CHANNEL::CHANNEL, std::uint64_t{pipeline.channels} - 1, "output channels - 1");
    for (const Field& field :
         {dpu::DATA_CUBE_WIDTH::WIDTH, dpu::DATA_CUBE_HEIGHT::HEIGHT, dpu::DATA_CUBE_CHANNEL::CHANNEL}) {
        if (reader.of(field) == field.maximum()) {
            reader.warn(field, consequence::corrupts, source::measured,
                        format("%s is at the field's maximum %u, which corrupts a tail in some passes", field.name,
                               field.maximum()));
        }
    }
}

bool sixteen_bit(Precision precision) { return precision == fp16 || precision == bf16; }

// A float result leaves the pipeline as fp32 unless it is narrowed.
void check_narrowing(const Reader& reader, const Pipeline& pipeline) {
    const Field& field = dpu::OUT_CVT_SCALE::FP32TOFP16_EN;
    const bool narrow = reader.is_set(field);
    const bool needed = sixteen_bit(pipeline.output) || (pipeline.floating() && pipeline.output == int16);
    if (needed && !narrow) {
        reader.refuse(field, consequence::hangs, pipeline.output == fp16 ? source::measured : source::inferred,
                      format("%s output without FP32TOFP16_EN", info(pipeline.output).name));
    } else if (narrow && !needed) {
        reader.refuse(field, consequence::not_understood, source::none,
                      format("FP32TOFP16_EN with %s output", info(pipeline.output).name));
    }
}

}  // namespace

std::optional<Pipeline> read_pipeline(const Reader& reader, const Convolution* convolution) {
    Pipeline pipeline;
    pipeline.convolution = convolution;
    const std::optional<Precision> input = main_format(reader, convolution);
    if (!input) {
        return std::nullopt;
    }
    pipeline.input = *input;
    const std::uint32_t code = info(*input).dpu_code;
    bool same = reader.agree(dpu::DATA_FORMAT::IN_PRECISION, code, "the DPU's code for the input precision");
    same = reader.agree(dpu::DATA_FORMAT::PROC_PRECISION, code, "the DPU's code for the input precision") && same;

    const std::uint32_t out_code = reader.of(dpu::DATA_FORMAT::OUT_PRECISION);
    const std::optional<Precision> output = precision_from_dpu_code(out_code);
    const std::span<const Pair> pairs = known_pairs(reader, pipeline.flying());
    const bool known = output && std::ranges::any_of(pairs, [&](const Pair& pair) {
                           return pair.input == *input && pair.output == *output;
                       });
    if (!known) {
        reader.refuse(dpu::DATA_FORMAT::OUT_PRECISION, consequence::not_understood, source::none,
                      format("output precision code %u after %s %s was seen in no program", out_code, info(*input).name,
                             pipeline.flying() ? "operands" : "input"));
        return std::nullopt;
    }
    pipeline.output = *output;
    read_sizes(reader, pipeline);
    return same ? std::optional<Pipeline>(pipeline) : std::nullopt;
}

void check_converter(const Reader& reader, const Pipeline& pipeline) {
    namespace scale = dpu::OUT_CVT_SCALE;
    namespace shift = dpu::OUT_CVT_SHIFT;
    check_narrowing(reader, pipeline);
    const char* output = info(pipeline.output).name;
    const std::uint32_t factor = reader.of(scale::OUT_CVT_SCALE);
    const bool by_float = reader.is_set(shift::CVT_TYPE);
    const bool to_float = info(pipeline.output).floating;
    if (by_float && to_float) {  // (x + offset) * 2^-exponent * scale, measured
        return;
    }
    if (by_float) {
        reader.warn(shift::CVT_TYPE, consequence::corrupts, source::measured,
                    format("CVT_TYPE scales float results; with %s output it was measured to do nothing", output));
    } else if (reader.is_set(shift::MINUS_EXP)) {
        reader.warn(shift::MINUS_EXP, consequence::corrupts, source::programs,
                    "MINUS_EXP belongs to float scaling; without CVT_TYPE no program has it");
    }
    const bool requantises = pipeline.output == int8 || (pipeline.output == int16 && pipeline.input == int8) ||
                             (pipeline.flying() && pipeline.output == int16);
    if (requantises) {
        if (factor == 0) {
            reader.refuse(scale::OUT_CVT_SCALE, consequence::corrupts, source::measured,
                          "output scale 0 makes every result the offset");
        }
        return;
    }
    const bool ignored = factor == 0 && pipeline.output == fp32;  // works in a published generator, so fp32 ignores it
    const bool plain = (factor == 1 || ignored) && !reader.is_set(shift::OUT_CVT_SHIFT) &&
                       reader.value(dpu::OUT_CVT_OFFSET::offset) == 0;
    if (!pipeline.floating() && to_float) {
        if (!plain) {
            reader.warn(scale::OUT_CVT_SCALE, consequence::corrupts, source::measured,
                        "integer scaling before the conversion to float; sources disagree how it rounds");
        }
        if (pipeline.output == fp16) {
            reader.warn(
                dpu::DATA_FORMAT::OUT_PRECISION, consequence::corrupts, source::measured,
                "fp16 from integer sums is right only up to 2048 in one small tile; scale as float (CVT_TYPE 1) "
                "or take fp32");
        }
        return;
    }
    if (factor != 1 && !ignored) {
        reader.refuse(scale::OUT_CVT_SCALE, consequence::not_understood, source::none,
                      format("output scale %u with %s output; without CVT_TYPE only int8 and int16 are scaled, others "
                             "take 1",
                             factor, output));
    }
    if (reader.is_set(shift::OUT_CVT_SHIFT)) {
        reader.refuse(shift::OUT_CVT_SHIFT, consequence::not_understood, source::none,
                      format("output shift with %s output; only int8 and int16 are shifted", output));
    }
    if (reader.value(dpu::OUT_CVT_OFFSET::offset) != 0) {
        reader.refuse(dpu::OUT_CVT_OFFSET::OUT_CVT_OFFSET, consequence::not_understood, source::none,
                      format("output offset with %s output; only int8 and int16 have one", output));
    }
}

}  // namespace npu::rockchip::check
