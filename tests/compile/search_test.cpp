#include "compile/search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compile/constraints.h"
#include "compile/support.h"

namespace npu::compile {
namespace {

using rockchip::Precision;
using rockchip::rk3588;

rockchip::Conditions nominal() { return rockchip::conditions(rk3588()); }

TEST(Search, plans_are_priced_and_the_cheapest_comes_first) {
    test::Random random(30);
    for (int round = 0; round < 300; ++round) {
        const MatmulShape shape{random.logarithmic(600), random.logarithmic(9000), random.logarithmic(12000),
                                random.coin() ? Precision::int8 : Precision::fp16, Precision::fp32};
        const auto plans = search_plans(shape, rk3588(), {}, nominal());
        ASSERT_TRUE(plans) << plans.error().message;
        EXPECT_TRUE(std::ranges::is_sorted(*plans, {}, &PricedPlan::seconds));
        for (const PricedPlan& priced : *plans) {
            EXPECT_EQ(priced.seconds, predicted_seconds(priced.plan, rk3588(), nominal()));
        }
        const auto best = best_plan(shape, rk3588(), {}, nominal());
        ASSERT_TRUE(best);
        EXPECT_EQ(best->plan, plans->front().plan);
    }
}

TEST(Search, narrow_and_wide_matrices_are_dealt_differently) {
    const MatmulShape narrow{300, 32, 1024, Precision::int8, Precision::int32};
    const MatmulShape wide{1, 9000, 1024, Precision::int8, Precision::int32};
    EXPECT_EQ(best_plan(narrow, rk3588(), {}, nominal())->plan.options.split, Split::rows);
    EXPECT_EQ(best_plan(wide, rk3588(), {}, nominal())->plan.options.split, Split::channels);
}

TEST(Search, reuse_is_worth_something_where_it_is_allowed) {
    const MatmulShape shape{600, 32, 8192, Precision::int8, Precision::int32};
    const PlanOptions one{.cores = 1};
    const PlanOptions reusing{.cores = 1, .weight_reuse = true, .data_reuse = true};
    EXPECT_LT(best_plan(shape, rk3588(), reusing, nominal())->seconds,
              best_plan(shape, rk3588(), one, nominal())->seconds);
}

TEST(Search, limits_of_k_that_are_taken_away_no_longer_cut_it) {
    const auto longest = [](std::uint32_t k, const char* without) {
        PlanOptions options;
        EXPECT_TRUE(take_away(without, options));
        const auto chip = with_limits_of_k(rk3588(), options);
        const auto tiles = k_tiles(k, Precision::int8, chip, options);
        // Plans with the default options agree: the chip itself no longer says so.
        EXPECT_EQ(tiles, k_tiles(k, Precision::int8, chip, {.limit_k = options.limit_k}));
        const std::uint32_t searched = best_max_k(1024, k, Precision::int8, Precision::int32, chip);
        EXPECT_TRUE(best_plan({4, 1024, k, Precision::int8, Precision::int32}, chip, {.max_k = searched}, nominal()));
        return std::ranges::max(tiles, {}, &KTile::k).k;
    };
    EXPECT_LE(longest(3840, ""), 3072U);
    EXPECT_EQ(longest(3840, "k-hazard"), 3840U);
    EXPECT_LE(longest(9216, ""), 8192U);
    EXPECT_EQ(longest(9216, "k-limit"), 9216U);
}

TEST(Search, how_k_is_cut_beats_every_single_alternative_for_a_long_prompt) {
    for (const Precision input : {Precision::int8, Precision::fp16}) {
        const Precision output = input == Precision::int8 ? Precision::int32 : Precision::fp32;
        for (const std::uint32_t k : {1536U, 3072U, 8192U, 8960U, 12288U}) {
            const std::uint32_t best = best_max_k(2048, k, input, output, rk3588());
            ASSERT_NE(best, 0U);
            const auto seconds = [&](std::uint32_t max_k) {
                return best_plan({512, 2048, k, input, output}, rk3588(), {.max_k = max_k}, nominal())->seconds;
            };
            for (const std::uint32_t other : {512U, 1024U, 2048U, 4096U, 8192U}) {
                EXPECT_LE(seconds(best), seconds(other) * (1 + 1e-12)) << info(input).name << " " << k << " " << other;
            }
        }
    }
    EXPECT_EQ(best_max_k(64, 0, Precision::int8, Precision::int32, rk3588()), 0U);
}

TEST(Search, no_plan_is_the_error_of_the_planner) {
    const auto plans = search_plans({0, 64, 64, Precision::int8, Precision::int32}, rk3588(), {}, nominal());
    ASSERT_FALSE(plans);
    EXPECT_NE(plans.error().message.find("M=0"), std::string::npos);
}

}  // namespace
}  // namespace npu::compile
