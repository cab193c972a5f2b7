// Who multiplies a small batch: the predicted race between host and device, against a count of our own.
#include "gemm/crossover.h"

#include "gemm/engine_support.h"

namespace npu::gemm {
namespace {

class Crossovers : public EngineTest {
  protected:
    std::uint32_t rows(const std::vector<WeightsShape>& shapes) { return Crossover().rows(*device_, shapes, {}); }
};

const std::vector<WeightsShape> small{{288, 288, Pipeline::int8}};
const std::vector<WeightsShape> large{{8960, 1536, Pipeline::int8}, {8960, 1536, Pipeline::int8}};

TEST_F(Crossovers, TheHostReadsWeightsOnceAndMultipliesEveryRow) {
    open();
    const auto one = race(*device_, large, 1, {});
    const auto many = race(*device_, large, 100, {});
    ASSERT_TRUE(one && many);
    EXPECT_NEAR(one->host, 2.0 * 8960 * 1536 / 23e9, 1e-5);
    EXPECT_NEAR(many->host, 100 * 2.0 * 8960 * 1536 / 55e9, 1e-4);
    EXPECT_GT(one->device, 55e-6 + 2.0 * 8960 * 1536 / 29e9) << "a job and its bytes";
    EXPECT_GT(many->device, one->device);
}

TEST_F(Crossovers, TheFewestRowsAreThoseWhereTheDeviceWins) {
    open();
    for (const auto& shapes : {small, large}) {
        const std::uint32_t fewest = rows(shapes);
        ASSERT_LE(fewest, most_host_rows);
        const auto there = race(*device_, shapes, fewest, {});
        EXPECT_LT(there->device, there->host);
        if (fewest > 1) {
            const auto before = race(*device_, shapes, fewest - 1, {});
            EXPECT_GE(before->device, before->host);
        }
    }
    EXPECT_GT(rows(small), 10U) << "a job costs more than multiplying a small matrix";
    EXPECT_LT(rows(large), 5U);
}

TEST_F(Crossovers, ASlowerClockAndATaskPerKickMakeTheHostWinLonger) {
    open();
    const std::uint32_t vendor = rows(large);
    open(EngineOptions(), mainline(0, 0));
    EXPECT_GT(rows(large), vendor + 1);
}

TEST_F(Crossovers, WhatCannotBePlannedIsLeftToTheDevice) {
    open();
    EXPECT_EQ(Crossover().rows(*device_, large, {.cores = 9}), 1U);
}

}  // namespace
}  // namespace npu::gemm
