#include "plugin/precision_policy.h"

#include <gtest/gtest.h>

#include <thread>

namespace npu::plugin {
namespace {

using gemm::Pipeline;

ggml_tensor weights(ggml_type type, std::int64_t k, std::int64_t n, std::int64_t experts = 1) {
    ggml_tensor tensor = {};
    tensor.type = type;
    tensor.ne[0] = k;
    tensor.ne[1] = n;
    tensor.ne[2] = experts;
    tensor.ne[3] = 1;
    return tensor;
}

PrecisionChoice ask(const PrecisionPolicy& policy, const ggml_tensor& tensor) { return policy(&tensor); }

PrecisionPolicy parse(const char* text) {
    auto policy = PrecisionPolicy::parse(text);
    EXPECT_TRUE(policy) << policy.error().message;
    return *policy;
}

TEST(PrecisionPolicy, AClassSaysWhatWeightsAreAndNotTheirName) {
    ggml_tensor q = weights(GGML_TYPE_Q4_K, 4096, 11008);
    EXPECT_EQ(weight_class(&q), "matmul 4096x11008 q4_K");
    std::snprintf(q.name, sizeof(q.name), "blk.0.ffn_up.weight");
    EXPECT_EQ(weight_class(&q), "matmul 4096x11008 q4_K");
    const ggml_tensor head = weights(GGML_TYPE_Q6_K, 2048, 151936);
    EXPECT_EQ(weight_class(&head), "head 2048x151936 q6_K");
    const ggml_tensor experts = weights(GGML_TYPE_Q4_0, 2048, 768, 128);
    EXPECT_EQ(weight_class(&experts), "experts 2048x768x128 q4_0");
}

TEST(PrecisionPolicy, OneWordIsForAll) {
    const ggml_tensor any = weights(GGML_TYPE_Q4_0, 512, 512);
    EXPECT_EQ(ask(parse("w4a8"), any).pipeline, Pipeline::w4a8);
    EXPECT_FALSE(ask(parse("w4a8"), any).by_rule);
    EXPECT_EQ(ask(parse("auto"), any).pipeline, std::nullopt);
    EXPECT_EQ(ask(parse(""), any).pipeline, std::nullopt);
}

TEST(PrecisionPolicy, TheFirstRuleThatMatchesTheWholeClassDecides) {
    const PrecisionPolicy policy = parse(" experts .* = w4a8 ;matmul (1024|2048)x.*=fp16; .* q4_0=int4; int8 ");
    const auto choice = [&](ggml_type type, std::int64_t k, std::int64_t n, std::int64_t experts = 1) {
        const ggml_tensor tensor = weights(type, k, n, experts);
        const PrecisionChoice first = policy(&tensor);
        EXPECT_EQ(policy(&tensor).pipeline, first.pipeline);  // it never changes its answer
        return first;
    };
    EXPECT_EQ(choice(GGML_TYPE_Q4_0, 2048, 768, 128).pipeline, Pipeline::w4a8);
    EXPECT_TRUE(choice(GGML_TYPE_Q4_0, 2048, 768, 128).by_rule);
    EXPECT_EQ(choice(GGML_TYPE_Q4_0, 2048, 768).pipeline, Pipeline::fp16);
    EXPECT_EQ(choice(GGML_TYPE_Q4_0, 12048, 768).pipeline, Pipeline::int4);  // not a part of the class
    EXPECT_EQ(choice(GGML_TYPE_Q8_0, 4096, 768).pipeline, Pipeline::int8);
    EXPECT_FALSE(choice(GGML_TYPE_Q8_0, 4096, 768).by_rule);
}

TEST(PrecisionPolicy, ARuleMayAskForAuto) {
    const PrecisionPolicy policy = parse("head .*=auto; int4");
    EXPECT_EQ(ask(policy, weights(GGML_TYPE_Q4_0, 512, 8192)).pipeline, std::nullopt);
    EXPECT_EQ(ask(policy, weights(GGML_TYPE_Q4_0, 512, 512)).pipeline, Pipeline::int4);
}

TEST(PrecisionPolicy, WithoutALastWordTheRestIsAuto) {
    const PrecisionPolicy policy = parse("head .*=fp16");
    EXPECT_EQ(ask(policy, weights(GGML_TYPE_Q4_0, 512, 8192)).pipeline, Pipeline::fp16);
    EXPECT_EQ(ask(policy, weights(GGML_TYPE_Q4_0, 512, 512)).pipeline, std::nullopt);
}

TEST(PrecisionPolicy, WhatCannotBeUnderstoodIsNamed) {
    for (const auto& [text, named] : {std::pair{"int3", "'int3'"},
                                      {"experts .*=int3; auto", "'int3'"},
                                      {"int8; experts .*=w4a8", "'int8'"},
                                      {"experts (=w4a8", "'experts ('"}}) {
        const auto policy = PrecisionPolicy::parse(text);
        ASSERT_FALSE(policy) << text;
        EXPECT_NE(policy.error().message.find(named), std::string::npos) << policy.error().message;
        EXPECT_NE(policy.error().message.find("GGML_NPU_PRECISION"), std::string::npos);
    }
}

TEST(PrecisionPolicy, ThreadsMayAskAtOnce) {
    const PrecisionPolicy policy = parse("matmul .*=fp16; int8");
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&policy] {
            for (std::int64_t k = 1; k < 500; ++k) {
                EXPECT_EQ(ask(policy, weights(GGML_TYPE_Q4_0, k, 1)).pipeline, Pipeline::fp16);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

}  // namespace
}  // namespace npu::plugin
