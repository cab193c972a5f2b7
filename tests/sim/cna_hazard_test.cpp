// Mistakes in convolutions with windows and in depthwise ones, each sprung once: what is wrong must be refused or, where
// only a reading or no program stands behind it, said. (Those of matrix products are in refusal_test.cpp.)
#include <gtest/gtest.h>

#include "sim/cna_support.h"

namespace npu::sim::test {
namespace {

ConvolutionCase window() {
    ConvolutionCase shape;
    shape.width = 12, shape.height = 10, shape.channels = 64;
    shape.kernel_width = shape.kernel_height = 3;
    set_output_size(shape, 0, 0);
    return shape;
}

ConvolutionCase depthwise() {
    ConvolutionCase shape = window();
    shape.depthwise = true;
    shape.kernels = 1;
    shape.output_channels = 64;
    return shape;
}

struct Mistake {
    const char* name;
    Severity severity;
    std::vector<std::string> texts;
    std::vector<std::pair<std::uint16_t, std::uint32_t>> writes;
};

void expect_said(const ConvolutionCase& shape, const Mistake& mistake) {
    Program program = convolution_program(shape);
    ASSERT_FALSE(has_finding(read_convolution(program, shape.input).findings, mistake.severity, mistake.texts))
        << mistake.name << ": said of the sound program, too";
    for (const auto& [offset, value] : mistake.writes) {
        program.set(offset, value);
    }
    const ReadResult read = read_convolution(program, shape.input);
    EXPECT_EQ(read.refused, mistake.severity != Severity::warning) << mistake.name;
    EXPECT_TRUE(has_finding(read.findings, mistake.severity, mistake.texts)) << mistake.name << ":\n"
                                                                             << list_findings(read.findings);
}

TEST(WindowHazards, AreRefusedOrSaid) {
    const auto hang = Severity::hang;
    const auto warning = Severity::warning;
    const std::vector<Mistake> mistakes = {
        {"more lines than there are",
         hang,
         {"CORE.DATAOUT_SIZE_0", "does not touch"},
         {{0x3014, 10 << 16 | 9}, {0x102c, 110}}},
        {"columns",
         hang,
         {"CORE.DATAOUT_SIZE_0", "does not touch"},
         {{0x3014, 7 << 16 | 12}, {0x1028, 13}, {0x102c, 104}}},
        {"width of the CNA", hang, {"CNA.DATA_SIZE2", "disagree"}, {{0x1028, 9}}},
        {"pixels of the CNA", hang, {"CNA.DATA_SIZE3", "disagree"}, {{0x102c, 79}}},
        {"surface mode", hang, {"CNA.DATA_SIZE3", "disagree"}, {{0x102c, 1 << 22 | 80}}},
        {"missing kernel group", hang, {"CORE.DATAOUT_SIZE_1", "disagree", "feeds 32"}, {{0x3018, 63}}},
        {"bytes of a kernel", warning, {"CNA.WEIGHT_SIZE1", "should be 0x240"}, {{0x1034, 0x40}}},
        {"bytes of all kernels", warning, {"CNA.WEIGHT_SIZE0", "should be 0x4800"}, {{0x1030, 0x4000}}},
        {"part of a group", warning, {"CORE.DATAOUT_SIZE_1", "N = 24", "group"}, {{0x3018, 23}}},
        {"dilation", warning, {"CNA.CONV_CON3", "distance"}, {{0x1014, 1 << 16 | 9}}},
        {"dilation of lines", warning, {"CNA.CONV_CON3", "distance"}, {{0x1014, 1 << 21 | 9}}},
    };
    for (const Mistake& mistake : mistakes) {
        expect_said(window(), mistake);
    }
}

TEST(WindowHazards, OfSizesThatNoBufferHolds) {
    ConvolutionCase large = window();
    large.channels = 512;
    large.kernel_width = large.kernel_height = 9;
    set_output_size(large, 0, 0);
    const ReadResult group = read_convolution(convolution_program(large), large.input);
    EXPECT_FALSE(group.refused) << list_findings(group.findings);
    EXPECT_TRUE(has_finding(group.findings, Severity::warning, {"kernel group", "weight banks"}));
    EXPECT_TRUE(has_finding(group.findings, Severity::warning, {"41472 bytes per kernel"}));

    large.channels = 8192;
    const ReadResult wraps = read_convolution(convolution_program(large), large.input, Mode::lenient);
    EXPECT_TRUE(wraps.refused) << "in both modes";
    EXPECT_TRUE(has_finding(wraps.findings, Severity::corrupt, {"CNA.WEIGHT_SIZE1", "19 bits"}));

    ConvolutionCase plane = window();
    plane.width = plane.height = 2047, plane.channels = 32;
    set_output_size(plane, 0, 0);
    const ReadResult features = read_convolution(convolution_program(plane), plane.input, Mode::lenient);
    EXPECT_TRUE(features.refused);
    EXPECT_TRUE(has_finding(features.findings, Severity::unmodelled, {"CNA.DATA_SIZE0", "bytes of features"}));
    EXPECT_TRUE(has_finding(features.findings, Severity::unmodelled, {"CORE.DATAOUT_SIZE_0", "output pixels"}));

    ConvolutionCase row = window();
    row.input = Precision::tf32, row.width = row.height = row.output_width = row.output_height = 1;
    row.kernel_width = row.kernel_height = 1, row.channels = 8208, row.kernels = row.output_channels = 16;
    const ReadResult bytes = read_convolution(convolution_program(row), row.input);
    EXPECT_TRUE(bytes.refused);
    EXPECT_TRUE(has_finding(bytes.findings, Severity::corrupt, {"CNA.WEIGHT_SIZE1", "at most 32768"}));
    EXPECT_TRUE(has_finding(bytes.findings, Severity::warning, {"tf32", "4096"}));
}

TEST(WindowHazards, OfChannelsThatAreNotABlock) {
    ConvolutionCase shape = window();
    shape.input = Precision::fp16, shape.kernels = shape.output_channels = 16;
    for (const std::uint32_t channels : {8U, 40U, 48U}) {
        shape.channels = channels;
        const ReadResult read = read_convolution(convolution_program(shape), shape.input);
        EXPECT_FALSE(read.refused);
        EXPECT_TRUE(has_finding(read.findings, Severity::warning, {format("K = %u", channels), "weight block"}));
    }
    shape.input = Precision::int8, shape.kernels = shape.output_channels = 32, shape.channels = 48;
    EXPECT_FALSE(has_finding(read_convolution(convolution_program(shape), shape.input).findings, Severity::warning,
                             {"weight block"}));
}

TEST(DepthwiseHazards, AreRefusedOrSaid) {
    const std::vector<Mistake> mistakes = {
        {"several kernels", Severity::warning, {"CNA.WEIGHT_SIZE2", "one kernel"}, {{0x1038, 0x03030040}}},
        {"part of a group", Severity::warning, {"CORE.DATAOUT_SIZE_1", "N = 32", "64 kernels"}, {{0x3018, 31}}},
        {"more inputs than outputs",
         Severity::hang,
         {"CORE.DATAOUT_SIZE_1", "disagree", "feeds 128"},
         {{0x1024, 127 << 16 | 128}, {0x1088, 128}}},
        {"CNA alone", Severity::hang, {"CORE.MISC_CFG", "DW_EN"}, {{0x3010, 1}}},
    };
    for (const Mistake& mistake : mistakes) {
        expect_said(depthwise(), mistake);
    }
    expect_said(window(), {"CORE alone", Severity::hang, {"CORE.MISC_CFG", "DW_EN"}, {{0x3010, 3}}});
}

}  // namespace
}  // namespace npu::sim::test
