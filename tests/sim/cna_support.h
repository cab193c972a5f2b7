// What the tests of the convolution share: tensors with their own index arithmetic, a register list written out from the
// published recipes, a definition of convolution to compare with, and a sink that keeps what the array delivers.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "sim/accumulators.h"
#include "sim/convolver.h"
#include "sim/test_support.h"

namespace npu::sim::test {

enum class Lines {
    grouped,  // dense [surface][line][pixel], GROUP_LINE_OFF = 0
    single,   // dense [surface][line][pixel], GROUP_LINE_OFF = 1
    pixels,   // dense [line][pixel][channel], one pixel to a line of the plane: only with width 1
    spread,   // as single, with gaps between lines and between surfaces
};

struct ConvolutionCase {
    Precision input = Precision::int8;
    bool depthwise = false;
    std::uint32_t width = 1;
    std::uint32_t height = 1;
    std::uint32_t channels = 16;
    std::uint32_t kernels = 32;  // that have weights; with depthwise 1
    std::uint32_t kernel_width = 1;
    std::uint32_t kernel_height = 1;
    std::uint32_t stride_x = 1;
    std::uint32_t stride_y = 1;
    std::uint32_t dilation_x = 1;
    std::uint32_t dilation_y = 1;
    std::uint32_t pad_left = 0;
    std::uint32_t pad_top = 0;
    std::uint32_t output_width = 1;
    std::uint32_t output_height = 1;
    std::uint32_t output_channels = 32;
    std::uint32_t pad_value = 0;
    Lines lines = Lines::grouped;
    std::uint32_t features = 0x10000000;  // addresses
    std::uint32_t weights = 0x20000000;

    [[nodiscard]] unsigned bits() const { return rockchip::info(input).bits; }
    [[nodiscard]] bool floating() const { return rockchip::info(input).floating; }
    [[nodiscard]] std::uint32_t group() const;  // output channels that belong together
    [[nodiscard]] std::uint32_t pixels() const { return output_width * output_height; }
    // What a channel is padded with: the element's bits.
    [[nodiscard]] std::uint32_t padding(std::uint32_t channel) const;

    // Strides in atoms of 16 bytes: from line to line and from surface to surface, as the tensor really lies.
    [[nodiscard]] std::uint32_t line_pitch() const;
    [[nodiscard]] std::uint32_t surface_pitch() const;
    [[nodiscard]] std::uint64_t feature_bit(std::uint32_t y, std::uint32_t x, std::uint32_t c) const;
    [[nodiscard]] std::uint64_t feature_bytes() const;
    // Of kernel n; in depthwise mode n is ignored and c is the channel.
    [[nodiscard]] std::uint64_t weight_bit(std::uint32_t n, std::uint32_t ky, std::uint32_t kx, std::uint32_t c) const;
    [[nodiscard]] std::uint64_t weight_bytes() const;
};

// Output size that the padding on all four sides gives.
void set_output_size(ConvolutionCase& shape, std::uint32_t pad_right, std::uint32_t pad_bottom);

// A shape with random window, sizes and layout: two channel blocks or more, of which the last may be partial, and two
// kernel groups, of which the last may be partial.
ConvolutionCase random_case(Precision input, bool depthwise, std::mt19937& random);

// CNA and CORE registers.
Program convolution_program(const ConvolutionCase& shape);

// What the readers of CNA and CORE make of a program, with everything that they say.
struct ReadResult {
    Convolution convolution;
    bool refused = false;
    std::vector<Finding> findings;
};
ReadResult read_convolution(const Program& program, Precision input, Mode mode = Mode::strict);

// Element codes, as in Operands: [y][x][c] and [n][ky][kx][c] ([ky][kx][c] with depthwise).
struct Tensors {
    std::vector<std::uint32_t> features;
    std::vector<std::uint32_t> weights;
};
Tensors random_tensors(const ConvolutionCase& shape, std::mt19937& random, Range range);
void load_tensors(SparseMemory& memory, const ConvolutionCase& shape, const Tensors& tensors);

// Sums, [pixel][output channel]: integers exactly, floats as the array rounds them.
struct Sums {
    std::vector<std::int64_t> integers;
    std::vector<float> floats;
    std::vector<std::int64_t> windows;  // per pixel, or per pixel and channel with depthwise
    bool operator==(const Sums& other) const;
};
Sums expected_sums(const ConvolutionCase& shape, const Tensors& tensors);

// Keeps everything, and checks that each group comes once and in order.
class Collector final : public AccumulatorSink {
  public:
    explicit Collector(const Convolution& convolution);
    void take(const Accumulators& sums) override;

    Sums sums;

  private:
    std::uint32_t channels_;
    std::uint32_t next_channel_ = 0;
};

// Runs the convolution on `memory`.
Sums run_convolver(Convolver& convolver, const Convolution& convolution, const SparseMemory& memory);

}  // namespace npu::sim::test
