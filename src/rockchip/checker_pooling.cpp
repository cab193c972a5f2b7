// Pooling (PPU and PPU_RDMA): one window slides over each channel of a plane that PPU_RDMA reads; average, maximum or
// minimum. The unit calculates in fp16 and reads whatever it is given as fp16. Addresses, in bytes:
//   input   SRC_BASE + s * SRC_SURF_STRIDE + h * SRC_LINE_STRIDE + 16 * w
//   output  DST_BASE + s * DST_SURF_STRIDE + 16 * (h * (W + NOTCH) + w)
// with s counting surfaces of eight channels. Sources: register manual, a vendor program for one pixel, programs of a
// hardware-tested generator, published measurements.
#include "base/float_bits.h"
#include "base/integers.h"
#include "base/result.h"
#include "rockchip/checker_task.h"

namespace npu::rockchip::check {

namespace {

namespace ppu = reg::PPU;
namespace rdma = reg::PPU_RDMA;
namespace mode = reg::PPU::OPERATION_MODE_CFG;
namespace window = reg::PPU::POOLING_KERNEL_CFG;
namespace padding = reg::PPU::POOLING_PADDING_CFG;

constexpr std::uint32_t method_average = 0;

struct Axis {
    const char* name;
    Field input, output, kernel, stride, before, after, reciprocal;
};

constexpr Axis axes[] = {
    {"width", ppu::DATA_CUBE_IN_WIDTH::CUBE_IN_WIDTH, ppu::DATA_CUBE_OUT_WIDTH::CUBE_OUT_WIDTH, window::KERNEL_WIDTH,
     window::KERNEL_STRIDE_WIDTH, padding::PAD_LEFT, padding::PAD_RIGHT, ppu::RECIP_KERNEL_WIDTH::RECIP_KERNEL_WIDTH},
    {"height", ppu::DATA_CUBE_IN_HEIGHT::CUBE_IN_HEIGHT, ppu::DATA_CUBE_OUT_HEIGHT::CUBE_OUT_HEIGHT,
     window::KERNEL_HEIGHT, window::KERNEL_STRIDE_HEIGHT, padding::PAD_TOP, padding::PAD_BOTTOM,
     ppu::RECIP_KERNEL_HEIGHT::RECIP_KERNEL_HEIGHT},
};

void check_modes(const Reader& reader) {
    if (!reader.is_set(mode::FLYING_MODE)) {
        reader.refuse(mode::FLYING_MODE, consequence::hangs, source::manual,
                      "FLYING_MODE 0 waits for data from the DPU, which this task does not fire");
    }
    if (reader.of(mode::POOLING_METHOD) == 3) {
        reader.refuse(mode::POOLING_METHOD, consequence::not_understood, source::manual,
                      "POOLING_METHOD 3; known: 0 average, 1 maximum, 2 minimum");
    }
    reader.unexplained(mode::INDEX_EN, "0 in every program");
    reader.unexplained(mode::USE_CNT, "0 in every program");
    reader.unexplained(ppu::DATA_FORMAT::INDEX_ADD, "0 in every program");
    reader.unexplained(ppu::DATA_FORMAT::DPU_FLYIN, "data from the DPU, which this task does not fire");
    reader.unexplained(ppu::MISC_CTRL::MC_SURF_OUT, "no source explains it");
    reader.unexplained(ppu::MISC_CTRL::NONALIGN, "no source explains it");
    // A window of one pixel copies: the vendor's barrier between cores is such a task, whatever its format.
    const bool copies = reader.value(window::offset) == 0 && reader.of(mode::POOLING_METHOD) != method_average;
    const std::uint32_t half = info(Precision::fp16).dpu_code;
    for (const Field& field : {ppu::DATA_FORMAT::PROC_PRECISION, rdma::DATA_FORMAT::IN_PRECISION}) {
        if (const std::uint32_t code = reader.of(field); code != half && !copies) {
            reader.refuse(field, consequence::corrupts, source::measured,
                          format("precision code %u; pooling works on fp16 (%u) and reads anything else as if it were",
                                 code, half));
        }
    }
}

// The average multiplies by two reciprocals. Vendor programs hold 65536 / size as fp16; the manual says the number.
void check_reciprocal(const Reader& reader, const Axis& axis, std::uint32_t size) {
    const std::uint32_t found = reader.of(axis.reciprocal);
    const std::uint32_t number = 65536 / size;
    const std::uint32_t half = float_to_half(65536.0F / static_cast<float>(size));
    if (found != number && found != number + (65536 % size != 0 ? 1 : 0) && found != half) {
        reader.refuse(axis.reciprocal, consequence::corrupts, source::measured,
                      format("%s is 0x%x; for a window of %u it is 65536 / %u: 0x%x as fp16, or 0x%x as a number",
                             axis.reciprocal.name, found, size, size, half, number));
    }
}

void check_axis(const Reader& reader, const Axis& axis) {
    const std::uint32_t input = reader.of(axis.input) + 1;
    const std::uint32_t output = reader.of(axis.output) + 1;
    const std::uint32_t size = reader.of(axis.kernel) + 1;
    const std::uint32_t stride = reader.of(axis.stride) + 1;
    const std::uint32_t before = reader.of(axis.before);
    const std::uint32_t after = reader.of(axis.after);
    const std::uint32_t padded = input + before + after;
    const std::uint32_t expected = padded < size ? 0 : (padded - size) / stride + 1;
    if (output != expected) {
        reader.refuse(axis.output, consequence::corrupts, source::programs,
                      format("%s is %u; %u pixels, padding %u and %u, a window of %u and stride %u give a %s of %u",
                             axis.output.name, output - 1, input, before, after, size, stride, axis.name, expected));
    }
    if (before >= size || after >= size) {
        reader.refuse(before >= size ? axis.before : axis.after, consequence::not_understood, source::none,
                      format("padding %u and %u with a window of %u: whole windows would lie in the padding", before,
                             after, size));
    }
    if (reader.of(mode::POOLING_METHOD) == method_average) {
        check_reciprocal(reader, axis, size);
    }
    for (const Field& field : {axis.input, axis.output}) {
        if (reader.of(field) == field.maximum()) {
            reader.warn(field, consequence::corrupts, source::measured,
                        format("%s is at the field's maximum %u, which corrupts a tail in some passes", field.name,
                               field.maximum()));
        }
    }
}

Operand read_input(const Reader& reader) {
    const Field& base = rdma::SRC_BASE_ADDR::SRC_BASE_ADDR;
    const std::int64_t address = reader.value(base.offset);
    if (address % atom_bytes != 0) {
        reader.refuse(base, consequence::corrupts, source::manual, "SRC_BASE_ADDR is no multiple of 16 bytes");
    }
    const std::int64_t width = reader.of(ppu::DATA_CUBE_IN_WIDTH::CUBE_IN_WIDTH) + 1;
    const std::int64_t height = reader.of(ppu::DATA_CUBE_IN_HEIGHT::CUBE_IN_HEIGHT) + 1;
    const std::int64_t channels = reader.of(ppu::DATA_CUBE_IN_CHANNEL::CUBE_IN_CHANNEL) + 1;
    const std::int64_t surfaces = ceil_div<std::int64_t>(channels, 8);
    const std::int64_t line = reader.value(rdma::SRC_LINE_STRIDE::offset);
    const std::int64_t surface = reader.value(rdma::SRC_SURF_STRIDE::offset);
    if (height > 1 && line < 16 * width) {
        reader.refuse(
            rdma::SRC_LINE_STRIDE::SRC_LINE_STRIDE, consequence::corrupts, source::inferred,
            format("a line of %lld pixels takes %lld bytes; the next begins after %lld", static_cast<long long>(width),
                   static_cast<long long>(16 * width), static_cast<long long>(line)));
    }
    return {{address, address + (surfaces - 1) * surface + (height - 1) * line + 16 * width}, base, "input pixels"};
}

Writer read_output(const Reader& reader) {
    Writer writer{ppu::DST_BASE_ADDR::DST_BASE_ADDR, mode::NOTCH_ADDR, ppu::DST_SURF_STRIDE::DST_SURF_STRIDE,
                  ppu::DST_SURF_STRIDE::DST_SURF_STRIDE};
    writer.address = reader.value(writer.address_field.offset);
    writer.width = reader.of(ppu::DATA_CUBE_OUT_WIDTH::CUBE_OUT_WIDTH) + 1;
    writer.height = reader.of(ppu::DATA_CUBE_OUT_HEIGHT::CUBE_OUT_HEIGHT) + 1;
    writer.notch = reader.of(mode::NOTCH_ADDR);
    writer.surfaces =
        ceil_div<std::int64_t>(std::int64_t{reader.of(ppu::DATA_CUBE_OUT_CHANNEL::CUBE_OUT_CHANNEL)} + 1, 8);
    writer.surface_stride = reader.value(writer.surface_field.offset);
    writer.group_stride = writer.surface_stride;
    return writer;
}

}  // namespace

std::optional<Task> read_pooling(const Reader& reader) {
    check_modes(reader);
    const std::uint32_t channels = reader.of(ppu::DATA_CUBE_IN_CHANNEL::CUBE_IN_CHANNEL);
    reader.agree(ppu::DATA_CUBE_OUT_CHANNEL::CUBE_OUT_CHANNEL, channels, "input channels - 1");
    reader.agree(rdma::CUBE_IN_CHANNEL::CUBE_IN_CHANNEL, channels, "input channels - 1");
    reader.agree(rdma::CUBE_IN_WIDTH::CUBE_IN_WIDTH, reader.of(axes[0].input), "input width - 1");
    reader.agree(rdma::CUBE_IN_HEIGHT::CUBE_IN_HEIGHT, reader.of(axes[1].input), "input height - 1");
    for (const Axis& axis : axes) {
        check_axis(reader, axis);
    }
    Task task;
    task.writer = read_output(reader);
    task.operands.push_back(read_input(reader));
    return task;
}

}  // namespace npu::rockchip::check
