// What tests of the engine share: matrices, their product's error, and the engine on a simulated NPU behind the real client.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "device/rknpu_device.h"
#include "device/rocket_device.h"
#include "gemm/engine.h"
#include "sim/kernel_rknpu.h"

namespace npu::gemm {

struct Matrix {
    std::uint32_t rows = 0;
    std::uint32_t columns = 0;
    std::vector<float> values;

    static Matrix random(std::uint32_t rows, std::uint32_t columns, std::uint32_t seed) {
        std::mt19937 generator(seed);
        std::normal_distribution<float> normal(0.0F, 1.0F);
        Matrix matrix{rows, columns, std::vector<float>(std::size_t{rows} * columns)};
        for (float& value : matrix.values) {
            value = normal(generator);
        }
        return matrix;
    }
    [[nodiscard]] const float* row(std::uint32_t index) const { return values.data() + std::size_t{index} * columns; }
};

// Sum of squared errors over the sum of squares of all products that were added: unlike the result itself, that is
// never small by cancellation.
inline double normalised_error(const Matrix& x, const Matrix& w, const std::vector<float>& y) {
    double error = 0;
    double energy = 0;
    for (std::uint32_t m = 0; m < x.rows; ++m) {
        for (std::uint32_t n = 0; n < w.rows; ++n) {
            double exact = 0;
            for (std::uint32_t k = 0; k < x.columns; ++k) {
                const double product = static_cast<double>(x.row(m)[k]) * w.row(n)[k];
                exact += product;
                energy += product * product;
            }
            const double difference = y[std::size_t{m} * w.rows + n] - exact;
            error += difference * difference;
        }
    }
    return error / energy;
}

// Behind the mainline driver, by interface version.
inline sim::SimOptions mainline(std::uint32_t major, std::uint32_t minor) {
    sim::SimOptions simulation;
    simulation.driver = sim::Driver::rocket;
    simulation.rocket = {major, minor};
    return simulation;
}

class EngineTest : public testing::Test {
  protected:
    void open(const EngineOptions& options = EngineOptions(), sim::SimOptions simulation = {}) {
        buffers_.clear();  // in the order in which each needs the next
        engine_.reset();
        device_.reset();
        simulation.strict_sync = true;              // what was not handed over is not seen
        simulation.poison_before_each_kick = true;  // a register that a program forgets holds noise
        kernel_ = sim::make_simulated_kernel(simulation);
        auto device = simulation.driver == sim::Driver::rocket
                          ? device::open_rocket(*kernel_, *device::find_rocket_node(*kernel_),
                                                {.simulated = true, .chip = &rockchip::rk3588()})
                          : device::open_rknpu(*kernel_, *device::find_rknpu_node(*kernel_),
                                               {.simulated = true, .chip = &rockchip::rk3588()});
        ASSERT_TRUE(device) << device.error().message;
        device_ = std::move(*device);
        engine_ = std::make_unique<Engine>(*device_, options);
    }

    Result<ResidentWeights> make_resident(const Matrix& w, Pipeline pipeline, bool rotated = false,
                                          std::uint32_t first_space = 0) {
        const WeightsShape shape{w.rows, w.columns, pipeline, rotated};
        DeviceSpan span{{}, 64, resident_bytes(shape, engine_->chip(), engine_->parts()), first_space};
        for (std::uint32_t part = 0; part < engine_->parts(); ++part) {
            NPU_ASSIGN(auto buffer, device_->allocate(span.bytes + 64, first_space + part));
            span.buffers.push_back(buffer.get());
            buffers_.push_back(std::move(buffer));
        }
        return prepare_weights(
            shape, [&](std::uint32_t row, float* out) { std::copy_n(w.row(row), w.columns, out); }, span,
            engine_->chip());
    }

    std::vector<float> multiply(const ResidentWeights& weights, const Matrix& x) {
        std::vector<float> y(std::size_t{x.rows} * weights.shape.n, NAN);
        const auto report =
            engine_->multiply(weights, {x.values.data(), x.columns, x.rows}, {y.data(), weights.shape.n});
        EXPECT_TRUE(report) << (report ? "" : report.error().message);
        if (report) {
            last_report_ = *report;
        }
        return y;
    }

    std::unique_ptr<sim::SimulatedKernel> kernel_;
    std::unique_ptr<device::Device> device_;
    std::unique_ptr<Engine> engine_;
    std::vector<std::unique_ptr<device::Buffer>> buffers_;
    MultiplyReport last_report_;
};

}  // namespace npu::gemm
