#include "support.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace plugin_test {

std::string log_text;

namespace {

// Test processes that run side by side write statistics of their own.
struct OwnStatisticsFile {
    OwnStatisticsFile() {
        if (const char* shared = std::getenv("GGML_NPU_STATS")) {
            path = std::string(shared) + "." + std::to_string(getpid());
            setenv("GGML_NPU_STATS", path.c_str(), 1);
        }
    }
    ~OwnStatisticsFile() { std::remove(path.c_str()); }
    std::string path;
};

}  // namespace

ggml_backend_reg_t plugin_registry() {
    static const OwnStatisticsFile statistics_file;
    static ggml_backend_reg_t registry = [] {
        ggml_log_set([](ggml_log_level, const char* text, void*) { log_text += text; }, nullptr);
        ggml_backend_load_all_from_path(HOST_LIBRARIES);
        return ggml_backend_load(PLUGIN_PATH);
    }();
    return registry;
}

nlohmann::json statistics() {
    std::ifstream file(std::getenv("GGML_NPU_STATS"));
    return nlohmann::json::parse(file);
}

std::vector<float> random_floats(std::size_t count, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0F, 0.7F);
    std::vector<float> floats(count);
    std::generate(floats.begin(), floats.end(), [&] { return normal(random); });
    return floats;
}

void PluginTest::SetUp() {
    ASSERT_NE(plugin_registry(), nullptr) << log_text;
    device_ = ggml_backend_reg_dev_get(plugin_registry(), 0);
    const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(plugin_registry(), "ggml_backend_dev_get_extra_bufts"));
    ASSERT_NE(extra, nullptr);
    weight_type_ = extra(device_)[0];
    context_.reset(ggml_init({64 * 1024 * 1024, nullptr, true}));
}

ggml_tensor* PluginTest::place(ggml_type type, std::int64_t k, std::int64_t n) {
    ggml_tensor* tensor = ggml_new_tensor_2d(context_.get(), type, k, n);
    buffers_.emplace_back(
        ggml_backend_buft_alloc_buffer(weight_type_, ggml_backend_buft_get_alloc_size(weight_type_, tensor) + 256));
    EXPECT_NE(buffers_.back(), nullptr);
    ggml_backend_buffer_set_usage(buffers_.back().get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_tensor_alloc(buffers_.back().get(), tensor, ggml_backend_buffer_get_base(buffers_.back().get()));
    return tensor;
}

ggml_tensor* PluginTest::make_weights(ggml_type type, std::int64_t k, std::int64_t n,
                                      std::vector<std::uint8_t>& bytes) {
    ggml_tensor* tensor = place(type, k, n);
    const auto floats = random_floats(static_cast<std::size_t>(k * n), static_cast<std::uint32_t>(k + n + type));
    bytes.resize(ggml_nbytes(tensor));
    ggml_quantize_chunk(type, floats.data(), bytes.data(), 0, n, k, nullptr);
    return tensor;
}

ggml_tensor* PluginTest::make_host_weights(ggml_type type, std::int64_t k, std::int64_t n,
                                           const std::vector<std::uint8_t>& bytes) {
    ggml_tensor* tensor = ggml_new_tensor_2d(context_.get(), type, k, n);
    buffers_.emplace_back(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), ggml_nbytes(tensor)));
    ggml_backend_tensor_alloc(buffers_.back().get(), tensor, ggml_backend_buffer_get_base(buffers_.back().get()));
    ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
    return tensor;
}

ggml_status PluginTest::compute(ggml_backend_t backend, ggml_tensor* weights, const std::vector<float>& x,
                                std::array<std::int64_t, 4> shape, std::vector<float>& y) {
    Owned<ggml_context> context(ggml_init({16 * 1024 * 1024, nullptr, true}));
    ggml_tensor* input = ggml_new_tensor(context.get(), GGML_TYPE_F32, 4, shape.data());
    ggml_tensor* output = ggml_mul_mat(context.get(), weights, input);
    Owned<ggml_backend_buffer> buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(context.get(), ggml_backend_cpu_buffer_type()));
    ggml_backend_tensor_set(input, x.data(), 0, ggml_nbytes(input));
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, output);
    const ggml_status status = ggml_backend_graph_compute(backend, graph);
    y.resize(static_cast<std::size_t>(ggml_nelements(output)));
    ggml_backend_tensor_get(output, y.data(), 0, ggml_nbytes(output));
    return status;
}

std::vector<float> PluginTest::multiply(ggml_backend_t backend, ggml_tensor* weights, const std::vector<float>& x,
                                        std::array<std::int64_t, 4> shape) {
    std::vector<float> y;
    EXPECT_EQ(compute(backend, weights, x, shape, y), GGML_STATUS_SUCCESS) << log_text;
    return y;
}

}  // namespace plugin_test
