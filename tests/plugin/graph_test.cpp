// Whole graphs through ggml's scheduler: what the plugin makes of their order.
#include "support.h"

namespace {

using namespace plugin_test;

struct FreeScheduler {
    void operator()(ggml_backend_sched* scheduler) const { ggml_backend_sched_free(scheduler); }
};

class GraphTest : public PluginTest {
  protected:
    static constexpr std::int64_t inputs = 512;
    static constexpr std::int64_t rows = 5;

    // The tensors that the graph ends with, from the graph's context and its input of `rows` rows.
    using Build = std::vector<ggml_tensor*> (*)(ggml_context*, ggml_tensor* x,
                                                const std::vector<ggml_tensor*>& weights);

    // Runs a graph on a device and the CPU, or on the CPU alone.
    std::vector<float> run(Build build, ggml_backend_dev_t device, const std::vector<ggml_tensor*>& weights) {
        std::vector<Owned<ggml_backend>> backends;
        backends.emplace_back(ggml_backend_dev_init(device, nullptr));
        if (device == device_) {
            backends.emplace_back(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
        }
        std::vector<ggml_backend_t> order;
        for (const auto& backend : backends) {
            order.push_back(backend.get());
        }
        const std::unique_ptr<ggml_backend_sched, FreeScheduler> scheduler(
            ggml_backend_sched_new(order.data(), nullptr, static_cast<int>(order.size()), 256, false, false));
        Owned<ggml_context> context(ggml_init({16 * 1024 * 1024, nullptr, true}));
        ggml_tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, inputs, rows);
        ggml_set_input(x);
        ggml_cgraph* graph = ggml_new_graph(context.get());
        const std::vector<ggml_tensor*> outputs = build(context.get(), x, weights);
        for (ggml_tensor* output : outputs) {
            ggml_set_output(output);
            ggml_build_forward_expand(graph, output);
        }
        EXPECT_TRUE(ggml_backend_sched_alloc_graph(scheduler.get(), graph)) << log_text;
        std::vector<float> values(inputs * rows);
        std::mt19937 random(7);
        std::normal_distribution<float> normal;
        for (float& value : values) {
            value = normal(random);
        }
        ggml_backend_tensor_set(x, values.data(), 0, ggml_nbytes(x));
        EXPECT_EQ(ggml_backend_sched_graph_compute(scheduler.get(), graph), GGML_STATUS_SUCCESS) << log_text;
        std::vector<float> results;
        for (ggml_tensor* output : outputs) {
            std::vector<float> part(static_cast<std::size_t>(ggml_nelements(output)));
            ggml_backend_tensor_get(output, part.data(), 0, ggml_nbytes(output));
            results.insert(results.end(), part.begin(), part.end());
        }
        return results;
    }

    // The same matrices in the NPU's memory and in the host's.
    void make_weights(const std::vector<ggml_type>& types) {
        for (std::size_t i = 0; i < types.size(); ++i) {
            std::vector<std::uint8_t> bytes;
            const auto channels = static_cast<std::int64_t>(64 + 32 * i);
            ggml_tensor* resident = PluginTest::make_weights(types[i], inputs, channels, bytes);
            ggml_backend_tensor_set(resident, bytes.data(), 0, bytes.size());
            on_npu_.push_back(resident);
            ggml_tensor* host = ggml_new_tensor_2d(context_.get(), types[i], inputs, channels);
            buffers_.emplace_back(
                ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), ggml_nbytes(host) + 64));
            ggml_backend_tensor_alloc(buffers_.back().get(), host, ggml_backend_buffer_get_base(buffers_.back().get()));
            ggml_backend_tensor_set(host, bytes.data(), 0, bytes.size());
            on_host_.push_back(host);
        }
    }

    // Compares device and CPU, and returns how many jobs the device did.
    int jobs(Build build) {
        Owned<ggml_backend>(ggml_backend_dev_init(device_, nullptr)).reset();
        const int before = statistics()["submissions"].get<int>();
        const std::vector<float> npu = run(build, device_, on_npu_);
        const int after = statistics()["submissions"].get<int>();
        const std::vector<float> cpu = run(build, ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), on_host_);
        double error = 0;
        double energy = 0;
        for (std::size_t i = 0; i < cpu.size(); ++i) {
            error += (npu[i] - cpu[i]) * (npu[i] - cpu[i]);
            energy += cpu[i] * cpu[i];
        }
        EXPECT_LT(error, 1e-3 * energy);
        return after - before;
    }

    std::vector<ggml_tensor*> on_npu_;
    std::vector<ggml_tensor*> on_host_;
};

// As models write it: each of q, k and v with something of its own before the next one begins.
std::vector<ggml_tensor*> attention_inputs(ggml_context* context, ggml_tensor* x,
                                           const std::vector<ggml_tensor*>& weights) {
    ggml_tensor* shared = ggml_rms_norm(context, x, 1e-5F);
    std::vector<ggml_tensor*> outputs;
    for (ggml_tensor* matrix : weights) {
        ggml_tensor* product = ggml_mul_mat(context, matrix, shared);
        outputs.push_back(ggml_silu(
            context, ggml_rms_norm(context, ggml_reshape_1d(context, product, ggml_nelements(product)), 1e-5F)));
    }
    return outputs;
}

// The last one multiplies what was written over the activations of the first.
std::vector<ggml_tensor*> overwritten(ggml_context* context, ggml_tensor* x, const std::vector<ggml_tensor*>& weights) {
    ggml_tensor* shared = ggml_rms_norm(context, x, 1e-5F);
    ggml_tensor* first = ggml_scale(context, ggml_mul_mat(context, weights[0], shared), 2.0F);
    ggml_tensor* changed = ggml_scale_inplace(context, shared, 3.0F);
    ggml_tensor* by_change = ggml_mul_mat(context, weights[1], changed);
    return {first, by_change, ggml_mul_mat(context, weights[2], shared)};
}

TEST_F(GraphTest, MatmulsOfTheSameActivationsAreOneJob) {
    make_weights({GGML_TYPE_Q4_K, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K});
    EXPECT_EQ(jobs(attention_inputs), 1);
}

TEST_F(GraphTest, EachFormatOfActivationsIsAJob) {
    make_weights({GGML_TYPE_Q8_0, GGML_TYPE_F16, GGML_TYPE_Q8_0});
    EXPECT_EQ(jobs(attention_inputs), 2);
}

TEST_F(GraphTest, SoAreRotatedActivations) {
    make_weights({GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0});
    EXPECT_EQ(jobs(attention_inputs), 2);
}

TEST_F(GraphTest, MatmulsOnBothSidesOfAWriteIntoTheirActivationsStayWhereTheyAre) {
    make_weights({GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0});
    EXPECT_EQ(jobs(overwritten), 3);
}

// With GGML_NPU_LOG=ops and GGML_NPU_PROFILE=1.
using SaidTest = GraphTest;

std::size_t count(const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = log_text.find(text); at != std::string::npos; at = log_text.find(text, at + 1)) {
        ++found;
    }
    return found;
}

TEST_F(SaidTest, EveryMatmulIsLoggedWithItsShapeAndWhereItRuns) {
    make_weights({GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_F16});
    log_text.clear();
    jobs(attention_inputs);
    EXPECT_EQ(count("MUL_MAT 5 x 512 -> 64, q8_0 as int8: NPU"), 1U) << log_text;
    EXPECT_EQ(count("MUL_MAT 5 x 512 -> 96, q8_0 as int8: NPU: in the same job as the one before"), 1U) << log_text;
    EXPECT_EQ(count("MUL_MAT 5 x 512 -> 128, f16 as fp16: NPU"), 1U) << log_text;
}

TEST_F(SaidTest, TheTimeOfTheHostIsToldByShapeWhenTheDeviceCloses) {
    make_weights({GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_F16});
    log_text.clear();
    jobs(attention_inputs);
    EXPECT_EQ(count("5 x 512 -> 64 + 96, int8 rotated"), 1U) << log_text;
    EXPECT_EQ(count("5 x 512 -> 128, fp16"), 1U) << log_text;
    EXPECT_EQ(count("all matmuls on the NPU"), 1U) << log_text;
    EXPECT_EQ(count("ranges of other operations on the CPU"), 1U) << log_text;
}

}  // namespace
