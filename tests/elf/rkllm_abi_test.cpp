// The table of the RKLLM interface against structs that a compiler lays out, and bindings that would corrupt memory.
#include "elf/rkllm_abi.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace npu::elf {
namespace {

// As the interface of 1.3.0 is documented; the compiler is the reference for what the table and the reader say.
#define RKLLM_130                      \
    struct RKLLMExtendParam {          \
        int32_t base_domain_id;        \
        int8_t embed_flash;            \
        int8_t enabled_cpus_num;       \
        uint32_t enabled_cpus_mask;    \
        uint8_t n_batch;               \
        int8_t use_cross_attn;         \
        uint8_t reserved[104];         \
    };                                 \
    struct RKLLMParam {                \
        const char* model_path;        \
        int32_t max_context_len;       \
        int32_t max_new_tokens;        \
        int32_t top_k;                 \
        int32_t n_keep;                \
        float top_p;                   \
        float temperature;             \
        float repeat_penalty;          \
        float frequency_penalty;       \
        float presence_penalty;        \
        int32_t mirostat;              \
        float mirostat_tau;            \
        float mirostat_eta;            \
        bool skip_special_token;       \
        bool ignore_eos_token;         \
        bool is_async;                 \
        RKLLMExtendParam extend_param; \
    };
#define TEXT_OF(...) #__VA_ARGS__
#define EXPANDED(...) TEXT_OF(__VA_ARGS__)

namespace compiled {
RKLLM_130
}

const AbiVersion& version(const char* name) {
    const AbiVersion* found = find_abi(name);
    EXPECT_NE(found, nullptr) << name;
    return *found;
}

std::size_t harmful(const std::vector<AbiFinding>& findings) {
    std::size_t count = 0;
    for (const AbiFinding& f : findings) {
        count += f.harmful ? 1 : 0;
    }
    return count;
}

bool says(const std::vector<AbiFinding>& findings, const std::string& text) {
    for (const AbiFinding& f : findings) {
        if (f.message.find(text) != std::string::npos) {
            return true;
        }
    }
    return false;
}

TEST(RkllmAbi, TheTableHasTheSizesOfThePublishedHeaders) {
    EXPECT_EQ(abi_versions().size(), 10U);
    EXPECT_EQ(version("1.0.1").find("RKLLMParam")->size, 72U);
    EXPECT_EQ(version("1.1.0").find("RKLLMParam")->size, 200U);
    EXPECT_EQ(version("1.2.3").find("RKLLMParam")->size, 208U);
    EXPECT_EQ(version("1.3.0").find("RKLLMParam")->size, sizeof(compiled::RKLLMParam));
    EXPECT_EQ(version("1.3.0").find("RKLLMInput")->size, 160U);
    EXPECT_EQ(version("1.2.1b1").find("RKLLMInput")->size, 56U);
    EXPECT_EQ(version("1.3.0").find("RKLLMParam")->fields.back().offset, offsetof(compiled::RKLLMParam, extend_param));
    EXPECT_EQ(find_abi("1.3.1"), &version("1.3.0")) << "a later release of the same line";
    EXPECT_EQ(find_abi("2.0.0"), nullptr);
    EXPECT_EQ(version("1.2.3").find("RKLLMMultiModelInput"), version("1.2.3").find("RKLLMMultiModalInput"));
}

TEST(RkllmAbi, AHeaderIsLaidOutAsTheCompilerDoes) {
    const auto binding = read_binding(EXPANDED(RKLLM_130), "rkllm.h");
    ASSERT_TRUE(binding) << binding.error().message;
    ASSERT_EQ(binding->size(), 2U);
    const BindingStruct& p = (*binding)[1];
    EXPECT_EQ(p.unknown, "");
    EXPECT_EQ(p.size, sizeof(compiled::RKLLMParam));
    const AbiStruct* known = version("1.3.0").find("RKLLMParam");
    ASSERT_EQ(p.fields.size(), known->fields.size());
    for (std::size_t i = 0; i < p.fields.size(); ++i) {
        EXPECT_EQ(p.fields[i].name, known->fields[i].name);
        EXPECT_EQ(p.fields[i].offset, known->fields[i].offset);
    }
    EXPECT_EQ(harmful(check_binding(*binding, version("1.3.0"))), 0U);
    const auto findings = check_binding(*binding, version("1.2.3"));
    EXPECT_GT(harmful(findings), 0U);
    EXPECT_TRUE(says(findings, "this is the layout of 1.3.0"));
}

const char* const ctypes_123 = R"(
LLMHandle_t = ctypes.c_void_p
RKLLMInputType = ctypes.c_int
class RKLLMPromptInput(ctypes.Structure):
    _fields_ = [("prompt", ctypes.c_char_p)]
class RKLLMEmbedInput(ctypes.Structure):
    _fields_ = [
        ("embed", ctypes.POINTER(ctypes.c_float)),
        ("n_tokens", ctypes.c_size_t)
    ]
class RKLLMTokenInput(ctypes.Structure):
    _fields_ = [("input_ids", ctypes.POINTER(ctypes.c_int32)), ("n_tokens", ctypes.c_size_t)]
class RKLLMMultiModalInput(ctypes.Structure):
    _fields_ = [("prompt", ctypes.c_char_p), ("image_embed", ctypes.POINTER(ctypes.c_float)),
                ("n_image_tokens", ctypes.c_size_t), ("n_image", ctypes.c_size_t),
                ("image_width", ctypes.c_size_t), ("image_height", ctypes.c_size_t)]
class RKLLMInputUnion(ctypes.Union):
    _fields_ = [("prompt_input", ctypes.c_char_p), ("embed_input", RKLLMEmbedInput),
                ("token_input", RKLLMTokenInput), ("multimodal_input", RKLLMMultiModalInput)]
class RKLLMInput(ctypes.Structure):
    _fields_ = [
        ("role", ctypes.c_char_p),            # who speaks
        ("enable_thinking", ctypes.c_bool),
        ("input_type", RKLLMInputType),
        ("input_data", RKLLMInputUnion)
    ]
class RKLLMInferParam(ctypes.Structure):
    _fields_ = [("mode", ctypes.c_int), ("lora_params", ctypes.c_void_p),
                ("prompt_cache_params", ctypes.c_void_p), ("keep_history", ctypes.c_int)]
)";

TEST(RkllmAbi, CtypesClassesFitTheirVersionAndTheTrapsOfTheNextAreNamed) {
    const auto binding = read_binding(ctypes_123, "binding.py");
    ASSERT_TRUE(binding) << binding.error().message;
    const auto same = check_binding(*binding, version("1.2.3"));
    EXPECT_EQ(harmful(same), 0U) << (same.empty() ? "" : same[0].structure + ": " + same[0].message);
    const auto next = check_binding(*binding, version("1.3.0"));
    EXPECT_TRUE(says(next, "keep_history = 1 for a pointer to sampling parameters"));
    EXPECT_TRUE(says(next, "this is the layout of"));
    const auto before = check_binding(*binding, version("1.2.0"));
    EXPECT_GT(harmful(before), 0U);
}

TEST(RkllmAbi, AFloatForAnIntegerIsFound) {
    const auto binding = read_binding(
        "class RKLLMSamplingParam(Structure):\n  _fields_ = [('top_k', c_float), ('top_p', c_float), "
        "('temperature', c_float), ('repeat_penalty', c_float), ('frequency_penalty', c_float), "
        "('presence_penalty', c_float), ('mirostat', c_int), ('mirostat_tau', c_float), ('mirostat_eta', c_float)]\n",
        "x.py");
    ASSERT_TRUE(binding);
    const auto findings = check_binding(*binding, version("1.3.0"));
    EXPECT_EQ(harmful(findings), 1U);
    EXPECT_TRUE(says(findings, "top_k is an integer"));
}

TEST(RkllmAbi, WhatIsNotUnderstoodIsNamed) {
    const auto unknown = read_binding("struct RKLLMLoraParam { Mystery x; const char* lora_adapter_name; };", "x.h");
    ASSERT_TRUE(unknown);
    EXPECT_EQ((*unknown)[0].unknown, "Mystery");
    EXPECT_EQ(harmful(check_binding(*unknown, version("1.3.0"))), 1U);
    EXPECT_FALSE(read_binding("int main() { return 0; }", "main.c"));
    EXPECT_FALSE(read_binding("", "empty"));
    EXPECT_FALSE(read_binding("struct { { { union {", "broken"));
    EXPECT_FALSE(read_binding("class X(Structure):\n _fields_ = [(((", "broken.py"));
}

}  // namespace
}  // namespace npu::elf
