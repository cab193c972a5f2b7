// What tests of the plugin share: the plugin loaded from its file beside the host's own CPU backend, weights in its memory,
// and a graph of one matmul. The environment says which engine and device; it is read when the first test loads the plugin.
#pragma once

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace plugin_test {

struct Unload {
    void operator()(ggml_context* context) const { ggml_free(context); }
    void operator()(ggml_backend_buffer* buffer) const { ggml_backend_buffer_free(buffer); }
    void operator()(ggml_backend* backend) const { ggml_backend_free(backend); }
};
template <typename T>
using Owned = std::unique_ptr<T, Unload>;

extern std::string log_text;  // of ggml and the plugin

ggml_backend_reg_t plugin_registry();  // nullptr: refused, and the log says why

nlohmann::json statistics();  // as of when the last backend was closed

std::vector<float> random_floats(std::size_t count, std::uint32_t seed);

class PluginTest : public testing::Test {
  protected:
    void SetUp() override;

    // A tensor in the NPU's own memory, not yet set.
    ggml_tensor* place(ggml_type type, std::int64_t k, std::int64_t n);

    // The same, with random values of its type that are yet to be set in `bytes`.
    ggml_tensor* make_weights(ggml_type type, std::int64_t k, std::int64_t n, std::vector<std::uint8_t>& bytes);

    // A tensor in host memory, set.
    ggml_tensor* make_host_weights(ggml_type type, std::int64_t k, std::int64_t n,
                                   const std::vector<std::uint8_t>& bytes);

    // Runs node = MUL_MAT(weights, x) on `backend` with x in host memory.
    static ggml_status compute(ggml_backend_t backend, ggml_tensor* weights, const std::vector<float>& x,
                               std::array<std::int64_t, 4> shape, std::vector<float>& y);
    static std::vector<float> multiply(ggml_backend_t backend, ggml_tensor* weights, const std::vector<float>& x,
                                       std::array<std::int64_t, 4> shape);  // expects success

    ggml_backend_dev_t device_ = nullptr;
    ggml_backend_buffer_type_t weight_type_ = nullptr;
    std::vector<Owned<ggml_backend_buffer>> buffers_;
    Owned<ggml_context> context_;
};

}  // namespace plugin_test
