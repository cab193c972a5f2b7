#include "sim/rv1106_task.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

namespace npu::sim {

namespace {

// Registers with one value in every published program of that kind: (offset, value for images, value for features).
// What they mean is not known or not shown; where the RK3588 knows the field, it says the same thing another way.
struct Fixed {
    std::uint16_t offset;
    std::uint32_t image;
    std::uint32_t feature;
};
constexpr std::array fixed{
    Fixed{0x1004, 0xe, 0xe},
    Fixed{0x3004, 0xe, 0xe},
    Fixed{0x4004, 0xe, 0xe},
    Fixed{0x5004, 0xe, 0xe},
    Fixed{0x1010, 0x3ff, 0x104},            // lines fetched ahead and unknown low bits
    Fixed{0x1014, 9, 9},                    // stride 1, no dilation
    Fixed{0x1024, 0x00020010, 0x00020010},  // three real channels of sixteen
    Fixed{0x103c, 0x00100000, 0x00040000},
    Fixed{0x1040, 8, 8},
    Fixed{0x1048, 0x04000000, 0x04000000},
    Fixed{0x1060, 0, 0},
    Fixed{0x1064, 0, 0},
    Fixed{0x1068, 0, 0},
    Fixed{0x106c, 0, 0},  // no padding
    Fixed{0x1074, 0, 0},
    Fixed{0x1078, 0x400f400f, 0x400f400f},
    Fixed{0x1088, 16, 16},
    Fixed{0x108c, 0xff, 0},
    Fixed{0x1094, 0, 0},
    Fixed{0x1100, 0, 0},
    Fixed{0x1104, 0, 0},
    Fixed{0x1140, 0, 0},
    Fixed{0x1144, 0, 0},
    Fixed{0x1184, 0xff80, 0xff80},  // pad value, of use with padding only
    Fixed{0x1188, 2, 8},
    Fixed{0x3010, 1, 1},
    Fixed{0x3018, 15, 15},
    Fixed{0x301c, 0x20, 0},
    Fixed{0x400c, 0x1e4, 0x1e4},
    Fixed{0x4010, 0x00800000, 0x00800000},
    Fixed{0x4014, 0, 0},
    Fixed{0x4018, 0, 0},
    Fixed{0x401c, 0x7fffffff, 0x7fffffff},
    Fixed{0x4028, 0x7fffffff, 0x7fffffff},
    Fixed{0x402c, 0x7fffffff, 0x7fffffff},
    Fixed{0x4038, 0, 0},
    Fixed{0x4040, 0x00121d80, 0x00121d80},  // bias and multiplier from the channel table
    Fixed{0x4044, 0, 0},
    Fixed{0x4048, 1, 1},
    Fixed{0x404c, 0x80000000, 0x80000000},
    Fixed{0x4050, 0x30000001, 0x30000001},
    Fixed{0x4054, 0x8e000000, 0x8e000000},  // bits 29:24 read 14, the shift of the table's multipliers
    Fixed{0x4058, 3, 3},
    Fixed{0x4064, 0, 0},
    Fixed{0x4068, 0, 0},
    Fixed{0x4070, 0x010041c1, 0x010041c1},
    Fixed{0x4074, 0, 0},
    Fixed{0x4078, 1, 1},
    Fixed{0x407c, 0x80000000, 0x80000000},
    Fixed{0x4090, 0, 0},
    Fixed{0x4094, 0, 0},
    Fixed{0x4098, 0, 0},
    Fixed{0x409c, 0, 0},
    Fixed{0x40a0, 0, 0},
    Fixed{0x40c4, 0, 0},
    Fixed{0x40d8, 0x80000000, 0x80000000},
    Fixed{0x40dc, 0x7fffffff, 0x7fffffff},
    Fixed{0x40e4, 0x7fffffff, 0x7fffffff},
    Fixed{0x40e8, 0x80000000, 0x80000000},
    Fixed{0x40ec, 0x7fffffff, 0x7fffffff},
    Fixed{0x4100, 0, 0},
    Fixed{0x4104, 0, 0},
    Fixed{0x4108, 0, 0},
    Fixed{0x410c, 0, 0},
    Fixed{0x4110, 0, 0},
    Fixed{0x4114, 0, 0},
    Fixed{0x4118, 0, 0},
    Fixed{0x411c, 0, 0},
    Fixed{0x4120, 0, 0},
    Fixed{0x4124, 0, 0},
    Fixed{0x4128, 0, 0},
    Fixed{0x412c, 0, 0},
    Fixed{0x5014, 15, 15},
    Fixed{0x5018, 0, 0},
    Fixed{0x501c, 0xe, 0xe},
    Fixed{0x5028, 0, 0},
    Fixed{0x502c, 0, 0},
    Fixed{0x5034, 1, 1},
    Fixed{0x5038, 0, 0},
    Fixed{0x5040, 0, 0},
    Fixed{0x5044, 0x7810, 0x7810},
    Fixed{0x5048, 0, 0},
    Fixed{0x504c, 0, 0},
    Fixed{0x5064, 0, 0},
    Fixed{0x5068, 0x01010101, 0x01010101},
    Fixed{0x506c, 0, 0},
    Fixed{0x8028, 0xc, 0xc},
    Fixed{0x802c, 0xffffffff, 0xffffffff},
};

constexpr std::uint32_t feature_mode = 0;
constexpr std::uint32_t image_mode = 0x2000a000;  // lines one by one, packed pixels
constexpr std::uint32_t image_pixels_per_line = 16;
constexpr std::uint32_t kernels_per_table_group = 4;

// The registers that are read besides the fixed ones.
constexpr std::array<std::uint16_t, 37> interpreted{
    0x100c, 0x101c, 0x1020, 0x1028, 0x102c, 0x1030, 0x1034, 0x1038, 0x1044, 0x104c, 0x1050, 0x1054, 0x1058,
    0x105c, 0x1070, 0x107c, 0x1080, 0x1084, 0x1110, 0x118c, 0x3014, 0x4020, 0x4024, 0x4030, 0x4034, 0x403c,
    0x405c, 0x4060, 0x406c, 0x4080, 0x4084, 0x4088, 0x40c0, 0x40e0, 0x500c, 0x5010, 0x5020,
};

std::vector<std::uint16_t> known_registers() {
    std::vector<std::uint16_t> offsets(interpreted.begin(), interpreted.end());
    std::ranges::transform(fixed, std::back_inserter(offsets), &Fixed::offset);
    std::ranges::sort(offsets);
    return offsets;
}

// A program writes exactly the registers that are known.
void check_presence(const Rv1106Registers& registers, Judge& judge) {
    static const std::vector<std::uint16_t> known = known_registers();
    std::string missing;
    for (const std::uint16_t offset : known) {
        if (!registers.written(offset)) {
            missing += format("%s0x%04x", missing.empty() ? "" : ", ", offset);
        }
    }
    if (!missing.empty()) {
        judge.refuse(Severity::hang, "registers that this task reads were never written; they hold noise: %s",
                     missing.substr(0, 300).c_str());
    }
    for (const auto& [offset, value] : registers.all_written()) {
        if (!std::ranges::binary_search(known, offset)) {
            judge.refuse_register(Severity::unmodelled, offset, value,
                                  "no published program of this chip writes this register");
        }
    }
}

class Reader {
  public:
    Reader(const Rv1106Registers& registers, Judge& judge) : registers_(registers), judge_(judge) {}

    // In lenient mode a register that nobody wrote reads as 0, as on the RK3588.
    std::uint32_t operator()(std::uint16_t offset) const {
        return !registers_.written(offset) && judge_.mode() == Mode::lenient ? 0 : registers_.value(offset);
    }

    void expect(std::uint16_t offset, std::uint32_t wanted, const char* why) const {
        if ((*this)(offset) != wanted) {
            judge_.refuse_register(Severity::unmodelled, offset, (*this)(offset), "must be 0x%x: %s", wanted, why);
        }
    }

    std::uint32_t address(std::uint16_t offset) const {
        const std::uint32_t value = (*this)(offset);
        if (value % 16 != 0) {
            judge_.refuse_register(Severity::unmodelled, offset, value, "published addresses are multiples of 16");
        }
        return value;
    }

  private:
    const Rv1106Registers& registers_;
    Judge& judge_;
};

// The converter: (x * scale + offset) >> truncate, four channels. The programs have scale 2^14, truncate 14 and offset
// -128 * 2^14 in three registers, so which one belongs to which channel does not show, nor how a fraction is rounded.
void read_converter(const Reader& read, Judge& judge, Rv1106Task& task) {
    if (!task.image) {
        read.expect(0x104c, 9, "features are not converted");
        for (const std::uint16_t offset : {0x1050, 0x1054}) {
            read.expect(offset, 0x00010001, "features are not converted");
        }
        for (const std::uint16_t offset : {0x101c, 0x1058, 0x105c}) {
            read.expect(offset, 0, "features are not converted");
        }
        return;
    }
    read.expect(0x104c, 0x000e38e0, "unsigned bytes, products shifted by 14, the only converter that was published");
    read.expect(0x1050, 0x40004000, "scales of 2^14, the only ones that were published");
    read.expect(0x1054, 0x00014000, "scales of 2^14, the only ones that were published");
    const std::uint32_t offset = read(0x101c);
    read.expect(0x1058, offset, "three equal offsets; which belongs to which channel is not known");
    read.expect(0x105c, offset, "three equal offsets; which belongs to which channel is not known");
    constexpr std::int32_t one = 1 << 14;
    const auto value = static_cast<std::int32_t>(offset);
    if (value % one != 0 || value > 0 || value < -255 * one) {
        judge.refuse_register(Severity::unmodelled, 0x101c, offset,
                              "the offset must be a whole number from -255 to 0, times 2^14");
    }
    task.input_zero = -(value / one);
}

void read_input(const Reader& read, Judge& judge, Rv1106Task& task) {
    const std::uint32_t size = read(0x1020);
    task.width = size >> 16;
    task.height = size & 0xffff;
    if (task.width == 0 || task.height == 0 || task.width > 2047 || task.height > 2047 ||
        (task.image && task.width > image_pixels_per_line)) {
        judge.refuse_register(Severity::unmodelled, 0x1020, size, "a plane of %u x %u", task.width, task.height);
        return;
    }
    const std::uint32_t w = task.width;
    const std::uint32_t h = task.height;
    read.expect(0x1028, w, "the output is as wide as the input");
    read.expect(0x102c, w * h, "pixels of the output");
    task.features = read.address(0x1070);
    if (task.image) {
        task.pixel_bytes = 3;
        task.line_bytes = image_pixels_per_line * task.pixel_bytes;
        const std::uint32_t atoms = task.line_bytes / 16 * h;
        read.expect(0x1044, image_pixels_per_line << 16 | 2, "lines of 16 pixels, two entries of the CBUF each");
        read.expect(0x107c, atoms, "atoms of the image");
        read.expect(0x1080, atoms, "atoms of the image");
        read.expect(0x1084, atoms << 16 | 1, "the image is fetched as one line");
        read.expect(0x118c, (2 * h - 1) << 16 | (2 * h - 1), "two entries per line, minus one");
        return;
    }
    task.pixel_bytes = 16;
    task.line_bytes = w * task.pixel_bytes;
    read.expect(0x1044, w << 16 | (w + 1) / 2, "pixels of a line and its 32-byte entries of the CBUF");
    read.expect(0x107c, 4 * w, "atoms of four lines");
    read.expect(0x1080, w * h, "atoms of the plane");
    read.expect(0x1084, size, "the plane is fetched as it is");
    read.expect(0x118c, 0x00070007, "the only value that was published, for a plane of 8 x 8");
}

void read_weights(const Reader& read, Judge& judge, Rv1106Task& task) {
    const std::uint32_t kernels = read(0x1038);
    task.kernels = kernels & 0x3fff;
    task.kernel_bytes = task.image ? 4 : 16;
    if ((kernels & ~0x3fffU) != 0x01010000 || task.kernels == 0 || task.kernels > kernels_per_table_group) {
        judge.refuse_register(Severity::unmodelled, 0x1038, kernels,
                              "1x1 kernels, one to four of them, are all that was published");
    }
    read.expect(0x1034, task.kernel_bytes, "bytes of a kernel");
    read.expect(0x1030, task.kernels * task.kernel_bytes, "bytes of all kernels");
    task.weights = read.address(0x1110);
}

void read_outputs(const Reader& read, Judge& judge, Rv1106Task& task) {
    const std::uint32_t w = task.width;
    const std::uint32_t h = task.height;
    const std::uint32_t corner = (h - 1) << 16 | (w - 1);
    read.expect(0x3014, corner, "height - 1 and width - 1 of the output");
    read.expect(0x405c, corner, "height - 1 and width - 1 of the output");
    read.expect(0x4030, w - 1, "width - 1");
    read.expect(0x4034, h - 1, "height - 1");
    read.expect(0x500c, w - 1, "width - 1");
    read.expect(0x5010, h - 1, "height - 1");
    read.expect(0x403c, (task.kernels - 1) << 16 | 15, "channels - 1 and lanes - 1");
    task.outputs = read.address(0x4020);
    read.expect(0x4024, w * h * 16, "bytes of the plane");
    read.expect(0x40c0, w * h * 16, "bytes of the plane");
    task.channel_table = read.address(0x5020);

    const std::uint32_t bn = read(0x4060);
    task.relu = bn == 0x12;
    if (bn != 0x12 && bn != 0x13) {
        judge.refuse_register(Severity::unmodelled, 0x4060, bn,
                              "0x13 bypasses the stage, 0x12 clamps; others are not known");
    }
    // Two registers hold the lower bound; which of them counts does not show.
    const std::uint32_t bound = task.relu ? 0 : 0x80000000;
    read.expect(0x406c, bound, task.relu ? "lower bound of a ReLU" : "no lower bound");
    read.expect(0x40e0, bound, task.relu ? "lower bound of a ReLU" : "no lower bound");

    const std::uint32_t zero = read(0x4080);
    task.zero_point = static_cast<std::int32_t>(zero);
    if (task.zero_point < -128 || task.zero_point > 127) {
        judge.refuse_register(Severity::unmodelled, 0x4080, zero, "a zero point of an int8 is from -128 to 127");
    }
    const std::uint32_t multiplier = read(0x4084);
    task.multiplier = static_cast<std::int32_t>(multiplier & 0x7fff);
    if (multiplier > 0x7fff) {
        judge.refuse_register(Severity::unmodelled, 0x4084, multiplier,
                              "whether the multiplier is signed is not known: at most 0x7fff");
    }
    task.shift = read(0x4088);
    if (task.shift == 0 || task.shift > 31) {
        judge.refuse_register(Severity::unmodelled, 0x4088, task.shift,
                              "a shift from 1 to 31 with ties to even is all that was published");
        task.shift = 1;
    }
}

}  // namespace

std::optional<Rv1106Task> read_rv1106_task(const Rv1106Registers& registers, std::uint32_t enable, Judge& judge) {
    if (enable != rockchip::enable_convolution_rdma) {
        judge.stop(Severity::unmodelled, "enable 0x%x: the published programs of this chip start 0x1d", enable);
        return std::nullopt;
    }
    check_presence(registers, judge);
    if (judge.refused()) {
        return std::nullopt;
    }
    const Reader read(registers, judge);
    Rv1106Task task;
    const std::uint32_t mode = read(0x100c);
    task.image = mode == image_mode;
    if (mode != image_mode && mode != feature_mode) {
        judge.refuse_register(Severity::unmodelled, 0x100c, mode,
                              "0x2000a000 (packed image) and 0 (features) are all that was published");
        return std::nullopt;
    }
    for (const Fixed& entry : fixed) {
        read.expect(entry.offset, task.image ? entry.image : entry.feature,
                    "the only value in published programs of this chip; what another one does is not known");
    }
    read_input(read, judge, task);
    if (judge.refused()) {
        return std::nullopt;
    }
    read_converter(read, judge, task);
    read_weights(read, judge, task);
    read_outputs(read, judge, task);
    return judge.refused() ? std::nullopt : std::optional(task);
}

}  // namespace npu::sim
