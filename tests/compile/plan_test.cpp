#include "compile/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "compile/task.h"
#include "support.h"

namespace npu::compile {
namespace {

using rockchip::info;
using rockchip::rk3588;

constexpr std::uint32_t bank_bytes = 32768;
constexpr std::uint32_t all_banks = 12;

std::string describe(const MatmulShape& shape) {
    return format("M=%u N=%u K=%u %s", shape.m, shape.n, shape.k, info(shape.input).name);
}

// Everything a plan promises, checked without the planner's own functions; the first violation, or empty.
std::string violation(const Plan& plan) {
    const MatmulShape& shape = plan.shape;
    const std::uint32_t group = shape.input == Precision::int8 ? 32 : 16;
    const std::uint32_t input_bytes = shape.input == Precision::int8 ? 1 : 2;
    std::uint32_t k_end = 0;
    for (const KTile& tile : plan.k_tiles) {
        if (tile.k0 != k_end || tile.k == 0 || tile.k % 32 != 0 || tile.k > 8192)
            return "K tile";
        if (plan.options.avoid_k_hazard && tile.k > 3072 && tile.k < 4096)
            return "K tile in the hazard range";
        k_end += tile.k;
    }
    if (k_end != (shape.k + 31) / 32 * 32 || k_end != plan.padded_k)
        return "K tiles do not cover the padded K";
    if (plan.cores.empty() || plan.cores.size() > plan.options.cores)
        return "cores";

    // Exact cover: areas add up, and no two rectangles of a K tile overlap.
    std::vector<std::uint64_t> area(plan.k_tiles.size(), 0);
    std::vector<TaskTile> tiles;
    for (const std::vector<TaskTile>& tasks : plan.cores) {
        if (tasks.empty() || tasks.size() > 4095)
            return "tasks of a core";
        tiles.insert(tiles.end(), tasks.begin(), tasks.end());
    }
    for (const TaskTile& tile : tiles) {
        if (tile.k_tile >= plan.k_tiles.size())
            return "K tile index";
        if (tile.m == 0 || tile.m > 2047 || tile.m0 + tile.m > plan.padded_m)
            return "rows";
        if (plan.options.rows_in_fours && shape.m > 1 && (tile.m0 % 4 != 0 || tile.m % 4 != 0))
            return "rows not in fours";
        if (tile.n == 0 || tile.n > 8192 || tile.n % group != 0 || tile.n0 % group != 0)
            return "N slice";
        if (tile.n0 + tile.n > plan.padded_n)
            return "N slice outside";
        const std::uint64_t bytes = std::uint64_t{tile.m} * plan.k_tiles[tile.k_tile].k * input_bytes;
        std::uint64_t needed = (bytes + bank_bytes - 1) / bank_bytes;
        needed += shape.input == Precision::int8 && plan.options.int8_slack_bank ? 1 : 0;
        if (tile.data_banks < needed || tile.data_banks > 11)
            return "data banks";
        if (plan.options.two_weight_banks && tile.weight_banks < 2)
            return "weight banks";
        if (tile.data_banks + tile.weight_banks != all_banks)
            return "bank sum";
        if (plan.options.group_in_weight_banks &&
            group * plan.k_tiles[tile.k_tile].k * input_bytes > tile.weight_banks * bank_bytes)
            return "kernel group";
        area[tile.k_tile] += std::uint64_t{tile.m} * tile.n;
    }
    for (const std::uint64_t covered : area) {
        if (covered != std::uint64_t{plan.padded_m} * plan.padded_n)
            return "cover";
    }
    std::ranges::sort(tiles, {}, [](const TaskTile& t) { return std::tuple(t.k_tile, t.n0, t.m0); });
    for (std::size_t i = 1; i < tiles.size(); ++i) {  // neighbours in this order overlap if any two tiles do
        const TaskTile& a = tiles[i - 1];
        const TaskTile& b = tiles[i];
        if (a.k_tile == b.k_tile && a.n0 == b.n0 && (a.n != b.n || a.m0 + a.m != b.m0))
            return "overlap in M";
        if (a.k_tile == b.k_tile && a.n0 != b.n0 && a.n0 + a.n != b.n0)
            return "overlap in N";
    }
    return {};
}

MatmulShape random_shape(test::Random& random) {
    const bool byte = random.coin();
    return {random.logarithmic(4096), random.logarithmic(20000), random.logarithmic(20000),
            byte ? Precision::int8 : Precision::fp16, byte ? Precision::int32 : Precision::fp32};
}

TEST(Plan, tiles_of_random_shapes_cover_everything_once_and_fit_the_chip) {
    test::Random random(20);
    for (int round = 0; round < 6000; ++round) {
        const MatmulShape shape = random_shape(random);
        PlanOptions options;
        options.cores = random.between(1, 3);
        options.feature = random.coin() ? Arrangement::native : Arrangement::row_major;
        options.output = random.coin() ? Arrangement::native : Arrangement::row_major;
        options.int8_slack_bank = random.coin();
        options.avoid_k_hazard = random.coin();
        options.group_in_weight_banks = random.coin();
        options.weight_reuse = random.coin();
        options.data_reuse = random.coin();
        options.split = random.coin() ? Split::channels : Split::rows;
        options.order = random.coin() ? Order::rows_last : Order::channels_last;
        options.rows_in_fours = random.coin();
        const Result<Plan> plan = plan_matmul(shape, rk3588(), options);
        ASSERT_TRUE(plan) << describe(shape) << ": " << plan.error().message;
        ASSERT_EQ(violation(*plan), "") << describe(shape);
    }
}

TEST(Plan, the_check_of_plans_notices_broken_plans) {  // positive control
    const Result<Plan> plan = plan_matmul({300, 700, 5000, Precision::int8, Precision::int32}, rk3588(), {});
    ASSERT_TRUE(plan);
    ASSERT_EQ(violation(*plan), "");
    Plan broken = *plan;
    broken.cores[0].pop_back();
    EXPECT_EQ(violation(broken), "cover");
    broken = *plan;
    broken.cores[0][0].n0 += 16;
    EXPECT_EQ(violation(broken), "N slice");
    broken = *plan;
    --broken.cores[0][0].data_banks;
    EXPECT_EQ(violation(broken), "data banks");
    broken = *plan;
    broken.cores[0][0].m0 += 1;
    EXPECT_NE(violation(broken), "");
}

TEST(Plan, k_tiles_do_not_depend_on_the_number_of_rows_or_channels) {
    test::Random random(21);
    for (int round = 0; round < 1000; ++round) {
        MatmulShape shape = random_shape(random);
        const std::vector<KTile> expected = k_tiles(shape.k, shape.input, rk3588(), {});
        for (const std::uint32_t m : {1U, 7U, 4096U}) {
            shape.m = m;
            const Result<Plan> plan = plan_matmul(shape, rk3588(), {});
            ASSERT_TRUE(plan);
            EXPECT_EQ(plan->k_tiles, expected) << describe(shape);
        }
    }
}

TEST(Plan, k_is_one_tile_up_to_8192_except_between_3072_and_4096) {
    const auto sizes = [](std::uint32_t k, const PlanOptions& options = {}) {
        std::vector<std::uint32_t> list;
        for (const KTile& tile : k_tiles(k, Precision::fp16, rk3588(), options)) {
            list.push_back(tile.k);
        }
        return list;
    };
    using Sizes = std::vector<std::uint32_t>;
    EXPECT_EQ(sizes(1), Sizes({32}));
    EXPECT_EQ(sizes(3072), Sizes({3072}));
    EXPECT_EQ(sizes(3073), Sizes({1568, 1536}));
    EXPECT_EQ(sizes(3840), Sizes({1920, 1920}));
    EXPECT_EQ(sizes(4064), Sizes({2048, 2016}));
    EXPECT_EQ(sizes(4065), Sizes({4096}));  // padded to 4096, outside the range
    EXPECT_EQ(sizes(8192), Sizes({8192}));
    EXPECT_EQ(sizes(8193), Sizes({4128, 4096}));
    EXPECT_EQ(sizes(11008), Sizes({5504, 5504}));
    EXPECT_EQ(sizes(20000), Sizes({6688, 6656, 6656}));
    EXPECT_EQ(sizes(7000, {.max_k = 4000}), Sizes({2336, 2336, 2336}));  // two tiles of 3500 are in the range
    EXPECT_EQ(sizes(0), Sizes({}));
}

TEST(Plan, k_is_cut_so_that_a_kernel_group_leaves_room_for_rows) {
    EXPECT_EQ(k_tiles(8192, Precision::tf32, rk3588(), {}).size(), 2U);  // 8192 channels would take 16 banks
    EXPECT_EQ(k_tiles(8192, Precision::tf32, rk3588(), {.group_in_weight_banks = false}).size(), 1U);
    EXPECT_EQ(k_tiles(16384, Precision::int8, rk3588(), {.limit_k = false}).size(), 2U);
}

TEST(Plan, each_hazard_constraint_can_be_removed) {
    const ChipProfile& chip = rk3588();
    EXPECT_EQ(k_tiles(3840, Precision::int8, chip, {.avoid_k_hazard = false}).size(), 1U);

    const auto banks = [&](const MatmulShape& shape, const PlanOptions& options) {
        return plan_matmul(shape, chip, options)->cores[0][0];
    };
    const MatmulShape one_row{1, 64, 1024, Precision::int8, Precision::int32};
    EXPECT_EQ(banks(one_row, {}).data_banks, 2U);
    EXPECT_EQ(banks(one_row, {.int8_slack_bank = false}).data_banks, 1U);
    EXPECT_EQ(banks({1, 64, 1024, Precision::fp16, Precision::fp32}, {}).data_banks, 1U);

    // 8192 channels of int8: a kernel group takes 8 banks, which leaves 3 for features beside the spare one.
    EXPECT_EQ(max_rows(8192, Precision::int8, chip, {}), 12U);
    EXPECT_EQ(max_rows(8192, Precision::int8, chip, {.int8_slack_bank = false}), 16U);
    EXPECT_EQ(max_rows(8192, Precision::int8, chip, {.group_in_weight_banks = false}), 36U);
    EXPECT_EQ(max_rows(1024, Precision::fp16, chip, {.group_in_weight_banks = false, .two_weight_banks = false}), 176U);
    EXPECT_EQ(max_rows(1024, Precision::fp16, chip, {}), 160U);
    EXPECT_EQ(max_rows(32, Precision::int8, chip, {}), 2047U);  // the width field, not the banks
}

TEST(Plan, lines_padded_to_64_bytes_explain_the_published_int8_failures) {
    // A published sweep of the one-pixel-wide mapping found these (rows, K/32) to need one bank more than their
    // bytes fill, odd K/32 only, and no closed form. It is that a line begins at a 64-byte entry.
    const PlanOptions no_spare{.int8_slack_bank = false};
    struct Found {
        std::uint32_t rows;
        std::vector<std::uint32_t> blocks;
    };
    for (const Found& found : {Found{144, {7, 21, 35}}, Found{192, {5, 21, 37}}, Found{240, {17, 21, 25, 29}}}) {
        std::vector<std::uint32_t> predicted;
        for (std::uint32_t blocks = 1; blocks <= 40; ++blocks) {
            const std::uint32_t k = 32 * blocks;
            const std::uint32_t by_bytes = ceil_div(found.rows * k, bank_bytes);
            if (data_banks(1, found.rows, k, Precision::int8, rk3588(), no_spare) > by_bytes) {
                predicted.push_back(blocks);
            }
        }
        EXPECT_EQ(predicted, found.blocks) << found.rows << " rows";
    }
}

TEST(Plan, planning_is_deterministic) {
    test::Random random(22);
    for (int round = 0; round < 300; ++round) {
        const MatmulShape shape = random_shape(random);
        EXPECT_EQ(*plan_matmul(shape, rk3588(), {}), *plan_matmul(shape, rk3588(), {}));
    }
}

TEST(Plan, n_or_m_is_dealt_to_the_cores) {
    const Result<Plan> wide = plan_matmul({1, 4096, 2048, Precision::fp16, Precision::fp32}, rk3588(), {});
    ASSERT_EQ(wide->cores.size(), 3U);
    EXPECT_EQ(wide->cores[0][0].n, 86U * 16);
    EXPECT_EQ(wide->cores[1][0].n0, 86U * 16);
    const Result<Plan> narrow =
        plan_matmul({300, 16, 64, Precision::fp16, Precision::fp32}, rk3588(), {.split = Split::rows});
    ASSERT_EQ(narrow->cores.size(), 3U);
    EXPECT_EQ(narrow->cores[2][0].m0, 200U);
    EXPECT_EQ(narrow->cores[2][0].n, 16U);
    EXPECT_EQ(plan_matmul({1, 16, 64, Precision::fp16, Precision::fp32}, rk3588(), {})->cores.size(), 1U);
}

TEST(Plan, weight_reuse_marks_only_tasks_whose_weights_stayed) {
    const MatmulShape shape{600, 192, 1024, Precision::int8, Precision::int32};
    const PlanOptions one_core{.cores = 1, .weight_reuse = true};
    const Result<Plan> streaming = plan_matmul(shape, rk3588(), one_core);
    ASSERT_GT(streaming->cores[0].size(), 1U);
    EXPECT_FALSE(streaming->cores[0][0].weight_reuse);
    EXPECT_FALSE(streaming->cores[0][1].weight_reuse) << "192 KiB do not stay in so few banks";
    const MatmulShape small{600, 32, 1024, Precision::int8, Precision::int32};
    const Result<Plan> plan = plan_matmul(small, rk3588(), one_core);
    EXPECT_FALSE(plan->cores[0][0].weight_reuse);
    EXPECT_TRUE(plan->cores[0][1].weight_reuse);
    EXPECT_EQ(tile_work(*plan, plan->cores[0][1]).weight_bytes, 0U);
}

TEST(Plan, data_reuse_marks_only_tasks_of_the_same_rows) {
    const MatmulShape shape{300, 20000, 1024, Precision::int8, Precision::int32};
    const PlanOptions options{.cores = 1, .order = Order::channels_last, .data_reuse = true};
    const Result<Plan> plan = plan_matmul(shape, rk3588(), options);
    const std::vector<TaskTile>& tasks = plan->cores[0];
    ASSERT_EQ(tasks.size(), 6U);  // three slices of N, two blocks of rows
    const std::vector<bool> expected{false, true, true, false, true, true};
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        EXPECT_EQ(tasks[i].data_reuse, expected[i]) << i;
        EXPECT_EQ(tile_work(*plan, tasks[i]).feature_bytes == 0, expected[i]) << i;
    }
}

TEST(Plan, work_of_all_tasks_adds_up_to_the_matmul) {
    const Result<Plan> plan = plan_matmul({200, 1000, 9000, Precision::int8, Precision::int32}, rk3588(), {});
    std::uint64_t macs = 0;
    std::uint64_t output = 0;
    for (const std::vector<TaskTile>& tasks : plan->cores) {
        for (const TaskTile& tile : tasks) {
            const rockchip::TaskWork work = tile_work(*plan, tile);
            macs += work.macs;
            output += work.output_bytes;
            EXPECT_EQ(work.command_words, 112U);
        }
    }
    EXPECT_EQ(macs, 200ULL * 1024 * 9024);
    EXPECT_EQ(output, 200ULL * 1024 * 4 * 2);
    EXPECT_EQ(plan->output_bytes(), output);
    EXPECT_GT(predicted_seconds(*plan, rk3588(), rockchip::conditions(rk3588())), 0.0);
}

TEST(Plan, what_cannot_be_planned_is_an_error_with_the_bound) {
    const auto message = [](const MatmulShape& shape, const PlanOptions& options = {}) {
        const Result<Plan> plan = plan_matmul(shape, rk3588(), options);
        return plan ? std::string{"planned"} : plan.error().message;
    };
    const MatmulShape good{4, 64, 64, Precision::int8, Precision::int32};
    EXPECT_EQ(message(good), "planned");
    EXPECT_NE(message({0, 64, 64, Precision::int8, Precision::int32}).find("M=0"), std::string::npos);
    EXPECT_NE(message({4, 64, 64, Precision::int4, Precision::int32}).find("int4"), std::string::npos);
    EXPECT_NE(message({4, 64, 64, Precision::fp16, Precision::int32}).find("built are"), std::string::npos);
    EXPECT_NE(message(good, {.cores = 4}).find("has 3"), std::string::npos);
    EXPECT_NE(message({200000, 64, 8192, Precision::int8, Precision::int32}).find("4095"), std::string::npos);
    EXPECT_NE(message({4, 64, 64, Precision::tf32, Precision::fp16}).find("tf32"), std::string::npos);
    const PlanOptions rows_out{.output = Arrangement::row_major};
    EXPECT_NE(message({1, 40000, 64, Precision::fp16, Precision::fp32}, rows_out).find("8192"), std::string::npos);
}

}  // namespace
}  // namespace npu::compile
