// The one public capture with its tensors, as a whole program: an int8 depthwise convolution from features to output
// bytes, with bias records, weight zero point, requantisation and the depthwise writer. Register values are worked out
// here from the published recipe and the model file's scales.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "sim/cna_support.h"
#include "sim/dpu_support.h"

namespace npu::sim::test {
namespace {

constexpr std::uint32_t channels = 64;
constexpr std::uint32_t extent = 8;
constexpr std::uint32_t plane = extent * extent;
constexpr std::uint32_t list = 0x1000;
constexpr std::uint32_t biases = 0x40000000;
constexpr std::uint32_t outputs = 0x50000000;

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

Program captured_program() {
    ConvolutionCase shape;
    shape.depthwise = true;
    shape.width = shape.height = shape.output_width = shape.output_height = extent;
    shape.channels = shape.output_channels = channels;
    shape.kernel_width = shape.kernel_height = 3;
    shape.pad_left = shape.pad_top = 1;
    shape.pad_value = 126;
    shape.kernels = 1;
    Program p = convolution_program(shape);
    p.set(0x4004, 0xe);
    p.set(0x400c, 0x1fc);
    p.set(0x4010, 0);
    p.set(0x4020, outputs);
    p.set(0x4024, plane * 16);
    p.set(0x4030, extent - 1);
    p.set(0x4034, extent - 1);
    p.set(0x4038, 0);
    p.set(0x403c, (channels - 1) << 16 | (channels - 1));
    p.set(0x4040, 0x20150);
    p.set(0x4044, 0);
    p.set(0x4048, 0);
    p.set(0x404c, 0);
    p.set(0x4050, 0x36c);
    p.set(0x4054, 0x80);
    p.set(0x4058, channels - 1);
    p.set(0x405c, (extent - 1) << 16 | (extent - 1));
    p.set(0x4060, 0x53);
    p.set(0x4070, 0x383);
    p.set(0x4078, 1);
    const float real = 0.03657235F * 0.00079638F / 0.00691164F;
    const auto bits = std::bit_cast<std::uint32_t>(real);
    p.set(0x4080, static_cast<std::uint32_t>(5 - 128));
    p.set(0x4084, (((bits >> 9) & 0x7fff) + 1) | 1 << 14);
    p.set(0x4088, 127 + 31 - 32 - (bits >> 23) + 16 - 1);
    p.set(0x40c0, plane * 16 * 4);
    p.set(0x40c4, 0);
    add_idle_rdma(p, extent, extent, channels);
    p.set(0x501c, 2);
    p.set(0x5020, biases);
    p.set(0x5044, 0x7816);
    return p;
}

struct Replay {
    SparseMemory memory;
    KickResult result;

    explicit Replay(const Program& program) {
        const auto load = [&](std::uint32_t address, const std::vector<std::uint8_t>& bytes) {
            memory.map(address, bytes.size());
            std::memcpy(memory.at(address), bytes.data(), bytes.size());
        };
        load(0x10000000, bytes_of("input"));
        load(0x20000000, bytes_of("weights"));
        load(biases, bytes_of("biases"));
        memory.map(outputs, plane * channels);
        const auto words = program.words(0x1d);
        memory.map(list, words.size() * 8);
        write_words(memory, list, words);
        Core core({});
        result = core.run(kick_at(list, words.size()), memory);
    }
    // Bytes that differ from the captured ones.
    [[nodiscard]] int differences() const {
        const auto wanted = bytes_of("output");
        int different = 0;
        for (std::uint32_t i = 0; i < plane * channels; ++i) {
            different += static_cast<std::uint8_t>(*memory.at(outputs + i)) != wanted[i] ? 1 : 0;
        }
        return different;
    }
};

TEST(DpuCapture, ReproducesTheCapturedOutputBytes) {
    NEED_TEST_DATA();
    const Replay run(captured_program());
    ASSERT_TRUE(run.result.finished) << list_findings(run.result.findings);
    EXPECT_EQ(run.differences(), 0) << "of " << plane * channels;
    ASSERT_EQ(run.result.work.size(), 1U);
    EXPECT_EQ(run.result.work[0].operand_bytes, channels * 4);
}

TEST(DpuCapture, TellsEachPartOfTheOutputStageApart) {
    NEED_TEST_DATA();
    const auto differences = [](std::uint16_t offset, std::uint32_t value) {
        Program p = captured_program();
        p.set(offset, value);
        if (offset == 0x4040) {
            p.set(0x501c, 0);
        }
        const Replay run(p);
        EXPECT_TRUE(run.result.finished) << list_findings(run.result.findings);
        return run.differences();
    };
    EXPECT_GT(differences(0x4040, 0x53), 1000) << "without the bias";
    EXPECT_GT(differences(0x4054, 0), 1000) << "without the zero point";
    EXPECT_GT(differences(0x4054, 0xff80), 1000) << "with its negative";
    EXPECT_GT(differences(0x4080, static_cast<std::uint32_t>(4 - 128)), 1000) << "another output zero point";
}

}  // namespace
}  // namespace npu::sim::test
