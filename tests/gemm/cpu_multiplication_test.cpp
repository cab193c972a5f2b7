// The CPU multiplies from the tiles that the NPU multiplies from, and gets the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/integers.h"
#include "device/rknpu_device.h"
#include "gemm/engine.h"
#include "gemm/kernels.h"
#include "gemm/quantise.h"
#include "sim/kernel_rknpu.h"

namespace npu::gemm {
namespace {

constexpr std::uint32_t n = 77;
constexpr std::uint32_t k = 4200;  // three K tiles, the last of them with padding

std::vector<float> random_values(std::mt19937& random, std::size_t count) {
    std::normal_distribution<float> normal(0.0F, 1.0F);
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(random); });
    return values;
}

TEST(CpuMultiplicationFromResidentTiles, GivesTheBitsOfTheNpu) {
    const auto kernel = sim::make_simulated_kernel({});
    auto device = device::open_rknpu(*kernel, *device::find_rknpu_node(*kernel),
                                     {.simulated = true, .chip = &rockchip::rk3588()});
    ASSERT_TRUE(device) << device.error().message;
    Engine engine(**device, {});

    std::mt19937 random(1);
    const std::vector<float> w = random_values(random, std::size_t{n} * k);
    const WeightsShape shape{n, k, Pipeline::int8};
    const std::size_t bytes = resident_bytes(shape, engine.chip());
    auto buffer = (*device)->allocate(bytes);
    ASSERT_TRUE(buffer) << buffer.error().message;
    const auto weights = prepare_weights(
        shape, [&](std::uint32_t row, float* out) { std::copy_n(w.data() + std::size_t{row} * k, k, out); },
        {buffer->get(), 0, bytes}, engine.chip());
    ASSERT_TRUE(weights) << weights.error().message;

    const std::vector<WeightTile> tiles = resident_tiles(*weights, engine.chip());
    ASSERT_GE(tiles.size(), 2U);
    const WeightTiles view{compile::Precision::int8, n, k, tiles, weights->scales.data()};
    for (std::uint32_t m = 1; m <= 8; ++m) {
        const std::vector<float> x = random_values(random, std::size_t{m} * k);
        std::vector<float> from_npu(std::size_t{m} * n, NAN);
        const auto report = engine.multiply(*weights, {x.data(), k, m}, {from_npu.data(), n});
        ASSERT_TRUE(report) << report.error().message;

        std::vector<std::int8_t> quantised(x.size());
        std::vector<float> scales;
        for (std::uint32_t row = 0; row < m; ++row) {
            const std::size_t start = std::size_t{row} * k;
            scales.push_back(quantise_int8(x.data() + start, k, quantised.data() + start));
        }
        const std::uint32_t groups = ceil_div(n, kernels_per_group(view));
        std::vector<float> from_cpu(from_npu.size(), NAN);
        multiply_on_cpu(view, 0, groups, {quantised.data(), k, m, scales.data()}, {from_cpu.data(), n});
        EXPECT_EQ(from_cpu, from_npu) << m << " rows";

        // A step of one activation shows: the numbers are not equal for want of precision.
        quantised[k - 1] = static_cast<std::int8_t>(quantised[k - 1] ^ 1);
        multiply_on_cpu(view, 0, groups, {quantised.data(), k, m, scales.data()}, {from_cpu.data(), n});
        EXPECT_NE(from_cpu, from_npu) << m << " rows";
    }
}

}  // namespace
}  // namespace npu::gemm
