#include "fuzz/recipes.h"

#include <algorithm>
#include <array>

namespace npu::fuzz {

namespace {

using rockchip::Precision;
using sim::test::Mapping;
using sim::test::Matmul;
using sim::test::Program;

struct Formats {
    Precision input;
    Precision output;
    std::uint32_t channels;  // K and N in multiples of these
    std::uint32_t kernels;
};
constexpr std::array formats{
    Formats{Precision::fp16, Precision::fp32, 32, 16},   Formats{Precision::fp16, Precision::fp16, 32, 16},
    Formats{Precision::int8, Precision::int32, 32, 32},  Formats{Precision::int8, Precision::int8, 32, 32},
    Formats{Precision::int8, Precision::fp32, 32, 32},   Formats{Precision::int4, Precision::int16, 32, 64},
    Formats{Precision::bf16, Precision::fp32, 32, 16},   Formats{Precision::tf32, Precision::fp32, 16, 16},
    Formats{Precision::int16, Precision::int32, 32, 16},
};
constexpr std::array mappings{Mapping::row_major, Mapping::native_wide, Mapping::native_tall, Mapping::panel8,
                              Mapping::plane};

Matmul draw_matmul(Input& input, const Places& places) {
    const Formats& format = formats[input.index(formats.size())];
    Matmul matmul;
    matmul.input = format.input;
    matmul.output = format.output;
    matmul.mapping = mappings[input.index(mappings.size())];
    matmul.m = matmul.mapping == Mapping::plane ? 10 : 8 * (1 + input.index(3));
    matmul.k = format.channels * (1 + input.index(3));
    matmul.n = format.kernels * (1 + input.index(2));
    matmul.a = places.features;
    matmul.b = places.weights;
    matmul.c = places.outputs;
    return matmul;
}

// The DPU's DMA, configured and off.
void add_rdma(Program& program, std::uint32_t width, std::uint32_t height, std::uint32_t channels) {
    program.set(0x5004, 0xe);
    program.set(0x500c, width - 1);
    program.set(0x5010, height - 1);
    program.set(0x5014, channels - 1);
    for (const std::uint16_t offset :
         {0x5018, 0x501c, 0x5020, 0x5028, 0x502c, 0x5038, 0x5040, 0x5048, 0x504c, 0x5064, 0x506c}) {
        program.set(offset, 0);
    }
    program.set(0x5034, 1);
    program.set(0x5044, 0x7810);
    program.set(0x5068, 0x01010101);
}

Recipe matmul_recipe(Input& input, const Places& places) {
    const Matmul matmul = draw_matmul(input, places);
    Recipe recipe{sim::test::matmul_program(matmul), 0x0d};
    if (matmul.output == Precision::int8) {
        recipe.registers.set(0x4080, input.draw<std::uint8_t>());
        recipe.registers.set(0x4084, 0x4000);
        recipe.registers.set(0x4088, 20);
    }
    if (input.index(2) == 1) {
        add_rdma(recipe.registers, recipe.registers.get(0x4030) + 1, recipe.registers.get(0x4034) + 1, matmul.n);
        recipe.enable = 0x1d;
    }
    return recipe;
}

// Adds or multiplies with a tensor on the way out (published for fp16), or per-channel bias, multiplier and ReLU.
Recipe fused_recipe(Input& input, const Places& places) {
    Matmul matmul;
    matmul.input = input.index(2) == 0 ? Precision::fp16 : Precision::int8;
    matmul.output = matmul.input == Precision::fp16 ? Precision::fp16 : Precision::int8;
    matmul.mapping = Mapping::native_tall;
    matmul.m = 16;
    matmul.k = 64;
    matmul.n = 32;
    matmul.a = places.features;
    matmul.b = places.weights;
    matmul.c = places.outputs;
    Recipe recipe{sim::test::matmul_program(matmul), 0x1d};
    Program& p = recipe.registers;
    add_rdma(p, 1, matmul.m, matmul.n);
    if (matmul.input == Precision::fp16) {
        constexpr std::array<std::uint32_t, 4> operations{0x108202c0, 0x108003c4, 0x108002c0, 0x108102c0};
        p.set(0x4070, operations[input.index(operations.size())]);
        p.set(0x4074, 0);
        p.set(0x4078, 1);
        p.set(0x407c, 0);
        p.set(0x5018, places.operands);
        p.set(0x5034, 0x40000008);
        p.set(0x5038, places.operands + 16 * matmul.m);
        for (const std::uint16_t offset : {0x5040, 0x504c, 0x506c}) {
            p.set(offset, matmul.m << 4);
        }
        p.set(0x5044, 0x17d40);
        return recipe;
    }
    constexpr std::array<std::uint32_t, 3> stages{0x20150, 0x20110, 0x42};  // bias from memory, with ReLU; multiply
    const std::uint32_t stage = stages[input.index(stages.size())];
    p.set(0x4040, stage);
    p.set(0x4044, input.draw<std::uint16_t>());
    p.set(0x4048, std::uint32_t{input.draw<std::uint16_t>()} << 16 | input.index(16) << 8);
    p.set(0x404c, 0);
    p.set(0x4080, 0);
    p.set(0x4084, 0x4000);
    p.set(0x4088, 20);
    p.set(0x501c, (stage & 0x100) != 0 ? 0x2 : 0);
    p.set(0x5020, places.operands);
    return recipe;
}

// A window over a plane, dense in memory; fp16 or int8.
Recipe convolution_recipe(Input& input, const Places& places) {
    const bool half = input.index(2) == 0;
    const bool depthwise = input.index(3) == 2;
    const std::uint32_t bytes = half ? 2 : 1;
    const std::uint32_t w = 6 + input.index(6);
    const std::uint32_t h = 4 * (2 + input.index(2));
    const std::uint32_t kw = 1 + input.index(3);
    const std::uint32_t kh = 1 + input.index(3);
    const std::uint32_t sx = 1 + input.index(2);
    const std::uint32_t sy = 1 + input.index(2);
    const std::uint32_t pad = input.index(std::min({2U, kw, kh}));  // every window must touch the plane
    const std::uint32_t channels = depthwise ? (half ? 32 : 64) : 32 * (1 + input.index(2));
    const std::uint32_t kernels = depthwise ? channels : (half ? 16 : 32);
    const std::uint32_t out_w = (w + 2 * pad - std::min(kw, w)) / sx + 1;
    const std::uint32_t out_h = (h + 2 * pad - std::min(kh, h)) / sy + 1;
    Matmul base;
    base.input = half ? Precision::fp16 : Precision::int8;
    base.output = half ? Precision::fp16 : (depthwise ? Precision::int8 : Precision::int32);
    base.m = 8;
    base.k = channels;
    base.n = kernels;
    base.mapping = Mapping::native_tall;
    base.a = places.features;
    base.b = places.weights;
    base.c = places.outputs;
    Recipe recipe{sim::test::matmul_program(base), 0x0d};
    Program& p = recipe.registers;
    const std::uint32_t row = w * channels * bytes;
    const std::uint32_t banks = (row * h + 32767) / 32768;
    const std::uint32_t kernel_bytes = kw * kh * channels * bytes;
    p.set(0x100c, p.get(0x100c) | (depthwise ? 3 : 0));
    p.set(0x1010, std::min(h + kh, 1023U) << 4);
    p.set(0x1014, sy << 3 | sx);
    p.set(0x1020, w << 16 | h);
    p.set(0x1028, out_w);
    p.set(0x102c, out_w * out_h);
    p.set(0x1030, depthwise ? kernel_bytes : kernel_bytes * kernels);
    p.set(0x1034, kernel_bytes);
    p.set(0x1038, kw << 24 | kh << 16 | (depthwise ? 1 : kernels));
    p.set(0x1040, (12 - banks) << 4 | banks);
    p.set(0x1044, (row + 63) / 64);
    p.set(0x1068, pad << 4 | pad);
    p.set(0x107c, 4 * w);
    p.set(0x1080, w * (h - 4));
    p.set(0x1084, w << 16 | h);
    const std::uint32_t corner = (out_h - 1) << 16 | (out_w - 1);
    p.set(0x3010, p.get(0x3010) | (depthwise ? 2 : 0));
    p.set(0x3014, corner);
    p.set(0x4024, out_w * out_h * 16);
    p.set(0x4030, out_w - 1);
    p.set(0x4034, out_h - 1);
    p.set(0x4038, 0);
    p.set(0x405c, corner);
    p.set(0x40c0, out_w * out_h * 16 * ((p.get(0x4050) >> 2 & 7) + 1));
    if (depthwise) {
        p.set(0x400c, p.get(0x400c) | 3 << 3);
        p.set(0x4084, half ? 0x10001 : 0x4000);
        p.set(0x4088, half ? 0 : 18);
    }
    if (input.index(2) == 1) {
        add_rdma(p, out_w, out_h, kernels);
        recipe.enable = 0x1d;
    }
    return recipe;
}

// The DPU alone: int32 or fp16 sums of two tensors, or fp16 through an activation table.
Recipe element_wise_recipe(Input& input, const Places& places) {
    const std::uint32_t rows = 16;
    const std::uint32_t channels = 32;
    const bool half = input.index(2) == 1;
    const bool table = half && input.index(2) == 1;
    Program p;
    p.set(0x4004, 0xe);
    p.set(0x5004, 0xe);
    p.set(0x400c, 0x1e5);
    p.set(0x4010, half ? 0x48000002 : 0x90000004);
    for (const std::uint16_t offset :
         {0x4014, 0x4044, 0x4048, 0x404c, 0x4054, 0x4064, 0x4068, 0x406c, 0x4074, 0x407c, 0x4080, 0x4088, 0x40c4}) {
        p.set(offset, 0);
    }
    p.set(0x4020, places.outputs);
    p.set(0x4024, rows * 16);
    p.set(0x4030, rows - 1);
    p.set(0x4034, 0);
    p.set(0x4038, 0);
    p.set(0x403c, (channels - 1) << 16 | (channels - 1));
    p.set(0x4040, 0x53);
    p.set(0x4050, 2);
    p.set(0x4058, channels - 1);
    p.set(0x405c, rows - 1);
    p.set(0x4060, table ? 0x20040 : 0x53);
    p.set(0x4070, table ? 0x300 : (half ? 0x108202c0 : 0x10c203c0));
    p.set(0x4078, 1);
    p.set(0x4084, half ? 0x10001 : 1);
    p.set(0x40c0, rows * 16);
    add_rdma(p, rows, 1, channels);
    p.set(0x5018, places.features);
    p.set(0x5034, table ? 1 : (half ? 0x40000008 : 0x4000000c));
    p.set(0x5038, places.operands);
    p.set(0x5040, rows * 16);
    p.set(0x5044, half ? 0x17849 : 0x27881);
    if (table) {
        p.set(0x4068, 0x68000000);
        p.set(0x4108, 0x68);
        p.set(0x410c, 0x50500);
        p.set(0x4110, 0xffffc000);
        p.set(0x4114, 0);
        p.set(0x4118, 0);
        p.set(0x411c, 0x4000);
        for (const std::uint16_t offset : {0x4120, 0x4124, 0x4128, 0x412c}) {
            p.set(offset, 0);
        }
    }
    return {p, 0x18};
}

Recipe pooling_recipe(Input& input, const Places& places) {
    const std::uint32_t w = 4 + input.index(8);
    const std::uint32_t h = 4 + input.index(8);
    const std::uint32_t channels = 8 * (1 + input.index(3));
    const std::uint32_t kernel = 1 + input.index(4);
    const std::uint32_t stride = 1 + input.index(2);
    const std::uint32_t method = input.index(3);
    const std::uint32_t out_w = (w - kernel) / stride + 1;
    const std::uint32_t out_h = (h - kernel) / stride + 1;
    constexpr std::array<std::uint32_t, 4> reciprocals{0x7c00, 0x7800, 0x7555, 0x7400};  // fp16 of 65536 / extent
    Program p;
    p.set(0x6004, 0xe);
    p.set(0x7004, 0xe);
    p.set(0x600c, w - 1);
    p.set(0x6010, h - 1);
    p.set(0x6014, channels - 1);
    p.set(0x6018, out_w - 1);
    p.set(0x601c, out_h - 1);
    p.set(0x6020, channels - 1);
    p.set(0x6024, 0x10 | method);
    p.set(0x6034, (stride - 1) << 20 | (stride - 1) << 16 | (kernel - 1) << 8 | (kernel - 1));
    p.set(0x6038, reciprocals[kernel - 1]);
    p.set(0x603c, reciprocals[kernel - 1]);
    p.set(0x6040, 0);
    p.set(0x6044, method == 0 ? 0 : 0xfc00);
    p.set(0x6048, 0);
    p.set(0x6070, places.outputs);
    p.set(0x607c, out_w * out_h * 16);
    p.set(0x6084, 2);
    p.set(0x60dc, 3);
    p.set(0x700c, w - 1);
    p.set(0x7010, h - 1);
    p.set(0x7014, channels - 1);
    p.set(0x701c, places.features);
    p.set(0x7024, w * 16);
    p.set(0x7028, w * h * 16);
    p.set(0x7030, 2);
    return {p, 0x60};
}

}  // namespace

Recipe draw_recipe(Input& input, const Places& places) {
    switch (input.index(8)) {
        default: return matmul_recipe(input, places);
        case 3: return fused_recipe(input, places);
        case 4:
        case 5: return convolution_recipe(input, places);
        case 6: return element_wise_recipe(input, places);
        case 7: return pooling_recipe(input, places);
    }
}

}  // namespace npu::fuzz
