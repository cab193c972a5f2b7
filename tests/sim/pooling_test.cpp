// Pooling programs (PPU + PPU_RDMA, enable 0x60) against a reference that walks the windows in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float_bits.h"
#include "rockchip/command.h"
#include "sim/pooling.h"
#include "sim/test_support.h"

namespace npu::sim::test {
namespace {

constexpr std::uint32_t list = 0x10000;

struct Shape {
    std::uint32_t width, height, channels;
    std::uint32_t kernel_x, kernel_y, stride_x, stride_y;
    std::uint32_t pad_left, pad_top, pad_right, pad_bottom;
    std::uint32_t method;  // 0 average, 1 maximum, 2 minimum
    std::uint32_t notch = 0;

    [[nodiscard]] std::uint32_t out_width() const { return (width + pad_left + pad_right - kernel_x) / stride_x + 1; }
    [[nodiscard]] std::uint32_t out_height() const { return (height + pad_top + pad_bottom - kernel_y) / stride_y + 1; }
};

// The fp16 pattern of 65536 / extent, as the vendor's compiler writes it.
std::uint32_t reciprocal(std::uint32_t extent) {
    return extent == 1 ? 0x7c00U : float_to_half(65536.0F / static_cast<float>(extent));
}

class PoolingTask : public testing::Test {
  protected:
    static constexpr std::uint32_t source = 0x100000;
    static constexpr std::uint32_t destination = 0x800000;
    static constexpr std::uint16_t pad_value = 0xfc00;  // -infinity: right for a maximum

    Program program(const Shape& s) {
        line_bytes_ = (s.width + 3) * 16;
        surface_bytes_ = line_bytes_ * s.height + 64;
        out_line_bytes_ = (s.out_width() + s.notch) * 16;
        out_surface_bytes_ = out_line_bytes_ * s.out_height() + 32;
        Program p;
        p.set(0x6004, 0xe);
        p.set(0x7004, 0xe);
        p.set(0x600c, s.width - 1);
        p.set(0x6010, s.height - 1);
        p.set(0x6014, s.channels - 1);
        p.set(0x6018, s.out_width() - 1);
        p.set(0x601c, s.out_height() - 1);
        p.set(0x6020, s.channels - 1);
        p.set(0x6024, s.notch << 16 | 0x10 | s.method);
        p.set(0x6034, (s.stride_y - 1) << 20 | (s.stride_x - 1) << 16 | (s.kernel_y - 1) << 8 | (s.kernel_x - 1));
        p.set(0x6038, reciprocal(s.kernel_x));
        p.set(0x603c, reciprocal(s.kernel_y));
        p.set(0x6040, s.pad_bottom << 12 | s.pad_right << 8 | s.pad_top << 4 | s.pad_left);
        p.set(0x6044, s.method == 0 ? 0 : pad_value);
        p.set(0x6048, 0);
        p.set(0x6070, destination);
        p.set(0x607c, out_surface_bytes_);
        p.set(0x6084, 2);
        p.set(0x60dc, 3);
        p.set(0x700c, s.width - 1);
        p.set(0x7010, s.height - 1);
        p.set(0x7014, s.channels - 1);
        p.set(0x701c, source);
        p.set(0x7024, line_bytes_);
        p.set(0x7028, surface_bytes_);
        p.set(0x7030, 2);
        return p;
    }

    KickResult run(const Program& p, std::uint32_t enable = 0x60) {
        const auto words = p.words(enable);
        memory_.map(list, words.size() * 8);
        write_words(memory_, list, words);
        return core_.run(kick_at(list, words.size()), memory_);
    }

    void fill(const Shape& s, std::uint32_t seed) {
        std::mt19937 random(seed);
        const std::uint32_t surfaces = (s.channels + 7) / 8;
        memory_.map(source, std::uint64_t{surface_bytes_} * surfaces);
        memory_.map(destination, std::uint64_t{out_surface_bytes_} * surfaces);
        memory_.fill(destination, std::byte{0xee}, std::uint64_t{out_surface_bytes_} * surfaces);
        const auto codes = random_codes(Precision::fp16, std::size_t{surface_bytes_} * surfaces / 2, random,
                                        s.method == 0 ? Range::moderate : Range::full);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            write_element(memory_.at(source), i * 16, 16, codes[i]);
        }
    }

    [[nodiscard]] std::uint16_t input(const Shape& s, std::int64_t x, std::int64_t y, std::uint32_t c) const {
        if (x < 0 || y < 0 || x >= s.width || y >= s.height) {
            return s.method == 0 ? 0 : pad_value;
        }
        std::uint16_t value;
        std::memcpy(&value,
                    memory_.at(source) + c / 8 * surface_bytes_ + static_cast<std::uint64_t>(y) * line_bytes_ +
                        static_cast<std::uint64_t>(x) * 16 + c % 8 * 2,
                    2);
        return value;
    }
    [[nodiscard]] std::uint16_t output(std::uint32_t x, std::uint32_t y, std::uint32_t c) const {
        std::uint16_t value;
        std::memcpy(&value,
                    memory_.at(destination) + c / 8 * out_surface_bytes_ + y * out_line_bytes_ + x * 16 + c % 8 * 2, 2);
        return value;
    }

    // Outputs that differ from the reference; averages may differ by `tolerance` of their size.
    std::uint32_t differences(const Shape& s, double tolerance) const {
        std::uint32_t wrong = 0;
        for (std::uint32_t c = 0; c < s.channels; ++c) {
            for (std::uint32_t y = 0; y < s.out_height(); ++y) {
                for (std::uint32_t x = 0; x < s.out_width(); ++x) {
                    double sum = 0;
                    double low = std::numeric_limits<double>::infinity();
                    double high = -low;
                    for (std::uint32_t i = 0; i < s.kernel_x * s.kernel_y; ++i) {
                        const double value =
                            half_to_float(input(s, std::int64_t{x} * s.stride_x + i % s.kernel_x - s.pad_left,
                                                std::int64_t{y} * s.stride_y + i / s.kernel_x - s.pad_top, c));
                        sum += value;
                        low = std::min(low, value);
                        high = std::max(high, value);
                    }
                    const double mean = sum / (s.kernel_x * s.kernel_y);
                    const double wanted = s.method == 0 ? mean : s.method == 1 ? high : low;
                    const double got = half_to_float(output(x, y, c));
                    wrong += std::abs(got - wanted) <= tolerance * std::abs(wanted) + (tolerance > 0 ? 1e-6 : 0) ||
                                     got == wanted
                                 ? 0
                                 : 1;
                }
            }
        }
        return wrong;
    }

    SparseMemory memory_;
    Core core_{CoreOptions{}};
    std::uint32_t line_bytes_ = 0;
    std::uint32_t surface_bytes_ = 0;
    std::uint32_t out_line_bytes_ = 0;
    std::uint32_t out_surface_bytes_ = 0;
};

const Shape shapes[] = {
    {9, 7, 16, 2, 2, 2, 2, 0, 0, 0, 0, 1},      {9, 7, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {16, 16, 8, 16, 16, 16, 16, 0, 0, 0, 0, 0}, {11, 5, 32, 3, 2, 2, 1, 1, 0, 1, 0, 0, 5},
    {13, 6, 20, 5, 1, 3, 2, 2, 0, 0, 0, 1, 2},  {7, 9, 8, 4, 4, 1, 3, 7, 7, 3, 3, 1},
};

TEST_F(PoolingTask, TakesTheMaximumMinimumAndAverageOfEachWindow) {
    for (Shape shape : shapes) {
        for (const std::uint32_t method : {0U, 1U, 2U}) {
            if (method == 2 && shape.pad_left + shape.pad_top + shape.pad_right + shape.pad_bottom != 0) {
                continue;  // -infinity would win everywhere
            }
            shape.method = method;
            const Program p = program(shape);
            fill(shape, method + shape.width);
            const KickResult result = run(p);
            ASSERT_TRUE(result.finished) << list_findings(result.findings);
            EXPECT_EQ(result.interrupts & 0xc00U, result.interrupts);
            EXPECT_NE(result.interrupts, 0U);
            // An average carries the rounding of two fp16 reciprocals and of the result.
            EXPECT_EQ(differences(shape, method == 0 ? 0x1p-9 : 0), 0U) << shape.width << " method " << method;
            shape.method = method == 0 ? 1 : 0;  // positive control: it was this method and no other
            EXPECT_GT(differences(shape, 0x1p-9), 0U);
        }
    }
}

TEST_F(PoolingTask, CountsPaddingInAnAverage) {
    Shape shape{4, 4, 8, 2, 2, 2, 2, 1, 1, 1, 1, 0};
    const Program p = program(shape);
    fill(shape, 1);
    for (std::uint32_t i = 0; i < surface_bytes_ / 2; ++i) {
        write_element(memory_.at(source), i * 16, 16, 0x4400);  // 4.0
    }
    ASSERT_TRUE(run(p).finished);
    EXPECT_EQ(half_to_float(output(0, 0, 3)), 1.0F);  // one of four
    EXPECT_EQ(half_to_float(output(1, 0, 3)), 2.0F);
    EXPECT_EQ(half_to_float(output(1, 1, 3)), 4.0F);
}

TEST_F(PoolingTask, LeavesTheGapsBetweenOutputLinesAlone) {
    const Shape shape = shapes[3];
    const Program p = program(shape);
    fill(shape, 1);
    ASSERT_TRUE(run(p).finished);
    for (std::uint32_t i = 0; i < shape.notch * 16; ++i) {
        EXPECT_EQ(memory_.at(destination)[shape.out_width() * 16 + i], std::byte{0xee});
    }
}

TEST_F(PoolingTask, ReadsTheReciprocalAsAnIntegerOnRequest) {
    Program p = program(shapes[2]);
    RegisterState state(1);
    for (const auto& word : p.words(0x60)) {
        const rockchip::Command command = rockchip::decode(word);
        if (command.target >= rockchip::target::ppu) {
            state.block(block_of(command.offset)).write(command.offset, command.value);
        }
    }
    RegisterReader reader(state);
    Judge judge(0, 0);
    RegisterCheck check(reader, judge);
    EXPECT_EQ(read_pooling(check, ReciprocalFormat::fp16).reciprocal, 1.0 / 256);
    EXPECT_EQ(read_pooling(check, ReciprocalFormat::integer).reciprocal, (0x6c00 / 65536.0) * (0x6c00 / 65536.0));
}

TEST_F(PoolingTask, RefusesWhatSiliconDoesNotSurvive) {
    struct Case {
        const char* what;
        Severity severity;
        std::vector<std::string> texts;
        std::uint16_t offset;
        std::uint32_t value;
    };
    const Case cases[] = {
        {"int8", Severity::corrupt, {"PPU.DATA_FORMAT", "fp16"}, 0x6084, 0},
        {"method 3", Severity::unmodelled, {"PPU.OPERATION_MODE_CFG", "method 3"}, 0x6024, 0x13},
        {"not fed", Severity::hang, {"PPU.OPERATION_MODE_CFG", "FLYING_MODE"}, 0x6024, 0x01},
        {"index output", Severity::unmodelled, {"INDEX_EN"}, 0x6024, 1U << 30 | 0x11},
        {"wide windows", Severity::corrupt, {"PPU.POOLING_KERNEL_CFG", "beyond"}, 0x6034, 0x00110f0f},
        {"disagreement", Severity::hang, {"PPU_RDMA.CUBE_IN_WIDTH"}, 0x700c, 3},
        {"largest cube", Severity::corrupt, {"PPU.DATA_CUBE_IN_CHANNEL", "largest"}, 0x6014, 0x1fff},
        {"no address", Severity::hang, {"DMA error", "PPU_RDMA.SRC_BASE_ADDR"}, 0x701c, 0x40000000},
        {"nowhere to write", Severity::hang, {"DMA error", "PPU.DST_BASE_ADDR"}, 0x6070, 0x40000000},
        {"not armed", Severity::corrupt, {"PPU.S_POINTER"}, 0x6004, 1},
    };
    for (const Case& c : cases) {
        Core fresh{CoreOptions{}};
        core_ = std::move(fresh);
        Program p = program(shapes[0]);
        fill(shapes[0], 1);
        ASSERT_TRUE(run(p).finished);  // positive control
        Core again{CoreOptions{}};
        core_ = std::move(again);
        p.set(c.offset, c.value);
        const KickResult result = run(p);
        EXPECT_FALSE(result.finished) << c.what;
        EXPECT_TRUE(has_finding(result.findings, c.severity, c.texts)) << c.what << list_findings(result.findings);
    }
}

TEST_F(PoolingTask, IsTheBarrierTaskOfVendorPrograms) {
    // A maximum over a window of one pixel, 32 channels, whatever their format.
    const Shape shape{1, 1, 32, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    Program p = program(shape);
    p.set(0x6084, 0);
    p.set(0x7030, 0);
    fill(shape, 3);
    const KickResult result = run(p);
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    EXPECT_EQ(output(0, 0, 31), input(shape, 0, 0, 31));
}

}  // namespace
}  // namespace npu::sim::test
