// The plugin through ggml's public interface: weights in its own buffer type, which test-backend-ops never uses.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "support.h"

namespace {

using namespace plugin_test;

// The float types, and every quantised type that can be made without an importance matrix.
std::vector<ggml_type> resident_types() {
    std::vector<ggml_type> types{GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32};
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        const ggml_type_traits* traits = ggml_get_type_traits(type);
        if (ggml_is_quantized(type) && traits->to_float != nullptr && traits->from_float_ref != nullptr &&
            !ggml_quantize_requires_imatrix(type)) {
            types.push_back(type);
        }
    }
    return types;
}

TEST_F(PluginTest, TheTypesUnderTestIncludeTheCommonOnes) {
    const auto types = resident_types();
    for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q5_1, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K,
                                 GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4}) {
        EXPECT_NE(std::find(types.begin(), types.end(), type), types.end()) << ggml_type_name(type);
    }
}

TEST_F(PluginTest, TheDeviceSaysWhatItIs) {
    EXPECT_STREQ(ggml_backend_dev_name(device_), "NPU0");
    EXPECT_STREQ(ggml_backend_dev_description(device_), "Rockchip RK3588 (simulated, rknpu)");
    EXPECT_EQ(ggml_backend_dev_type(device_), GGML_BACKEND_DEVICE_TYPE_GPU);
    EXPECT_EQ(ggml_backend_dev_buffer_type(device_), ggml_backend_cpu_buffer_type());
    EXPECT_FALSE(ggml_backend_buft_is_host(weight_type_));
    std::size_t free = 0;
    std::size_t total = 0;
    ggml_backend_dev_memory(device_, &free, &total);
    EXPECT_GT(free, 0U);
    EXPECT_LE(free, total);
    EXPECT_LE(total, std::size_t{64} << 30) << "sixteen address windows";
}

TEST_F(PluginTest, LoadingTwiceGivesTheSameRegistry) { EXPECT_EQ(ggml_backend_load(PLUGIN_PATH), plugin_registry()); }

TEST_F(PluginTest, AHostOfAnotherVersionIsRefusedWithBothVersions) {
    ASSERT_NE(plugin_registry(), nullptr);
    log_text.clear();
    EXPECT_EQ(ggml_backend_load(MISMATCHED_PLUGIN_PATH), nullptr);
    EXPECT_NE(log_text.find("0.0.1-other (commit 1234567)"), std::string::npos) << log_text;
    EXPECT_NE(log_text.find(ggml_version()), std::string::npos) << log_text;
    EXPECT_NE(log_text.find("GGML_NPU_ANY_HOST=1"), std::string::npos) << log_text;
}

TEST_F(PluginTest, EveryTypeGivesBackTheBytesThatWereSet) {
    for (const ggml_type type : resident_types()) {
        std::vector<std::uint8_t> bytes;
        ggml_tensor* weights = make_weights(type, 512, 37, bytes);
        ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
        std::vector<std::uint8_t> back(bytes.size());
        ggml_backend_tensor_get(weights, back.data(), 0, back.size());
        EXPECT_EQ(back, bytes) << ggml_type_name(type);
        std::vector<std::uint8_t> part(100);
        ggml_backend_tensor_get(weights, part.data(), 33, part.size());
        EXPECT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + 33)) << ggml_type_name(type);
    }
}

TEST_F(PluginTest, HalvesWithNansAndInfinitiesComeBackBitForBit) {
    std::vector<std::uint8_t> bytes;
    ggml_tensor* weights = make_weights(GGML_TYPE_F16, 256, 256, bytes);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        reinterpret_cast<std::uint16_t*>(bytes.data())[bits] = static_cast<std::uint16_t>(bits);
    }
    ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
    std::vector<std::uint8_t> back(bytes.size());
    ggml_backend_tensor_get(weights, back.data(), 0, back.size());
    EXPECT_EQ(back, bytes);
}

TEST_F(PluginTest, AWeightThatArrivesInPiecesIsTheSame) {
    Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
    std::vector<float> x(512 * 3);
    std::mt19937 random(5);
    for (float& value : x) {
        value = std::normal_distribution<float>()(random);
    }
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
        std::vector<std::uint8_t> bytes;
        ggml_tensor* whole = make_weights(type, 512, 37, bytes);
        ggml_backend_tensor_set(whole, bytes.data(), 0, bytes.size());
        ggml_tensor* pieces = make_weights(type, 512, 37, bytes);
        const std::size_t half = bytes.size() / 2;
        ggml_backend_tensor_set(pieces, bytes.data() + half, half, bytes.size() - half);
        ggml_backend_tensor_set(pieces, bytes.data(), 0, half);
        EXPECT_EQ(multiply(npu.get(), pieces, x, {512, 3, 1, 1}), multiply(npu.get(), whole, x, {512, 3, 1, 1}));
    }
}

TEST_F(PluginTest, ResidentWeightsOfEveryTypeMultiplyAsTheCpuDoes) {
    Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
    Owned<ggml_backend> cpu(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    for (const ggml_type type : resident_types()) {
        for (const auto& shape : {std::array<std::int64_t, 4>{512, 1, 1, 1}, {512, 7, 1, 1}, {512, 3, 2, 2}}) {
            std::vector<std::uint8_t> bytes;
            ggml_tensor* weights = make_weights(type, 512, 70, bytes);
            ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
            ggml_tensor* host = ggml_new_tensor_2d(context_.get(), type, 512, 70);
            buffers_.emplace_back(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), ggml_nbytes(host)));
            ggml_backend_tensor_alloc(buffers_.back().get(), host, ggml_backend_buffer_get_base(buffers_.back().get()));
            ggml_backend_tensor_set(host, bytes.data(), 0, bytes.size());
            std::vector<float> x(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
            std::mt19937 random(6);
            for (float& value : x) {
                value = std::normal_distribution<float>()(random);
            }
            const auto ours = multiply(npu.get(), weights, x, shape);
            const auto theirs = multiply(cpu.get(), host, x, shape);
            double error = 0;
            double energy = 0;
            for (std::size_t i = 0; i < ours.size(); ++i) {
                error += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
                energy += std::pow(static_cast<double>(theirs[i]), 2);
            }
            EXPECT_LT(error / energy, 3e-4) << ggml_type_name(type) << " rows " << shape[1];
            EXPECT_GT(energy, 1.0) << "a product of zeros would prove nothing";
        }
    }
}

TEST_F(PluginTest, ActivationsWhoseRowsLieApartAreReadRowByRow) {
    Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
    std::vector<std::uint8_t> bytes;
    ggml_tensor* weights = make_weights(GGML_TYPE_F16, 64, 40, bytes);
    ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
    std::vector<float> x(64 * 5 * 3);
    std::mt19937 random(8);
    for (float& value : x) {
        value = std::normal_distribution<float>()(random);
    }
    const auto direct = multiply(npu.get(), weights, x, {64, 5, 3, 1});  // y[plane][row][n]
    Owned<ggml_context> context(ggml_init({16 * 1024 * 1024, nullptr, true}));
    ggml_tensor* input = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, 64, 5, 3);
    ggml_tensor* output = ggml_mul_mat(context.get(), weights, ggml_permute(context.get(), input, 0, 2, 1, 3));
    Owned<ggml_backend_buffer> buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(context.get(), ggml_backend_cpu_buffer_type()));
    ggml_backend_tensor_set(input, x.data(), 0, ggml_nbytes(input));
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, output);
    ASSERT_EQ(ggml_backend_graph_compute(npu.get(), graph), GGML_STATUS_SUCCESS) << log_text;
    std::vector<float> y(40 * 3 * 5);  // y[row][plane][n]
    ggml_backend_tensor_get(output, y.data(), 0, ggml_nbytes(output));
    for (std::size_t plane = 0; plane < 3; ++plane) {
        for (std::size_t row = 0; row < 5; ++row) {
            for (std::size_t n = 0; n < 40; ++n) {
                ASSERT_EQ(y[(row * 3 + plane) * 40 + n], direct[(plane * 5 + row) * 40 + n]);
            }
        }
    }
}

TEST_F(PluginTest, SupportsOpGivesTheSameAnswerEachTimeAndBeforeAndAfterWork) {
    Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
    std::vector<std::uint8_t> bytes;
    ggml_tensor* weights = make_weights(GGML_TYPE_Q8_0, 512, 64, bytes);
    Owned<ggml_context> context(ggml_init({1024 * 1024, nullptr, true}));
    ggml_tensor* input = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 512, 4);
    ggml_tensor* good = ggml_mul_mat(context.get(), weights, input);
    ggml_tensor* rows = ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, 4);
    ggml_tensor* bad = ggml_get_rows(context.get(), weights, rows);  // reads NPU memory as the CPU would: impossible
    const auto ask = [&](ggml_tensor* op) {
        bool first = ggml_backend_dev_supports_op(device_, op);
        for (int i = 0; i < 10; ++i) {
            EXPECT_EQ(ggml_backend_dev_supports_op(device_, op), first);
        }
        return first;
    };
    EXPECT_TRUE(ask(good));
    EXPECT_FALSE(ask(bad));
    ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
    multiply(npu.get(), weights, std::vector<float>(512, 1.0F), {512, 1, 1, 1});
    EXPECT_TRUE(ask(good));
    EXPECT_FALSE(ask(bad));
}

TEST_F(PluginTest, AMatmulThatAsksForMorePreciseActivationsGoesElsewhere) {
    std::vector<std::uint8_t> bytes;
    ggml_tensor* int8_weights = make_weights(GGML_TYPE_Q8_0, 512, 64, bytes);
    ggml_tensor* fp16_weights = make_weights(GGML_TYPE_F16, 512, 64, bytes);
    Owned<ggml_context> context(ggml_init({1024 * 1024, nullptr, true}));
    ggml_tensor* input = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 512, 4);
    const auto supported = [&](ggml_tensor* weights, ggml_prec least) {
        ggml_tensor* node = ggml_mul_mat(context.get(), weights, input);
        EXPECT_TRUE(ggml_prec_set_src(node, least, 1));
        return ggml_backend_dev_supports_op(device_, node);
    };
    EXPECT_TRUE(supported(int8_weights, GGML_PREC_Q8));
    EXPECT_FALSE(supported(int8_weights, GGML_PREC_F16));
    EXPECT_TRUE(supported(fp16_weights, GGML_PREC_F16));
    EXPECT_FALSE(supported(fp16_weights, GGML_PREC_F32));
}

TEST_F(PluginTest, ATensorThatIsNoMatrixIsKeptAsItIs) {
    ggml_tensor* vector = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, 100);
    buffers_.emplace_back(ggml_backend_buft_alloc_buffer(weight_type_, 4096));
    ggml_backend_tensor_alloc(buffers_.back().get(), vector, ggml_backend_buffer_get_base(buffers_.back().get()));
    std::vector<float> values(100, 3.5F);
    ggml_backend_tensor_set(vector, values.data(), 0, 400);
    std::vector<float> back(100);
    ggml_backend_tensor_get(vector, back.data(), 0, 400);
    EXPECT_EQ(back, values);
    ggml_backend_tensor_memset(vector, 0, 40, 40);
    ggml_backend_tensor_get(vector, back.data(), 0, 400);
    EXPECT_EQ(back[9], 3.5F);
    EXPECT_EQ(back[10], 0.0F);
    EXPECT_EQ(back[20], 3.5F);
}

TEST_F(PluginTest, ClosingTheDeviceWritesTheStatistics) {
    ASSERT_NE(std::getenv("GGML_NPU_STATS"), nullptr) << "set by the test's environment";
    Owned<ggml_backend>(ggml_backend_dev_init(device_, nullptr)).reset();
    const auto before = statistics();  // counts of a device go on for the life of the process
    std::vector<std::uint8_t> bytes;
    ggml_tensor* weights = make_weights(GGML_TYPE_Q8_0, 512, 64, bytes);
    const std::vector<float> x(512, 1.0F);
    {
        Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
        ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
        multiply(npu.get(), weights, x, {512, 1, 1, 1});
    }
    const auto after = statistics();
    const auto grown = [&](const char* key) { return after[key].get<double>() - before[key].get<double>(); };
    EXPECT_EQ(after["device"], "Rockchip RK3588 (simulated, rknpu)");
    EXPECT_EQ(grown("matmul_npu"), 1);
    EXPECT_EQ(grown("matmul_cpu"), 0);
    EXPECT_EQ(grown("submissions"), 1);
    EXPECT_GE(grown("tasks"), 1);
    EXPECT_GE(after["weight_bytes_resident"], 512 * 64);
    EXPECT_EQ(grown("weight_bytes_uploaded_after_load"), 0);
    EXPECT_GT(grown("predicted_seconds"), 0.0);

    // What is not silent: weights in host memory, a matmul of two computed operands, weights set again.
    {
        Owned<ggml_backend> npu(ggml_backend_dev_init(device_, nullptr));
        ggml_tensor* host = ggml_new_tensor_2d(context_.get(), GGML_TYPE_Q8_0, 512, 64);
        buffers_.emplace_back(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), ggml_nbytes(host)));
        ggml_backend_tensor_alloc(buffers_.back().get(), host, ggml_backend_buffer_get_base(buffers_.back().get()));
        ggml_backend_tensor_set(host, bytes.data(), 0, bytes.size());
        multiply(npu.get(), host, x, {512, 1, 1, 1});  // uploaded for the call
        ggml_backend_buffer_set_usage(buffers_.back().get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        multiply(npu.get(), host, x, {512, 1, 1, 1});  // kept on the host on purpose
        multiply(npu.get(), ggml_view_2d(context_.get(), host, 512, 32, host->nb[1], 0), x, {512, 1, 1, 1});
        ggml_backend_tensor_set(weights, bytes.data(), 0, bytes.size());
    }
    const auto last = statistics();
    EXPECT_EQ(last["matmul_npu"].get<int>() - after["matmul_npu"].get<int>(), 1);
    EXPECT_EQ(last["matmul_cpu"].get<int>() - after["matmul_cpu"].get<int>(), 2);
    EXPECT_GE(last["cpu_reasons"]["both operands are computed at run time (attention)"], 1);
    EXPECT_GE(last["cpu_reasons"]["the weights were kept in host memory (-ngl, -ot, or too small a matrix)"], 1);
    EXPECT_EQ(
        last["weight_bytes_uploaded_after_load"].get<int>() - after["weight_bytes_uploaded_after_load"].get<int>(),
        2 * 512 * 64);
}

}  // namespace
