// Who adds the partial sums of a long K must not be seen in any bit of an int8 result.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "device/rknpu_device.h"
#include "device/rocket_device.h"
#include "gemm/engine.h"
#include "sim/sim.h"

namespace npu::gemm {
namespace {

struct Outcome {
    std::vector<float> y;
    std::size_t tasks = 0;
    std::size_t k_tiles = 0;
};

std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<float> values(count);
    for (float& value : values) {
        value = random() % 16 == 0 ? 1.0F : uniform(random);
    }
    return values;
}

Outcome multiply(sim::Driver driver, compile::Reduce reduce, std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    sim::SimOptions simulation;
    simulation.driver = driver;
    simulation.strict_sync = true;
    simulation.poison_before_each_kick = true;
    simulation.log_findings = false;
    const auto kernel = sim::make_simulated_kernel(simulation);
    const std::string path = sim::usual_path(driver);
    auto device = driver == sim::Driver::rocket
                      ? device::open_rocket(*kernel, path, {.simulated = true, .chip = &rockchip::rk3588()})
                      : device::open_rknpu(*kernel, path, {.simulated = true, .chip = &rockchip::rk3588()});
    EXPECT_TRUE(device);
    EngineOptions options;
    options.programs.reduce = reduce;
    Engine engine(**device, options);

    const WeightsShape shape{n, k, Pipeline::int8, false};
    DeviceSpan span{{}, 0, resident_bytes(shape, engine.chip(), engine.parts()), 0};
    std::vector<std::unique_ptr<device::Buffer>> buffers;
    for (std::uint32_t part = 0; part < engine.parts(); ++part) {
        auto buffer = (*device)->allocate(span.bytes, part);
        buffers.push_back(std::move(*buffer));
        span.buffers.push_back(buffers.back().get());
    }
    const std::vector<float> w = random_values(std::size_t{n} * k, 1);
    const std::vector<float> x = random_values(std::size_t{m} * k, 2);
    const auto weights = prepare_weights(
        shape, [&](std::uint32_t row, float* out) { std::copy_n(w.data() + std::size_t{row} * k, k, out); }, span,
        engine.chip());
    EXPECT_TRUE(weights);
    Outcome run{std::vector<float>(std::size_t{m} * n, NAN), 0, weights->k_tiles.size()};
    for (int round = 0; round < 2; ++round) {  // the second time over the results of the first
        const auto report = engine.multiply(*weights, {x.data(), k, m}, {run.y.data(), n});
        EXPECT_TRUE(report) << (report ? "" : report.error().message);
        run.tasks = report ? report->tasks : 0;
    }
    for (const sim::Finding& finding : kernel->findings()) {
        EXPECT_NE(finding.severity, sim::Severity::hang) << finding.message;
        EXPECT_NE(finding.severity, sim::Severity::corrupt) << finding.message;
    }
    // One result against double precision: that both agree is not enough.
    double exact = 0;
    for (std::uint32_t i = 0; i < k; ++i) {
        exact += static_cast<double>(x[std::size_t{m - 1} * k + i]) * w[std::size_t{n - 1} * k + i];
    }
    EXPECT_NEAR(run.y.back(), exact, 0.01 * std::sqrt(k));
    return run;
}

TEST(EngineReduce, ResultsAreTheSameWhoeverAddsOnBothDrivers) {
    for (const sim::Driver driver : {sim::Driver::rknpu, sim::Driver::rocket}) {
        for (const std::uint32_t m : {1U, 5U, 130U}) {
            constexpr std::uint32_t n = 101;
            constexpr std::uint32_t k = 20000;
            const Outcome host = multiply(driver, compile::Reduce::host, m, n, k);
            const Outcome chip = multiply(driver, compile::Reduce::device, m, n, k);
            const Outcome either = multiply(driver, compile::Reduce::automatic, m, n, k);
            ASSERT_GE(host.k_tiles, 3U);
            EXPECT_GT(chip.tasks, host.tasks) << "nothing was added on the chip";
            EXPECT_TRUE(either.tasks == host.tasks || either.tasks == chip.tasks);
            EXPECT_EQ(host.y, chip.y) << m;
            EXPECT_EQ(host.y, either.y) << m;
        }
    }
}

}  // namespace
}  // namespace npu::gemm
