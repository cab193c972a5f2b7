// Rules about addresses. The reference here walks every pixel and channel of a task with the published address
// formulas and remembers each byte; the checker must agree on where operands begin and end.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "rockchip/sample_program.h"

namespace npu::rockchip::test {
namespace {

struct Range {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = std::numeric_limits<std::int64_t>::min();
    void add(std::int64_t atom_address) {
        begin = std::min(begin, atom_address);
        end = std::max(end, atom_address + 16);
    }
};

struct Strides {
    std::int64_t width, height;
    bool single_line;
    std::int64_t line, surface;                      // feature, atoms
    std::int64_t notch, surface_bytes, group_bytes;  // output
};

Range walk_features(const SampleShape& s, const Strides& t) {
    Range range;
    const std::int64_t per_atom = 128 / info(s.input).bits;
    for (std::int64_t h = 0; h < t.height; ++h) {
        for (std::int64_t w = 0; w < t.width; ++w) {
            for (std::int64_t c = 0; c < s.k; c += per_atom) {
                const std::int64_t block = c / per_atom;
                const std::int64_t atom =
                    t.single_line ? h * t.line + block * (t.width + t.surface) + w
                                  : (h >> 2) * t.line + block * (4 * t.width + t.surface) + (h & 3) * t.width + w;
                range.add(std::int64_t{s.feature_address} + 16 * atom);
            }
        }
    }
    return range;
}

// Every atom that is written, with how often.
std::multiset<std::int64_t> walk_output(const SampleShape& s, const Strides& t) {
    std::multiset<std::int64_t> atoms;
    const std::int64_t group = info(s.input).kernels_per_group;
    const std::int64_t per_atom = 128 / info(s.output).bits;
    for (std::int64_t n = 0; n < s.n; n += per_atom) {
        for (std::int64_t h = 0; h < t.height; ++h) {
            for (std::int64_t w = 0; w < t.width; ++w) {
                atoms.insert(s.output_address + n / group * t.group_bytes + n % group / per_atom * t.surface_bytes +
                             16 * (h * (t.width + t.notch) + w));
            }
        }
    }
    return atoms;
}

void set_strides(SampleProgram& program, const Strides& t) {
    program.set(0x100c, (program.value(0x100c) & ~(1U << 29)) | (t.single_line ? 1U << 29 : 0U));
    const auto plane = static_cast<std::uint32_t>(t.width << 16 | t.height);
    program.set(0x1020, plane).set(0x1084, plane);
    program.set(0x1028, static_cast<std::uint32_t>(t.width));
    program.set(0x102c, static_cast<std::uint32_t>(t.width * t.height));
    const auto last = static_cast<std::uint32_t>((t.height - 1) << 16 | (t.width - 1));
    program.set(0x3014, last).set(0x405c, last);
    program.set(0x4030, static_cast<std::uint32_t>(t.width - 1)).set(0x4034, static_cast<std::uint32_t>(t.height - 1));
    program.set(0x107c, static_cast<std::uint32_t>(t.line));
    program.set(0x1080, static_cast<std::uint32_t>(t.surface) & 0x0fffffffU);
    program.set(0x4038, static_cast<std::uint32_t>(t.notch << 16 | t.notch));
    program.set(0x4024, static_cast<std::uint32_t>(t.surface_bytes));
    program.set(0x40c0, static_cast<std::uint32_t>(t.group_bytes));
}

bool refused(const std::vector<Violation>& violations, std::uint16_t offset, const char* message) {
    return std::any_of(violations.begin(), violations.end(), [&](const Violation& violation) {
        return violation.severity == Severity::refuse && violation.offset == offset &&
               violation.message.find(message) != std::string::npos;
    });
}

class RandomStrides : public testing::Test {
  protected:
    // A plane of 1..10 x 1..10 pixels with strides that now and then are negative, short, or wide.
    void draw() {
        static constexpr struct {
            Precision input, output;
        } formats[] = {{Precision::fp16, Precision::fp32},  {Precision::fp16, Precision::fp16},
                       {Precision::int8, Precision::int32}, {Precision::int8, Precision::int8},
                       {Precision::int4, Precision::int16}, {Precision::tf32, Precision::fp32}};
        const auto& format = formats[below(std::ssize(formats))];
        shape = SampleShape{.input = format.input, .output = format.output};
        strides.width = 1 + below(10);
        strides.height = 1 + below(10);
        shape.m = static_cast<std::uint32_t>(strides.width * strides.height);
        shape.k = 32 * static_cast<std::uint32_t>(1 + below(5));
        shape.n = info(shape.input).kernels_per_group * static_cast<std::uint32_t>(1 + below(4));
        shape.feature_address = 0x00400000;
        strides.single_line = below(2) == 0;
        strides.line = below(2 * strides.width * shape.k / 16 + 4);
        strides.surface = below(200) - 100;
        strides.notch = below(3) == 0 ? 0 : below(20);
        const std::int64_t lines = 16 * strides.height * (strides.width + strides.notch);
        strides.surface_bytes = below(2) == 0 ? lines : 16 * (1 + below(lines / 8));
        strides.group_bytes = below(2) == 0 ? 8 * strides.surface_bytes : 16 * (1 + below(lines));
    }
    std::int64_t below(std::int64_t bound) {
        return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
    }

    std::mt19937_64 random{8};
    SampleShape shape;
    Strides strides{};
};

TEST_F(RandomStrides, feature_extents_are_exact_to_the_atom) {
    for (int round = 0; round < 3000; ++round) {
        draw();
        SampleProgram program = sample(shape);
        set_strides(program, strides);
        const Range range = walk_features(shape, strides);
        const auto reads = [&](std::int64_t begin, std::int64_t end) {
            program.buffers[0] = {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end - begin), false};
            return !refused(program.check(), 0x1070, "lies in no single buffer");
        };
        ASSERT_TRUE(reads(range.begin, range.end)) << messages(program.check());
        ASSERT_FALSE(reads(range.begin + 16, range.end));
        ASSERT_FALSE(reads(range.begin, range.end - 16));
    }
}

TEST_F(RandomStrides, output_extents_are_exact_and_overlapping_results_never_pass) {
    int overlapping = 0;
    int sound = 0;
    for (int round = 0; round < 3000; ++round) {
        draw();
        SampleProgram program = sample(shape);
        set_strides(program, strides);
        const std::multiset<std::int64_t> atoms = walk_output(shape, strides);
        const std::int64_t begin = *atoms.begin();
        const std::int64_t end = *atoms.rbegin() + 16;
        const auto writes = [&](std::int64_t from, std::int64_t to) {
            program.buffers[2] = {static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to - from), true};
            return !refused(program.check(), 0x4020, "lies in no single buffer");
        };
        ASSERT_FALSE(writes(begin + 16, end));
        ASSERT_FALSE(writes(begin, end - 16));
        ASSERT_TRUE(writes(begin, end)) << messages(program.check());
        const bool overlap = std::adjacent_find(atoms.begin(), atoms.end()) != atoms.end();
        const bool complaint = messages(program.check()).find("overlapping output") != std::string::npos;
        ASSERT_TRUE(complaint || !overlap) << messages(program.check());
        overlapping += overlap ? 1 : 0;
        sound += complaint ? 0 : 1;
    }
    EXPECT_GT(overlapping, 300);
    EXPECT_GT(sound, 300);
}

TEST(CheckerMemory, weights_end_exactly_where_their_bytes_end) {
    SampleProgram program = sample({.n = 48, .k = 96});
    program.buffers[1] = {0x00800000, 48 * 96 * 2, false};
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.buffers[1].bytes -= 1;
    EXPECT_TRUE(refused(program.check(), 0x1110, "weights take 0x800000 to 0x802400"));
}

TEST(CheckerMemory, a_buffer_that_the_device_may_not_write_takes_no_results) {
    SampleProgram program = sample({});
    program.buffers[2].writable = false;
    const std::vector<Violation> violations = program.check();
    EXPECT_TRUE(refused(violations, 0x4020, "in a buffer that the device may not write")) << messages(violations);
    EXPECT_STREQ(first_refusal(violations)->consequence, consequence::dma_error);
}

TEST(CheckerMemory, an_operand_across_two_adjacent_buffers_is_refused) {
    SampleProgram program = sample({});
    program.buffers[0] = {0x00100000, 0x200, false};
    program.buffers.push_back({0x00100200, 0x1000, false});
    EXPECT_TRUE(refused(program.check(), 0x1070, "lies in no single buffer"));
}

TEST(CheckerMemory, without_known_buffers_only_the_4_gib_bound_is_checked) {
    SampleProgram program = sample({});
    program.buffers.clear();
    EXPECT_TRUE(program.check().empty());
    program.set(0x4020, 0xffffff00);
    EXPECT_TRUE(refused(program.check(), 0x4020, "outside the 4 GiB")) << messages(program.check());
    program.set(0x4020, 0x01800000).set(0x1070, 0x10).set(0x1080, 0x0fffff00);
    EXPECT_TRUE(refused(program.check(), 0x1070, "outside the 4 GiB")) << messages(program.check());
}

TEST(CheckerMemory, results_over_features_weights_or_commands_are_refused) {
    SampleProgram program = sample({});
    for (CheckBuffer& buffer : program.buffers) {
        buffer.writable = true;
    }
    EXPECT_TRUE(refused(program.set(0x4020, 0x00100000).check(), 0x4020, "over its own features"));
    EXPECT_TRUE(refused(program.set(0x4020, 0x00800000 + 4080).check(), 0x4020, "over its own weights"));
    EXPECT_FALSE(refused(program.set(0x4020, 0x00800000 + 4096).check(), 0x4020, "over"));
    EXPECT_TRUE(refused(program.set(0x4020, 0x02000000).check(), 0x4020, "over the command words"));
    program.input.words_iova_known = false;
    EXPECT_FALSE(refused(program.check(), 0x4020, "over the command words"));
}

TEST(CheckerMemory, two_tasks_of_a_chain_that_write_the_same_place_are_refused) {
    const SampleShape shape{};
    SampleProgram program = SampleProgram({shape, shape});
    const std::vector<Violation> violations = program.check();
    ASSERT_EQ(violations.size(), 1U) << messages(violations);
    EXPECT_EQ(violations[0].task, 1U);
    EXPECT_TRUE(refused(violations, 0x4020, "written by an earlier task of the chain"));
}

// Two row tiles of one native matrix interleave: extents overlap, results do not.
TEST(CheckerMemory, interleaved_tiles_pass_and_one_that_is_an_atom_off_is_refused) {
    constexpr std::uint32_t rows = 24;
    const auto tile = [](std::uint32_t first, std::uint32_t count) {
        SampleShape shape{.m = count};
        shape.feature_address += 16 * first;
        shape.output_address += 16 * first;
        return shape;
    };
    SampleProgram program = SampleProgram({tile(0, 16), tile(16, 8)});
    for (const std::size_t position : {std::size_t{0}, std::size_t{1}}) {
        program.set(0x100c, 0x20000120, position).set(0x107c, rows, position);
        program.set(0x1080, rows - (position == 0 ? 16 : 8), position);
        program.set(0x4024, 16 * rows, position).set(0x40c0, 16 * rows * 4, position);
    }
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.set(0x4020, 0x01800000 + 16 * 15, 1);
    const std::vector<Violation> violations = program.check();
    EXPECT_TRUE(refused(violations, 0x4020, "the result at 0x18000f0 is written by an earlier task"))
        << messages(violations);
}

TEST(CheckerMemory, column_tiles_of_one_row_major_matrix_pass) {
    SampleShape left{.layout = SampleLayout::row_major};
    SampleShape right = left;
    right.weight_address += 32 * 64 * 2;
    right.output_address += 32 * 4;
    SampleProgram program = SampleProgram({left, right});
    for (const std::size_t position : {std::size_t{0}, std::size_t{1}}) {
        program.set(0x4038, 15 << 16 | 15, position);  // a row of 64 results
    }
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
    program.set(0x4038, 14 << 16 | 14, 1);
    EXPECT_NE(first_refusal(program.check()), nullptr);
}

}  // namespace
}  // namespace npu::rockchip::test
