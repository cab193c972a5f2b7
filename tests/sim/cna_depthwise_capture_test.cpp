// The one public capture of this NPU with its tensors: an int8 depthwise convolution, 64 channels, 8 x 8, 3 x 3 window,
// stride 1, padding 1. Inputs, weights and biases come from the capture; so do the output bytes that everything is
// compared with. The bias, the output converter and the constants are worked out here, from the model file's scales, so
// that only the array is under test.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "sim/cna_support.h"

namespace npu::sim::test {
namespace {

#define NEED_TEST_DATA()                                                                            \
    if (std::getenv("NPU_TEST_DATA") == nullptr) {                                                  \
        GTEST_SKIP() << "*** NPU_TEST_DATA is not set: the captured convolution is NOT tested ***"; \
    }

std::vector<std::uint8_t> bytes_of(const char* name) {
    std::ifstream file(
        std::string(std::getenv("NPU_TEST_DATA")) + "/golden/depthwise-int8/mesa-" + name + "-000-000.bin",
        std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

constexpr std::uint32_t channels = 64;
constexpr std::uint32_t extent = 8;

ConvolutionCase captured_shape() {
    ConvolutionCase shape;
    shape.depthwise = true;
    shape.width = shape.height = shape.output_width = shape.output_height = extent;
    shape.channels = shape.output_channels = channels;
    shape.kernel_width = shape.kernel_height = 3;
    shape.pad_left = shape.pad_top = 1;
    shape.pad_value = 126;  // the driver's zero point of the input, minus 128
    shape.kernels = 1;
    return shape;
}

// The float multiplier as the driver cuts it: 15 bits, and one added.
struct Multiplier {
    std::int64_t scale;
    unsigned shift;
};
Multiplier multiplier() {
    const float real = 0.03657235F * 0.00079638F / 0.00691164F;
    const auto bits = std::bit_cast<std::uint32_t>(real);
    return {(((bits >> 9) & 0x7fff) + 1) | 1 << 14, 127 + 31 - 32 - (bits >> 23) + 16 - 1};
}

std::int8_t requantise(std::int64_t sum) {
    const Multiplier by = multiplier();
    const long double exact = std::ldexp(static_cast<long double>(sum * by.scale), -static_cast<int>(by.shift));
    return static_cast<std::int8_t>(std::clamp(std::nearbyint(exact) + (5 - 128), -128.0L, 127.0L));
}

// How many output bytes differ from the captured ones: on the border, and inside.
struct Differences {
    int border = 0;
    int interior = 0;
};
Differences compare(const Convolution& convolution, const Sums& sums, std::int64_t weight_zero) {
    const auto biases = bytes_of("biases");
    const auto outputs = bytes_of("output");
    EXPECT_EQ(biases.size(), 4 * channels);
    EXPECT_EQ(outputs.size(), 8192U);
    Differences differences;
    for (std::uint32_t p = 0; p < convolution.rows(); ++p) {
        for (std::uint32_t c = 0; c < channels; ++c) {
            std::int32_t bias = 0;
            std::memcpy(&bias, biases.data() + 4 * c, 4);
            const std::size_t at = p * channels + c;
            const std::int8_t got = requantise(sums.integers[at] + weight_zero * sums.windows[at] + bias);
            const auto want = static_cast<std::int8_t>(outputs[(c / 16 * extent * extent + p) * 16 + c % 16]);
            const std::uint32_t y = p / extent;
            const std::uint32_t x = p % extent;
            const bool inside = y > 0 && y < extent - 1 && x > 0 && x < extent - 1;
            (inside ? differences.interior : differences.border) += got != want ? 1 : 0;
        }
    }
    return differences;
}

struct Capture {
    SparseMemory memory;
    Convolution convolution;

    Capture() {
        const ConvolutionCase shape = captured_shape();
        const auto load = [&](std::uint32_t address, const std::vector<std::uint8_t>& bytes) {
            memory.map(address, bytes.size());
            std::memcpy(memory.at(address), bytes.data(), bytes.size());
        };
        load(shape.features, bytes_of("input"));
        load(shape.weights, bytes_of("weights"));
        Program program = convolution_program(shape);
        const ReadResult read = read_convolution(program, shape.input);
        EXPECT_FALSE(read.refused) << list_findings(read.findings);
        convolution = read.convolution;
        convolution.wants_window_sums = true;
    }

    Sums run() {
        Convolver convolver;
        return run_convolver(convolver, convolution, memory);
    }
};

TEST(CapturedDepthwise, ComesOutRightInsideAndOnTheBorders) {
    NEED_TEST_DATA();
    Capture capture;
    const Differences differences = compare(capture.convolution, capture.run(), 128);
    EXPECT_EQ(differences.interior, 0) << "of 2304";
    EXPECT_EQ(differences.border, 0) << "of 1792";
}

// What the capture tells apart.
TEST(CapturedDepthwise, TellsTheZeroPointOfTheWeightsAndWhatIsPaddedWith) {
    NEED_TEST_DATA();
    Capture capture;
    EXPECT_GT(compare(capture.convolution, capture.run(), 0).interior, 2000) << "without the window sums";
    for (const std::uint32_t pad : {0x7e7eU, 0x007dU, 0x007fU, 0U, 0xff7eU}) {
        capture.convolution.pad_value = pad;
        const Differences differences = compare(capture.convolution, capture.run(), 128);
        EXPECT_EQ(differences.interior, 0);
        EXPECT_GT(differences.border, 10) << std::hex << pad;
    }
    capture.convolution.pad_value = 0x7e7e;  // 126 in every channel: what others concluded from the register's value
    EXPECT_EQ(compare(capture.convolution, capture.run(), 128).border, 227);
}

}  // namespace
}  // namespace npu::sim::test
