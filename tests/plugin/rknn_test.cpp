// The plugin with GGML_NPU_ENGINE=rknn, on the fake librknnrt of tests/gemm/rknn. The tests of plugin_test.cpp that hold for
// any engine run with it, too (CMakeLists.txt).
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "support.h"

namespace {

using namespace plugin_test;

// The fake reads its faults at every call.
class Faults {
  public:
    explicit Faults(const char* list) { setenv("FAKE_RKNN_FAULTS", list, 1); }
    ~Faults() { unsetenv("FAKE_RKNN_FAULTS"); }
    Faults(const Faults&) = delete;
    Faults& operator=(const Faults&) = delete;
};

std::string description() { return std::string("Rockchip NPU (librknnrt ") + RKNN_RELEASE + ", driver 0.9.8)"; }

class RknnPluginTest : public PluginTest {};

TEST_F(RknnPluginTest, TheDeviceNamesTheLibraryAndItsVersion) {
    const std::string said = ggml_backend_dev_description(device_);
    EXPECT_EQ(said.substr(said.find('(')), description().substr(description().find('('))) << said;
    EXPECT_EQ(said.rfind("Rockchip ", 0), 0U) << said;
}

TEST_F(RknnPluginTest, WeightsHaveTheMemoryOfOneDomain) {
    constexpr std::size_t block = std::size_t{256} << 20;
    std::size_t free = 0;
    std::size_t total = 0;
    ggml_backend_dev_memory(device_, &free, &total);
    EXPECT_LT(total, std::size_t{1} << 31);
    EXPECT_LE(free, total);
    std::vector<Owned<ggml_backend_buffer>> blocks;  // addresses only
    for (std::size_t left = total; left >= block; left -= block) {
        blocks.emplace_back(ggml_backend_buft_alloc_buffer(weight_type_, block));
        ASSERT_NE(blocks.back(), nullptr) << "with " << left << " bytes left: " << log_text;
    }
    std::size_t less = 0;
    ggml_backend_dev_memory(device_, &less, &total);
    EXPECT_LE(less, total - blocks.size() * block);
    log_text.clear();
    EXPECT_EQ(ggml_backend_buft_alloc_buffer(weight_type_, 8 * block), nullptr);
    EXPECT_NE(log_text.find("-ngl"), std::string::npos) << log_text;
    EXPECT_NE(log_text.find(std::to_string(8 * block)), std::string::npos) << log_text;
    blocks.clear();
    EXPECT_NE(Owned<ggml_backend_buffer>(ggml_backend_buft_alloc_buffer(weight_type_, block)), nullptr);
}

// Q8_0 whose blocks all have the scale 1 and whose rows reach 127: int8 per channel loses nothing, and neither do
// activations of the same kind. Sums are compared with sums in 64 bits.
TEST_F(RknnPluginTest, ProductsOfIntegersAreExactOverSeveralKTiles) {
    constexpr std::int64_t k = 2 * 8192 + 64;
    constexpr std::int64_t n = 70;
    constexpr std::int64_t rows = 3;
    std::mt19937 random(11);
    std::uniform_int_distribution<int> value(-127, 127);
    std::vector<float> w(k * n);
    std::vector<float> x(k * rows);
    for (std::vector<float>* matrix : {&w, &x}) {
        std::generate(matrix->begin(), matrix->end(), [&] { return static_cast<float>(value(random)); });
        for (std::size_t block = 0; block < matrix->size(); block += 32) {
            (*matrix)[block + random() % 32] = random() % 2 == 0 ? 127.0F : -127.0F;
        }
    }
    ggml_tensor* weights = place(GGML_TYPE_Q8_0, k, n);
    std::vector<std::uint8_t> bytes(ggml_nbytes(weights));
    ggml_quantize_chunk(GGML_TYPE_Q8_0, w.data(), bytes.data(), 0, n, k, nullptr);
    ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
    Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
    const auto y = multiply(npu.get(), weights, x, {k, rows, 1, 1});
    std::int64_t largest = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t channel = 0; channel < n; ++channel) {
            std::int64_t sum = 0;
            for (std::int64_t i = 0; i < k; ++i) {
                sum += static_cast<std::int64_t>(x[row * k + i]) * static_cast<std::int64_t>(w[channel * k + i]);
            }
            ASSERT_EQ(y[row * n + channel], static_cast<float>(sum)) << row << ", " << channel;
            largest = std::max(largest, std::abs(sum));
        }
    }
    EXPECT_GT(largest, 1 << 20) << "small sums would not show what is lost";
}

TEST_F(RknnPluginTest, WhatTheLibraryRanIsCountedAndWhatItDoesNotTellIsUnknown) {
    Owned<ggml_backend>(ggml_backend_dev_init(device_, nullptr)).reset();
    const auto before = statistics();
    std::vector<std::uint8_t> bytes;
    ggml_tensor* weights = make_weights(GGML_TYPE_Q8_0, 512, 64, bytes);
    ggml_tensor* host = make_host_weights(GGML_TYPE_Q8_0, 512, 64, bytes);
    ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
    const auto x = random_floats(512, 3);
    {
        Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
        EXPECT_EQ(multiply(npu.get(), weights, x, {512, 1, 1, 1}), multiply(npu.get(), host, x, {512, 1, 1, 1}));
    }
    const auto after = statistics();
    EXPECT_EQ(after["device"], ggml_backend_dev_description(device_));
    EXPECT_EQ(after["matmul_npu"].get<int>() - before["matmul_npu"].get<int>(), 2);
    EXPECT_EQ(after["matmul_cpu"], 0);
    EXPECT_EQ(after["submissions"].get<int>() - before["submissions"].get<int>(), 2) << "one piece of weights each";
    EXPECT_TRUE(after["tasks"].is_null()) << after;
    EXPECT_TRUE(after["predicted_seconds"].is_null()) << after;
    EXPECT_EQ(after["weight_bytes_resident"], 512 * 64);
    EXPECT_EQ(after["weight_bytes_uploaded_after_load"], 512 * 64) << "the weights in host memory";
}

TEST_F(RknnPluginTest, AFailureIsAStatusAndTheNextGraphWorks) {
    Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
    const auto x = random_floats(512 * 2, 4);
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
        std::vector<std::uint8_t> bytes;
        ggml_tensor* weights = make_weights(type, 512, 300, bytes);
        ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
        ggml_tensor* host = make_host_weights(type, 512, 40, {bytes.begin(), bytes.begin() + bytes.size() / 300 * 40});
        const auto y = multiply(npu.get(), weights, x, {512, 2, 1, 1});
        std::vector<float> undefined;
        for (const char* fault : {"run", "bind", "sync"}) {
            const Faults faults(fault);
            log_text.clear();
            EXPECT_EQ(compute(npu.get(), weights, x, {512, 2, 1, 1}, undefined), GGML_STATUS_FAILED) << fault;
            EXPECT_NE(log_text.find("librknnrt"), std::string::npos) << log_text;
            EXPECT_EQ(compute(npu.get(), host, x, {512, 2, 1, 1}, undefined), GGML_STATUS_FAILED) << fault;
        }
        EXPECT_EQ(multiply(npu.get(), weights, x, {512, 2, 1, 1}), y);
    }
}

TEST_F(RknnPluginTest, WeightsThatTheLibraryDoesNotTakeKeepTheirBytes) {
    Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
    const auto x = random_floats(512, 5);
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q4_K}) {
        std::vector<std::uint8_t> bytes;
        ggml_tensor* weights = make_weights(type, 512, 70, bytes);
        {
            const Faults faults("memory-after=0");
            log_text.clear();
            ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
            EXPECT_NE(log_text.find("did not allocate"), std::string::npos) << log_text;
        }
        std::vector<std::uint8_t> back(bytes.size());
        ggml_backend_tensor_get(weights, back.data(), 0, back.size());
        EXPECT_EQ(back, bytes) << ggml_type_name(type);
        std::vector<float> y;
        EXPECT_EQ(compute(npu.get(), weights, x, {512, 1, 1, 1}, y), GGML_STATUS_FAILED);
        ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());  // there is room again
        y = multiply(npu.get(), weights, x, {512, 1, 1, 1});
        EXPECT_GT(*std::max_element(y.begin(), y.end()), 1.0F);
    }
}

// Runs where the fake computes int8 wrongly, which the engine finds out when it opens.
class RknnWithoutInt8Test : public PluginTest {};

TEST_F(RknnWithoutInt8Test, Int8RunsOnTheCpuUnderItsReasonAndHalvesOnTheNpu) {
    EXPECT_NE(log_text.find("the pipeline int8 here"), std::string::npos) << "not said: " << log_text;
    std::vector<std::uint8_t> bytes;
    std::vector<std::uint8_t> halves;
    ggml_tensor* npu_int8 = make_weights(GGML_TYPE_Q8_0, 512, 64, bytes);
    ggml_tensor* npu_halves = make_weights(GGML_TYPE_F16, 512, 64, halves);
    ggml_backend_tensor_set(npu_int8, bytes.data(), 0, bytes.size());
    ggml_backend_tensor_set(npu_halves, halves.data(), 0, halves.size());
    Owned<ggml_context> context(ggml_init({1024 * 1024, nullptr, true}));
    ggml_tensor* input = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 512, 4);
    EXPECT_FALSE(ggml_backend_dev_supports_op(device_, ggml_mul_mat(context.get(), npu_int8, input)));
    EXPECT_TRUE(ggml_backend_dev_supports_op(device_, ggml_mul_mat(context.get(), npu_halves, input)));
    std::vector<std::uint8_t> back(bytes.size());
    ggml_backend_tensor_get(npu_int8, back.data(), 0, back.size());
    EXPECT_EQ(back, bytes);

    ggml_tensor* host = make_host_weights(GGML_TYPE_Q8_0, 512, 64, bytes);
    const auto x = random_floats(512 * 4, 6);
    Owned<ggml_backend> cpu(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    const auto expected = multiply(cpu.get(), host, x, {512, 4, 1, 1});
    {
        Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
        EXPECT_EQ(multiply(npu.get(), host, x, {512, 4, 1, 1}), expected);
        EXPECT_NE(multiply(npu.get(), npu_halves, x, {512, 4, 1, 1}), expected);
    }
    const auto last = statistics();
    EXPECT_EQ(last["matmul_npu"], 1);
    EXPECT_EQ(last["matmul_cpu"], 1);
    EXPECT_EQ(last["cpu_reasons"]["librknnrt does not compute this precision here"], 1) << last;
}

}  // namespace
