// What tests of the engine over librknnrt share: a fake library held open to be asked, faults for the length of a scope,
// and matrices whose products are known exactly.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gemm/rknn_engine.h"

namespace npu::gemm {

std::string fake_path(const std::string& folder);  // "1.6", "2.0", "2.3", "incomplete"

// Sets an environment variable of the fake until the end of the scope.
class FakeSetting {
  public:
    FakeSetting(const char* name, const std::string& value);
    ~FakeSetting();
    FakeSetting(const FakeSetting&) = delete;
    FakeSetting& operator=(const FakeSetting&) = delete;

  private:
    const char* name_;
};

struct Faults : FakeSetting {
    explicit Faults(const std::string& list) : FakeSetting("FAKE_RKNN_FAULTS", list) {}
};

class FakeLibrary {
  public:
    explicit FakeLibrary(const std::string& folder);
    ~FakeLibrary();
    FakeLibrary(const FakeLibrary&) = delete;
    FakeLibrary& operator=(const FakeLibrary&) = delete;

    [[nodiscard]] int contexts() const { return ask("fake_rknn_contexts"); }
    [[nodiscard]] int memories() const { return ask("fake_rknn_memories"); }
    [[nodiscard]] int domains() const { return ask("fake_rknn_domains"); }
    [[nodiscard]] int machine_runs() const { return ask("fake_rknn_machine_runs"); }
    [[nodiscard]] int peak_contexts() const { return ask("fake_rknn_peak_contexts"); }
    [[nodiscard]] std::string violation() const;

  private:
    [[nodiscard]] int ask(const char* function) const;
    void* handle_;
};

struct Matrix {
    std::uint32_t rows = 0;
    std::uint32_t columns = 0;
    std::vector<float> values;

    [[nodiscard]] const float* row(std::uint32_t index) const { return values.data() + std::size_t{index} * columns; }
};

// Whole numbers from -127 to 127, with one of the extremes in every row, each row times a power of two: quantising to int8
// loses nothing.
Matrix random_int8(std::uint32_t rows, std::uint32_t columns, std::uint32_t seed);

Matrix random_normal(std::uint32_t rows, std::uint32_t columns, std::uint32_t seed);

// x * w of two matrices of random_int8: sums are added in 64 bits, scaled and rounded to float once.
std::vector<float> exact_products(const Matrix& x, const Matrix& w);

// The largest error of a product, as a fraction of the root of the sum of squared products; operands are rounded to half
// first when `halves`.
double largest_error(const Matrix& x, const Matrix& w, const std::vector<float>& y, bool halves);

RowReader reader(const Matrix& w);

Result<RknnWeights> prepare(RknnEngine& engine, const Matrix& w, Pipeline pipeline, bool rotated = false);
Result<std::vector<float>> multiply(RknnEngine& engine, const RknnWeights& weights, const Matrix& x);

}  // namespace npu::gemm
