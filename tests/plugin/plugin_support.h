// What tests of the plugin share: the plugin loaded from its file, weights in its own memory, statistics.
#pragma once

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace npu::plugin_tests {

struct Unload {
    void operator()(ggml_context* context) const { ggml_free(context); }
    void operator()(ggml_backend_buffer* buffer) const { ggml_backend_buffer_free(buffer); }
    void operator()(ggml_backend* backend) const { ggml_backend_free(backend); }
};
template <typename T>
using Owned = std::unique_ptr<T, Unload>;

inline std::string log_text;

inline ggml_backend_reg_t plugin_registry() {
    static ggml_backend_reg_t registry = [] {
        ggml_log_set([](ggml_log_level, const char* text, void*) { log_text += text; }, nullptr);
        ggml_backend_load_all_from_path(HOST_LIBRARIES);
        return ggml_backend_load(PLUGIN_PATH);
    }();
    return registry;
}

class PluginTest : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_NE(plugin_registry(), nullptr) << log_text;
        device_ = ggml_backend_reg_dev_get(plugin_registry(), 0);
        const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
            ggml_backend_reg_get_proc_address(plugin_registry(), "ggml_backend_dev_get_extra_bufts"));
        ASSERT_NE(extra, nullptr);
        weight_type_ = extra(device_)[0];
        context_.reset(ggml_init({64 * 1024 * 1024, nullptr, true}));
    }

    // A weight in the NPU's own memory, filled with random values of its type; `bytes` receives what was set.
    ggml_tensor* make_weights(ggml_type type, std::int64_t k, std::int64_t n, std::vector<std::uint8_t>& bytes) {
        ggml_tensor* tensor = ggml_new_tensor_2d(context_.get(), type, k, n);
        buffers_.emplace_back(
            ggml_backend_buft_alloc_buffer(weight_type_, ggml_backend_buft_get_alloc_size(weight_type_, tensor) + 256));
        EXPECT_NE(buffers_.back(), nullptr);
        ggml_backend_buffer_set_usage(buffers_.back().get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        ggml_backend_tensor_alloc(buffers_.back().get(), tensor, ggml_backend_buffer_get_base(buffers_.back().get()));
        std::vector<float> floats(static_cast<std::size_t>(k * n));
        std::mt19937 random(static_cast<std::uint32_t>(k + n + type));
        std::normal_distribution<float> normal(0.0F, 0.7F);
        for (float& value : floats) {
            value = normal(random);
        }
        bytes.resize(ggml_nbytes(tensor));
        ggml_quantize_chunk(type, floats.data(), bytes.data(), 0, n, k, nullptr);
        return tensor;
    }

    // Runs node = MUL_MAT(weights, x) on `backend` with x in host memory.
    std::vector<float> multiply(ggml_backend_t backend, ggml_tensor* weights, const std::vector<float>& x,
                                std::array<std::int64_t, 4> shape) {
        Owned<ggml_context> context(ggml_init({16 * 1024 * 1024, nullptr, true}));
        ggml_tensor* input = ggml_new_tensor(context.get(), GGML_TYPE_F32, 4, shape.data());
        ggml_tensor* output = ggml_mul_mat(context.get(), weights, input);
        Owned<ggml_backend_buffer> buffer(
            ggml_backend_alloc_ctx_tensors_from_buft(context.get(), ggml_backend_cpu_buffer_type()));
        ggml_backend_tensor_set(input, x.data(), 0, ggml_nbytes(input));
        ggml_cgraph* graph = ggml_new_graph(context.get());
        ggml_build_forward_expand(graph, output);
        EXPECT_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS) << log_text;
        std::vector<float> y(static_cast<std::size_t>(ggml_nelements(output)));
        ggml_backend_tensor_get(output, y.data(), 0, ggml_nbytes(output));
        return y;
    }

    ggml_backend_dev_t device_ = nullptr;
    ggml_backend_buffer_type_t weight_type_ = nullptr;
    std::vector<Owned<ggml_backend_buffer>> buffers_;
    Owned<ggml_context> context_;
};

// What the device has counted so far. Counts go on for the life of the process; they are written when its last backend closes.
inline nlohmann::json statistics() {
    std::ifstream file(std::getenv("GGML_NPU_STATS"));
    return nlohmann::json::parse(file);
}

}  // namespace npu::plugin_tests
