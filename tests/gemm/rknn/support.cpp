#include "support.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "base/float_bits.h"

namespace npu::gemm {

std::string fake_path(const std::string& folder) {
    return std::string(FAKE_RKNN_FOLDER) + "/" + folder + "/librknnrt.so";
}

FakeSetting::FakeSetting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }

FakeSetting::~FakeSetting() { unsetenv(name_); }

FakeLibrary::FakeLibrary(const std::string& folder) : handle_(dlopen(fake_path(folder).c_str(), RTLD_NOW)) {
    if (handle_ == nullptr) {
        std::abort();  // the build is broken
    }
}

FakeLibrary::~FakeLibrary() { dlclose(handle_); }

int FakeLibrary::ask(const char* function) const { return reinterpret_cast<int (*)()>(dlsym(handle_, function))(); }

std::string FakeLibrary::violation() const {
    return reinterpret_cast<const char* (*)()>(dlsym(handle_, "fake_rknn_violation"))();
}

namespace {

int exponent_of(const Matrix& matrix, std::uint32_t row) {
    float largest = 0;
    for (std::uint32_t i = 0; i < matrix.columns; ++i) {
        largest = std::max(largest, std::abs(matrix.row(row)[i]));
    }
    return std::ilogb(largest) - std::ilogb(127.0F);
}

}  // namespace

Matrix random_int8(std::uint32_t rows, std::uint32_t columns, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::uniform_int_distribution<int> value(-127, 127);
    Matrix matrix{rows, columns, std::vector<float>(std::size_t{rows} * columns)};
    for (std::uint32_t row = 0; row < rows; ++row) {
        float* values = matrix.values.data() + std::size_t{row} * columns;
        std::generate_n(values, columns, [&] { return static_cast<float>(value(generator)); });
        values[generator() % columns] = row % 2 == 0 ? 127.0F : -127.0F;
        const int exponent = static_cast<int>(row % 7) - 3;
        std::transform(values, values + columns, values, [&](float v) { return std::ldexp(v, exponent); });
    }
    return matrix;
}

Matrix random_normal(std::uint32_t rows, std::uint32_t columns, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.0F, 1.0F);
    Matrix matrix{rows, columns, std::vector<float>(std::size_t{rows} * columns)};
    std::ranges::generate(matrix.values, [&] { return normal(generator); });
    return matrix;
}

std::vector<float> exact_products(const Matrix& x, const Matrix& w) {
    std::vector<float> y;
    for (std::uint32_t m = 0; m < x.rows; ++m) {
        const int x_exponent = exponent_of(x, m);
        for (std::uint32_t n = 0; n < w.rows; ++n) {
            const int w_exponent = exponent_of(w, n);
            std::int64_t sum = 0;
            for (std::uint32_t k = 0; k < x.columns; ++k) {
                sum += static_cast<std::int64_t>(std::ldexp(x.row(m)[k], -x_exponent)) *
                       static_cast<std::int64_t>(std::ldexp(w.row(n)[k], -w_exponent));
            }
            y.push_back(std::ldexp(static_cast<float>(sum), x_exponent + w_exponent));
        }
    }
    return y;
}

double largest_error(const Matrix& x, const Matrix& w, const std::vector<float>& y, bool halves) {
    const auto operand = [&](float value) -> double { return halves ? half_to_float(float_to_half(value)) : value; };
    double largest = 0;
    for (std::uint32_t m = 0; m < x.rows; ++m) {
        for (std::uint32_t n = 0; n < w.rows; ++n) {
            double exact = 0;
            double energy = 0;
            for (std::uint32_t k = 0; k < x.columns; ++k) {
                const double product = operand(x.row(m)[k]) * operand(w.row(n)[k]);
                exact += product;
                energy += product * product;
            }
            const double error = std::abs(y[std::size_t{m} * w.rows + n] - exact) / std::sqrt(energy);
            largest = error <= largest ? largest : error;  // NaN is kept
        }
    }
    return largest;
}

RowReader reader(const Matrix& w) {
    return [&w](std::uint32_t row, float* to) { std::copy_n(w.row(row), w.columns, to); };
}

Result<RknnWeights> prepare(RknnEngine& engine, const Matrix& w, Pipeline pipeline, bool rotated) {
    return engine.prepare({w.rows, w.columns, pipeline, rotated}, reader(w));
}

Result<std::vector<float>> multiply(RknnEngine& engine, const RknnWeights& weights, const Matrix& x) {
    const std::uint32_t n = weights.shape.n;
    std::vector<float> y(std::size_t{x.rows} * n, NAN);
    NPU_TRY(engine.multiply(weights, {x.values.data(), x.columns, x.rows}, {y.data(), n}));
    return y;
}

}  // namespace npu::gemm
