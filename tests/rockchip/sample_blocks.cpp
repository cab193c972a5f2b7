#include "rockchip/sample_blocks.h"

#include <algorithm>
#include <utility>

namespace npu::rockchip::test {

namespace {

class Body {
  public:
    Body& write(std::uint16_t offset, std::uint32_t value) {
        static constexpr std::uint16_t targets[] = {target::pc,  target::cna,      target::none, target::core,
                                                    target::dpu, target::dpu_rdma, target::ppu,  target::ppu_rdma};
        commands_.push_back({targets[offset >> 12], offset, value});
        return *this;
    }
    Body& zeros(std::uint16_t first, std::uint16_t last) {
        for (std::uint16_t offset = first; offset <= last; offset += 4) {
            write(offset, 0);
        }
        return *this;
    }
    std::vector<Command> take() { return std::move(commands_); }

  private:
    std::vector<Command> commands_;
};

std::uint32_t up(std::uint32_t value, std::uint32_t unit) { return (value + unit - 1) / unit * unit; }

// What the DPU is told about its output, in every kind of task.
struct Output {
    std::uint32_t width, height, channels, original;
    std::uint32_t formats;  // 0x4010
    std::uint32_t mode;     // 0x400c
    std::uint32_t surface_stride, surfaces;
    std::uint32_t address;
};

void write_dpu(Body& body, const Output& out) {
    const std::uint32_t size_e = out.surfaces - 1;
    body.write(0x400c, out.mode).write(0x4010, out.formats).write(0x4014, 0);
    body.write(0x4020, out.address).write(0x4024, out.surface_stride);
    body.write(0x4030, out.width - 1).write(0x4034, out.height - 1).write(0x4038, 0);
    body.write(0x403c, (out.original - 1) << 16 | (out.channels - 1));
    body.write(0x4040, 0x53).zeros(0x4044, 0x404c);
    body.write(0x4050, size_e << 8 | size_e << 5 | size_e << 2 | 2).write(0x4054, 0);
    body.write(0x4058, out.channels - 1).write(0x405c, (out.height - 1) << 16 | (out.width - 1));
    body.write(0x4060, 0x53).zeros(0x4064, 0x406c);
    body.write(0x4070, 0x383).write(0x4074, 0).write(0x4078, 1).write(0x407c, 0);
    body.write(0x4080, 0).write(0x4084, 1).write(0x4088, 0).zeros(0x4090, 0x40ac);
    body.write(0x40c0, out.surface_stride * out.surfaces).write(0x40c4, 0).zeros(0x4100, 0x412c);
}

void write_operand_readers(Body& body, const Output& out, std::uint32_t mode) {
    body.write(0x500c, out.width - 1).write(0x5010, out.height - 1).write(0x5014, out.channels - 1);
    body.zeros(0x5018, 0x5020).zeros(0x5028, 0x502c).write(0x5034, 1).write(0x5038, 0).write(0x5040, 0);
    body.write(0x5044, mode).zeros(0x5048, 0x504c).write(0x5064, 0).write(0x5068, 0x01010101).write(0x506c, 0);
}

void set(std::vector<Command>& body, std::uint16_t offset, std::uint32_t value) {
    for (Command& command : body) {
        command.value = command.offset == offset ? value : command.value;
    }
}

}  // namespace

std::uint32_t ConvolutionShape::output_width() const {
    return (width + pad_left + pad_right - kernel_width) / stride_x + 1;
}

std::uint32_t ConvolutionShape::output_height() const {
    return (height + pad_top + pad_bottom - kernel_height) / stride_y + 1;
}

SampleTask sample_convolution(const ConvolutionShape& s) {
    const std::uint32_t bits = info(s.input).bits;
    const std::uint32_t group = info(s.input).kernels_per_group * (s.depthwise ? 2 : 1);
    const std::uint32_t real = s.depthwise ? s.channels : s.kernels;
    const std::uint32_t kernels = s.depthwise ? 1 : s.kernels;
    const std::uint32_t kernel_bytes = s.kernel_width * s.kernel_height * s.channels * bits / 8;
    const std::uint32_t feature_bytes = s.width * s.height * s.channels * bits / 8;
    const std::uint32_t data_banks = std::clamp((feature_bytes + 32767) / 32768, 1U, 11U);
    const auto in = static_cast<std::uint32_t>(s.input);
    const std::uint32_t dpu_in = info(s.input).dpu_code;
    const std::uint32_t mode = s.depthwise ? 3 : 0;
    const std::uint32_t ow = s.output_width();
    const std::uint32_t oh = s.output_height();

    Body body;
    body.write(0x4004, 0xe).write(0x5004, 0xe);
    body.write(0x100c, in << 7 | in << 4 | mode).write(0x1010, (50 + s.stride_y + 1) << 4);
    body.write(0x1014, s.stride_y << 3 | s.stride_x).write(0x1020, s.width << 16 | s.height);
    body.write(0x1024, (s.channels - 1) << 16 | s.channels).write(0x1028, ow).write(0x102c, ow * oh);
    body.write(0x1030, kernels * kernel_bytes).write(0x1034, kernel_bytes);
    body.write(0x1038, s.kernel_width << 24 | s.kernel_height << 16 | kernels);
    body.write(0x1040, (12 - data_banks) << 4 | data_banks).write(0x1044, (s.width * s.channels * bits / 8 + 63) / 64);
    body.write(0x104c, 0xb);
    for (std::uint16_t offset = 0x1050; offset <= 0x105c; offset += 4) {
        body.write(offset, 0x10000);
    }
    body.zeros(0x1060, 0x1064).write(0x1068, s.pad_left << 4 | s.pad_top).write(0x1070, s.feature_address);
    body.write(0x1074, 0).write(0x1078, 0x000f000f).write(0x107c, 4 * s.width);
    body.write(0x1080, (s.width * s.height - 4 * s.width) & 0x0fffffffU).write(0x1084, s.width << 16 | s.height);
    body.write(0x1088, s.channels).zeros(0x1100, 0x1104).write(0x1110, s.weight_address).zeros(0x1140, 0x117c);
    body.write(0x1180, 0).write(0x1184, 0x80);
    body.write(0x3010, in << 8 | (s.depthwise ? 2U : 0U) | 1).write(0x3014, (oh - 1) << 16 | (ow - 1));
    body.write(0x3018, up(real, group) - 1).zeros(0x301c, 0x301c).write(0x3030, 0);
    const Output out{ow,
                     oh,
                     up(real, group),
                     real,
                     std::uint32_t{info(s.output).dpu_code} << 29 | dpu_in << 26 | dpu_in,
                     0x1e4U | mode << 3,
                     up(ow * oh, 4) * 16,
                     group * info(s.output).bits / 128,
                     s.output_address};
    write_dpu(body, out);
    write_operand_readers(body, out, (s.output == Precision::fp16 ? 0x7818U : 0x7810U) | mode << 1);
    SampleTask task{body.take(), enable_convolution_rdma, {}};
    if (s.output == Precision::fp16) {
        set(task.body, 0x4084, 0x10001);
    } else if (s.output == Precision::int8) {
        set(task.body, 0x4084, 0x4cd3);
        set(task.body, 0x4088, 22);
        set(task.body, 0x4080, 5);
    }
    if (s.bias) {
        set(task.body, 0x4040, 0x20150);
        set(task.body, 0x501c, 2);
        set(task.body, 0x5020, s.bias_address);
    }
    return task;
}

SampleTask sample_element_wise(const ElementWiseShape& s) {
    const std::uint32_t in = info(s.input).dpu_code;
    const Output out{s.width,
                     s.height,
                     s.channels,
                     s.channels,
                     std::uint32_t{info(s.output).dpu_code} << 29 | in << 26 | in,
                     0x1e5,
                     16 * s.width * s.height,
                     1,
                     s.output_address};
    Body body;
    body.write(0x4004, 0xe).write(0x5004, 0xe);
    write_dpu(body, out);
    const std::uint32_t widen = s.input == Precision::fp16 ? 8 : 0;
    write_operand_readers(body, out, in << 15 | 0x7800U | in << 5 | widen | 1);
    SampleTask task{body.take(), enable_element_wise, {}};
    set(task.body, 0x4070, s.operation);
    set(task.body, 0x5018, s.main_address);
    if (s.output == Precision::fp16 || s.output == Precision::bf16) {
        set(task.body, 0x4084, 0x10001);
    }
    if (s.operand) {
        const std::uint32_t size = s.operation >> 22 & 3;
        set(task.body, 0x5034, 0x40000000 | size << 2);
        set(task.body, 0x5038, s.operand_address);
        set(task.body, 0x5040, 16 * s.width * s.height);
    }
    return task;
}

SampleTask sample_pooling(const PoolingShape& s) {
    const std::uint32_t ow = (s.width + s.pad_left + s.pad_right - s.window_width) / s.stride_x + 1;
    const std::uint32_t oh = (s.height + s.pad_top + s.pad_bottom - s.window_height) / s.stride_y + 1;
    // 65536 / n as the bit pattern of a half; only the sizes that the tests use.
    static constexpr std::uint32_t reciprocals[] = {0, 0x10000, 0x7800, 0x7555, 0x7400};
    Body body;
    body.write(0x6004, 0xe).write(0x7004, 0xe);
    body.write(0x600c, s.width - 1).write(0x6010, s.height - 1).write(0x6014, s.channels - 1);
    body.write(0x6018, ow - 1).write(0x601c, oh - 1).write(0x6020, s.channels - 1);
    body.write(0x6024, 0x10 | s.method);
    body.write(0x6034,
               (s.stride_y - 1) << 20 | (s.stride_x - 1) << 16 | (s.window_height - 1) << 8 | (s.window_width - 1));
    body.write(0x6038, reciprocals[s.window_width]).write(0x603c, reciprocals[s.window_height]);
    body.write(0x6040, s.pad_bottom << 12 | s.pad_right << 8 | s.pad_top << 4 | s.pad_left);
    body.write(0x6044, s.method == 1 ? 0xfc00 : 0).write(0x6048, 0);
    body.write(0x6070, s.output_address).write(0x607c, 16 * ow * oh).write(0x6084, 2).write(0x60dc, 3);
    body.write(0x700c, s.width - 1).write(0x7010, s.height - 1).write(0x7014, s.channels - 1);
    body.write(0x701c, s.input_address).write(0x7024, 16 * s.width).write(0x7028, 16 * s.width * s.height);
    body.write(0x7030, 2);
    return {body.take(), enable_pooling, {}};
}

SampleProgram sample(SampleTask task) {
    SampleProgram program(std::vector<SampleTask>{std::move(task)});
    if (program.task().enable == enable_pooling) {
        program.input.interrupt_mask = interrupt_ppu;
    }
    return program;
}

}  // namespace npu::rockchip::test
