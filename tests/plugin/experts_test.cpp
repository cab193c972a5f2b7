// Matmuls with expert selection, whose weights lie in NPU memory expert by expert.
#include <algorithm>
#include <cstring>

#include "support.h"

namespace {

using namespace plugin_test;

class ExpertsTest : public PluginTest {
  protected:
    static constexpr std::int64_t k = 1536;  // several K tiles of 4 bits
    static constexpr std::int64_t n = 72;
    static constexpr std::int64_t experts = 7;

    struct Stack {
        ggml_tensor* npu = nullptr;
        ggml_tensor* host = nullptr;
        std::vector<std::uint8_t> bytes;
    };

    // The same matrices in the NPU's memory and in the host's.
    Stack make_stack(ggml_type type, std::uint32_t seed) {
        Stack stack;
        stack.npu = ggml_new_tensor_3d(context_.get(), type, k, n, experts);
        stack.host = ggml_dup_tensor(context_.get(), stack.npu);
        stack.bytes.resize(ggml_nbytes(stack.npu));
        const auto floats = random_floats(static_cast<std::size_t>(k * n * experts), seed);
        ggml_quantize_chunk(type, floats.data(), stack.bytes.data(), 0, n * experts, k, nullptr);
        for (ggml_tensor* tensor : {stack.npu, stack.host}) {
            ggml_backend_buffer_type_t memory = tensor == stack.npu ? weight_type_ : ggml_backend_cpu_buffer_type();
            buffers_.emplace_back(
                ggml_backend_buft_alloc_buffer(memory, ggml_backend_buft_get_alloc_size(memory, tensor) + 64));
            ggml_backend_buffer_set_usage(buffers_.back().get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
            ggml_backend_tensor_alloc(buffers_.back().get(), tensor,
                                      ggml_backend_buffer_get_base(buffers_.back().get()));
            ggml_backend_tensor_set(tensor, stack.bytes.data(), 0, stack.bytes.size());
        }
        return stack;
    }

    struct Batch {
        std::int64_t used = 0;
        std::int64_t tokens = 0;
        bool shared = false;  // all slots of a token have the same activations
        std::vector<float> x;
        std::vector<std::int32_t> ids;

        [[nodiscard]] std::int64_t inputs() const { return shared ? 1 : used; }
        [[nodiscard]] Batch token(std::int64_t index) const {
            const auto part = [&](const auto& values, std::int64_t size) {
                const auto begin = values.begin() + index * size;
                return std::decay_t<decltype(values)>(begin, begin + size);
            };
            return {used, 1, shared, part(x, k * inputs()), part(ids, used)};
        }
    };

    static Batch random_batch(std::int64_t used, std::int64_t tokens, bool shared, std::uint32_t seed) {
        Batch batch{used, tokens, shared, {}, {}};
        batch.x = random_floats(static_cast<std::size_t>(k * batch.inputs() * tokens), seed);
        std::mt19937 random(seed);
        for (std::int64_t i = 0; i < used * tokens; ++i) {
            batch.ids.push_back(static_cast<std::int32_t>(random() % (experts - 1)));  // nobody chooses the last one
        }
        return batch;
    }

    // The products with each stack, one after another.
    static std::vector<float> compute(ggml_backend_t backend, const std::vector<ggml_tensor*>& stacks,
                                      const Batch& batch, ggml_status expected = GGML_STATUS_SUCCESS) {
        Owned<ggml_context> context(ggml_init({16 * 1024 * 1024, nullptr, true}));
        ggml_tensor* x = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, k, batch.inputs(), batch.tokens);
        ggml_tensor* ids = ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, batch.used, batch.tokens);
        ggml_cgraph* graph = ggml_new_graph(context.get());
        std::vector<ggml_tensor*> products;
        for (ggml_tensor* stack : stacks) {
            products.push_back(ggml_mul_mat_id(context.get(), stack, x, ids));
            ggml_build_forward_expand(graph, products.back());
        }
        Owned<ggml_backend_buffer> buffer(
            ggml_backend_alloc_ctx_tensors_from_buft(context.get(), ggml_backend_cpu_buffer_type()));
        ggml_backend_tensor_set(x, batch.x.data(), 0, ggml_nbytes(x));
        ggml_backend_tensor_set(ids, batch.ids.data(), 0, ggml_nbytes(ids));
        EXPECT_EQ(ggml_backend_graph_compute(backend, graph), expected) << log_text;
        std::vector<float> results;
        for (ggml_tensor* product : products) {
            std::vector<float> part(static_cast<std::size_t>(ggml_nelements(product)));
            ggml_backend_tensor_get(product, part.data(), 0, ggml_nbytes(product));
            results.insert(results.end(), part.begin(), part.end());
        }
        return results;
    }

    static double normalised_error(const std::vector<float>& found, const std::vector<float>& expected) {
        double error = 0;
        double energy = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            error += (found[i] - expected[i]) * (found[i] - expected[i]);
            energy += expected[i] * expected[i];
        }
        return error / energy;
    }

    Owned<ggml_backend> npu() { return Owned<ggml_backend>(ggml_backend_dev_init(device_, nullptr)); }
    static Owned<ggml_backend> cpu() {
        return Owned<ggml_backend>(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    }
};

TEST_F(ExpertsTest, EveryTokenIsMultipliedByTheMatricesThatItChose) {
    const auto npu = this->npu();
    const auto cpu = this->cpu();
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        const Stack stack = make_stack(type, 1);
        for (const std::int64_t tokens : {1, 2, 17, 40}) {
            for (const std::int64_t used : {1, 2, 4}) {
                for (const bool shared : {false, true}) {
                    const Batch batch =
                        random_batch(used, tokens, shared, static_cast<std::uint32_t>(tokens * 10 + used));
                    const auto expected = compute(cpu.get(), {stack.host}, batch);
                    const auto found = compute(npu.get(), {stack.npu}, batch);
                    EXPECT_LT(normalised_error(found, expected), type == GGML_TYPE_F16 ? 1e-5 : 1e-3)
                        << ggml_type_name(type) << " " << tokens << " tokens of " << used;
                    Batch other = batch;  // the control: other experts give something else
                    for (std::int32_t& id : other.ids) {
                        id = (id + 1) % experts;
                    }
                    EXPECT_GT(normalised_error(compute(npu.get(), {stack.npu}, other), expected), 0.1);
                }
            }
        }
    }
}

TEST_F(ExpertsTest, WithEnoughRowsTheNpuMultiplies) {
    const Stack stack = make_stack(GGML_TYPE_Q8_0, 1);
    Batch batch = random_batch(1, 700, true, 3);
    std::fill(batch.ids.begin(), batch.ids.end(), 2);
    batch.ids.front() = 4;
    compute(this->npu().get(), {stack.npu}, batch);
    EXPECT_GE(statistics()["matmul_npu"], 1);
    EXPECT_GE(statistics()["submissions"], 1);
}

TEST_F(ExpertsTest, MatricesThatShareActivationsAndIdsDoNotChangeEachOther) {
    const auto npu = this->npu();
    const Stack gate = make_stack(GGML_TYPE_Q8_0, 1);
    const Stack up = make_stack(GGML_TYPE_Q8_0, 2);
    for (const std::int64_t tokens : {1, 33}) {
        const Batch batch = random_batch(2, tokens, true, 5);
        std::vector<float> alone = compute(npu.get(), {gate.npu}, batch);
        const std::vector<float> second = compute(npu.get(), {up.npu}, batch);
        alone.insert(alone.end(), second.begin(), second.end());
        EXPECT_EQ(compute(npu.get(), {gate.npu, up.npu}, batch), alone) << tokens;
    }
}

TEST_F(ExpertsTest, ATokensResultDoesNotDependOnTheOthers) {
    const auto npu = this->npu();
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        const Stack stack = make_stack(type, 3);
        const Batch batch = random_batch(3, 24, false, 9);
        const std::vector<float> together = compute(npu.get(), {stack.npu}, batch);
        for (std::int64_t token = 0; token < batch.tokens; ++token) {
            const std::vector<float> alone = compute(npu.get(), {stack.npu}, batch.token(token));
            EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + token * n * batch.used))
                << ggml_type_name(type) << ", token " << token;
        }
    }
}

TEST_F(ExpertsTest, StacksGiveBackTheirBytes) {
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        const Stack stack = make_stack(type, 4);
        std::vector<std::uint8_t> back(stack.bytes.size());
        ggml_backend_tensor_get(stack.npu, back.data(), 0, back.size());
        EXPECT_EQ(back, stack.bytes) << ggml_type_name(type);
        const std::size_t middle = stack.npu->nb[2] * 2 - 50;  // from one matrix into the next
        ggml_backend_tensor_get(stack.npu, back.data(), middle, 100);
        EXPECT_TRUE(
            std::equal(back.begin(), back.begin() + 100, stack.bytes.begin() + static_cast<std::ptrdiff_t>(middle)));
    }
}

TEST_F(ExpertsTest, AnIdThatNoExpertHasIsAnErrorThatNamesIt) {
    const auto npu = this->npu();
    const Stack stack = make_stack(GGML_TYPE_Q8_0, 5);
    for (const std::int64_t tokens : {1, 20}) {
        for (const std::int32_t bad : {static_cast<std::int32_t>(experts), -1}) {
            Batch batch = random_batch(2, tokens, true, 5);
            batch.ids.back() = bad;
            log_text.clear();
            compute(npu.get(), {stack.npu}, batch, GGML_STATUS_FAILED);
            EXPECT_NE(log_text.find("expert " + std::to_string(bad)), std::string::npos) << log_text;
            batch.ids.back() = 0;
            compute(npu.get(), {stack.npu}, batch);  // and it goes on
        }
    }
}

}  // namespace
