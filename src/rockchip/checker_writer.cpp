// The last part of the DPU: how results are cut into surfaces and where each is written.
#include <algorithm>

#include "base/integers.h"
#include "base/result.h"
#include "rockchip/checker_output.h"

namespace npu::rockchip::check {

namespace {

namespace dpu = reg::DPU;
namespace ow = reg::DPU::BS_OW_CFG;
namespace wdma = reg::DPU::WDMA_SIZE_0;

// SIZE_E must say how many surfaces a group of channels fills; smaller, and the last surfaces stay unwritten.
std::int64_t surfaces_per_group(const Reader& reader, const Pipeline& pipeline) {
    if (pipeline.flying()) {
        reader.agree(ow::SIZE_E_1, reader.of(ow::SIZE_E_0), "SIZE_E_0");
        reader.agree(ow::SIZE_E_2, reader.of(ow::SIZE_E_0), "SIZE_E_0");
        return reader.of(ow::SIZE_E_0) + 1;
    }
    const std::uint32_t surfaces = pipeline.convolution->group * info(pipeline.output).bits / 8 / atom_bytes;
    for (const Field& size : {ow::SIZE_E_0, ow::SIZE_E_1, ow::SIZE_E_2}) {
        if (const std::uint32_t value = reader.of(size); value != surfaces - 1) {
            reader.refuse(size, pipeline.input == Precision::int16 ? consequence::hangs : consequence::corrupts,
                          source::measured,
                          format("%s is %u; %s to %s has %u surfaces in a group, so it must be %u", size.name, value,
                                 info(pipeline.input).name, info(pipeline.output).name, surfaces, surfaces - 1));
            break;
        }
    }
    return surfaces;
}

// Transposed output: int16 sums in their low 16 bits (measured), or fp16 as one published program has it. How the
// elements lie inside is not needed here: they stay within one run.
void check_transposed(const Reader& reader, const Pipeline& pipeline, Writer& writer) {
    const std::uint32_t kernels = pipeline.channels;
    for (const Field& size : {ow::SIZE_E_0, ow::SIZE_E_1, ow::SIZE_E_2}) {
        reader.agree(size, 7, "SIZE_E of transposed output");
    }
    if (kernels == 16) {
        reader.refuse(ow::TP_ORG_EN, consequence::hangs, source::measured,
                      "transposed output of 16 channels never ends, though it writes all of them");
    }
    if (pipeline.output == Precision::int16) {
        if (kernels > 32) {
            reader.refuse(ow::TP_ORG_EN, consequence::corrupts, source::measured,
                          format("transposed int16 output of %u channels; at most 32 were right", kernels));
        }
        reader.warn(ow::TP_ORG_EN, consequence::corrupts, source::measured,
                    "transposed int16 output keeps the low 16 bits of each sum");
        writer.surfaces = 8;  // four parts, each 16 slots of two bytes per pixel
        return;
    }
    reader.agree(wdma::TP_PRECISION, 1, "TP_PRECISION of transposed fp16 output");
    reader.agree(wdma::SIZE_C_WDMA, std::uint64_t{kernels} / 16 - 1, "N / 16 - 1");
    reader.agree(wdma::CHANNEL_WDMA, std::uint64_t{kernels} / 2 - 1, "N / 2 - 1");
    reader.agree(dpu::WDMA_SIZE_1::HEIGHT_WDMA, pipeline.pixels() / 4 - 1, "pixels / 4 - 1");
}

void aligned(const Reader& reader, const Field& field) {
    if (const std::uint32_t value = reader.value(field.offset); value % atom_bytes != 0) {
        reader.refuse(field, consequence::corrupts, source::manual,
                      format("%s is no multiple of 16 bytes", field.name));
    }
}

}  // namespace

Writer read_writer(const Reader& reader, const Pipeline& pipeline) {
    Writer writer{dpu::DST_BASE_ADDR::DST_BASE_ADDR, dpu::DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_0,
                  dpu::DST_SURF_STRIDE::DST_SURF_STRIDE, dpu::SURFACE_ADD::SURF_ADD};
    aligned(reader, writer.address_field);
    const std::uint32_t notch = reader.of(writer.notch_field);
    reader.agree(dpu::DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_1, notch, "NOTCH_ADDR_0");
    writer.address = reader.value(writer.address_field.offset);
    writer.width = pipeline.width;
    writer.height = pipeline.height;
    writer.notch = notch;
    writer.surface_stride = reader.value(writer.surface_field.offset);
    writer.group_stride = reader.value(writer.group_field.offset);
    writer.surfaces =
        ceil_div<std::int64_t>(std::int64_t{pipeline.channels} * info(pipeline.output).bits, 8 * atom_bytes);
    writer.dense = reader.is_set(ow::TP_ORG_EN);
    if (writer.dense) {
        check_transposed(reader, pipeline, writer);
        return writer;
    }
    writer.per_group = surfaces_per_group(reader, pipeline);
    reader.agree(wdma::CHANNEL_WDMA, std::uint64_t{pipeline.channels} - 1, "output channels - 1");
    if (pipeline.input == Precision::int4 && pipeline.pixels() > 1 && reader.value(dpu::WDMA_SIZE_1::offset) == 0) {
        reader.warn(dpu::WDMA_SIZE_1::HEIGHT_WDMA, consequence::not_understood, source::programs,
                    "the plane to write is 1x1 and the output is larger; one project runs int4 like this, every other "
                    "program writes the same plane twice");
    } else {
        reader.agree(dpu::WDMA_SIZE_1::WIDTH_WDMA, std::uint64_t{pipeline.width} - 1, "output width - 1");
        reader.agree(dpu::WDMA_SIZE_1::HEIGHT_WDMA, std::uint64_t{pipeline.height} - 1, "output height - 1");
    }
    reader.unexplained(wdma::TP_PRECISION, "transposed output, without TP_ORG_EN");
    reader.unexplained(wdma::SIZE_C_WDMA, "transposed output, without TP_ORG_EN");
    return writer;
}

}  // namespace npu::rockchip::check
