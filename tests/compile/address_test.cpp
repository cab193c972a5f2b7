// Where the hardware looks, computed from the emitted registers with the published address formulas, against
// where the layouts put each element: for every mapping, for tiles of all three dimensions.
#include <gtest/gtest.h>

#include <map>

#include "compile/program.h"
#include "support.h"

namespace npu::compile {
namespace {

using rockchip::rk3588;

constexpr Addresses bases{.features = 0x1000000, .weights = 0x10000000, .output = 0x60000000, .program = 0x40};

struct Registers {
    std::map<std::uint16_t, std::uint32_t> values;
    std::int64_t at(std::uint16_t offset) const { return values.at(offset); }
};

Registers registers_of(const Program& program, const TaskEntry& task) {
    Registers registers;
    for (std::uint32_t word = 0; word < task.body_words; ++word) {
        const rockchip::Command command = rockchip::decode(program.words[task.word_offset + word]);
        registers.values[command.offset] = command.value;
    }
    return registers;
}

// Byte address that the fetch forms for channel c of the pixel that row m of the task becomes.
std::int64_t feature_address(const Registers& r, std::int64_t m, std::int64_t c) {
    const std::int64_t bytes = (r.at(0x100c) >> 4 & 7) == 2 ? 2 : 1;
    const std::int64_t width = r.at(0x1020) >> 16;
    const std::int64_t line = r.at(0x107c);
    const std::int64_t surface = r.at(0x1080) >= 1 << 27 ? r.at(0x1080) - (1 << 28) : r.at(0x1080);
    const std::int64_t s = c * bytes / 16;
    const std::int64_t h = m / width;
    const std::int64_t w = m % width;
    const bool single = (r.at(0x100c) >> 29 & 1) == 1;
    const std::int64_t atom =
        single ? h * line + s * (width + surface) + w : h / 4 * line + s * (4 * width + surface) + h % 4 * width + w;
    return r.at(0x1070) + 16 * atom + c * bytes % 16;
}

// Byte address that the DPU writes for output channel n of row m.
std::int64_t output_address(const Registers& r, std::int64_t m, std::int64_t n) {
    const std::int64_t group = (r.at(0x100c) >> 4 & 7) == 2 ? 16 : 32;
    const std::int64_t bytes = (r.at(0x4010) >> 29) == 2 ? 2 : 4;
    const std::int64_t per_atom = 16 / bytes;
    const std::int64_t width = r.at(0x4030) + 1;
    const std::int64_t pixel = m / width * (width + (r.at(0x4038) & 0x1fff)) + m % width;
    return r.at(0x4020) + n / group * r.at(0x40c0) + n % group / per_atom * r.at(0x4024) + 16 * pixel +
           n % per_atom * bytes;
}

TEST(Addresses, that_registers_describe_are_where_layouts_put_the_elements) {
    test::Random random(50);
    std::uint32_t tiled = 0;
    for (int round = 0; round < 150; ++round) {
        PlanOptions options;
        options.feature = random.coin() ? Arrangement::native : Arrangement::row_major;
        options.output = random.coin() ? Arrangement::native : Arrangement::row_major;
        const bool byte = random.coin();
        const std::uint32_t k = random.coin() ? random.logarithmic(12000) : random.between(3000, 20000);
        const MatmulShape shape{random.logarithmic(600), random.logarithmic(9000), k,
                                byte ? Precision::int8 : Precision::fp16,
                                random.coin() ? Precision::fp32 : (byte ? Precision::int32 : Precision::fp16)};
        const Result<Plan> plan = plan_matmul(shape, rk3588(), options);
        const Result<Program> program = build_program(*plan, bases, rk3588());
        ASSERT_TRUE(program) << program.error().message;
        tiled += plan->k_tiles.size() > 1 && plan->task_count() > 3 * plan->k_tiles.size() ? 1 : 0;
        const FeatureLayout features = plan->feature_layout();
        const OutputLayout output = plan->output_layout();
        std::size_t index = 0;
        for (const std::vector<TaskTile>& tasks : plan->cores) {
            for (const TaskTile& tile : tasks) {
                const Registers registers = registers_of(*program, program->tasks[index++]);
                const KTile& range = plan->k_tiles[tile.k_tile];
                const auto corner = [&](std::uint32_t size) {  // first, last or any
                    return random.coin() ? random.between(0, size - 1) : (random.coin() ? 0 : size - 1);
                };
                for (int element = 0; element < 40; ++element) {
                    const std::uint32_t m = corner(tile.m);
                    const std::uint32_t n = corner(tile.n);
                    const std::uint32_t c = corner(range.k);
                    ASSERT_EQ(feature_address(registers, m, c),
                              static_cast<std::int64_t>(bases.features + features.offset(tile.m0 + m, range.k0 + c)));
                    ASSERT_EQ(output_address(registers, m, n),
                              static_cast<std::int64_t>(bases.output + plan->output_offset(tile.k_tile) +
                                                        output.offset(tile.m0 + m, tile.n0 + n)));
                }
            }
        }
    }
    EXPECT_GT(tiled, 5U) << "too few plans were tiled in K and M or N";
}

TEST(Addresses, that_registers_describe_differ_for_a_wrong_stride) {  // positive control
    const Result<Plan> plan = plan_matmul({100, 64, 4096, Precision::int8, Precision::int32}, rk3588(), {.cores = 1});
    const Result<Program> program = build_program(*plan, bases, rk3588());
    Registers registers = registers_of(*program, program->tasks[1]);
    const std::int64_t feature = feature_address(registers, 3, 100);
    const std::int64_t output = output_address(registers, 3, 60);
    ++registers.values[0x1080];
    registers.values[0x4024] += 16;
    EXPECT_NE(feature_address(registers, 3, 100), feature);
    EXPECT_NE(output_address(registers, 3, 60), output);
}

TEST(Addresses, of_an_image_tile_are_dense_lines_of_the_whole_image) {
    TaskSpec spec{.mapping = Mapping::plane,
                  .input = Precision::fp16,
                  .output = Precision::fp16,
                  .m = 6 * 7,
                  .n = 32,
                  .k = 64,
                  .full_m = 9 * 7,
                  .plane_width = 7,
                  .data_banks = 1,
                  .weight_banks = 11};
    Program program;
    const std::vector<std::vector<TaskSpec>> cores{{spec}};
    program = *link_program(cores, {}, rk3588());
    const Registers registers = registers_of(program, program.tasks[0]);
    const FeatureLayout features{Precision::fp16, Arrangement::native, 63, 64};
    for (std::uint32_t m = 0; m < spec.m; ++m) {
        for (const std::uint32_t c : {0U, 7U, 8U, 63U}) {
            EXPECT_EQ(feature_address(registers, m, c), static_cast<std::int64_t>(features.offset(m, c)));
            EXPECT_EQ(output_address(registers, m, c % 32),  // surfaces of the output are rounded to four pixels
                      static_cast<std::int64_t>((c % 32 / 8 * 64 + m) * 16 + c % 8 * 2));
        }
    }
}

}  // namespace
}  // namespace npu::compile
