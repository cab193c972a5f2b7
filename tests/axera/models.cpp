#include "axera/models.h"

#include <cstdlib>
#include <filesystem>
#include <random>

namespace npu::axera::test {

std::optional<std::string> model_folder() {
    const char* data = std::getenv("NPU_TEST_DATA");
    if (data == nullptr || !std::filesystem::exists(std::string(data) + "/data/axmodel/golden.json")) {
        return std::nullopt;
    }
    return std::string(data) + "/data/axmodel";
}

ModelRecipe layer_recipe(bool three_thirds) {
    using enum onnx::ElementType;
    ModelRecipe recipe;
    recipe.three_thirds = three_thirds;
    constexpr std::uint64_t width = 32;  // K and V of one token
    constexpr std::uint64_t hidden = 64;
    const auto group = [&](std::uint64_t tokens, std::uint64_t history) {
        const std::uint64_t rows = history == 0 ? 1 : history;
        return GroupRecipe{{{"K_cache", bfloat16, {1, rows, width}},
                            {"V_cache", bfloat16, {1, rows, width}},
                            {"indices", uint32, {1, tokens}},
                            {"input", bfloat16, {1, tokens, hidden}},
                            {"mask", bfloat16, {1, tokens, history + tokens}}},
                           {{"K_cache_out", bfloat16, {1, tokens, width}},
                            {"V_cache_out", bfloat16, {1, tokens, width}},
                            {"output", bfloat16, {1, tokens, hidden}}}};
    };
    recipe.groups = {group(1, 127), group(16, 0), group(16, 64)};
    std::mt19937 random(7);
    recipe.params.resize(1000);
    for (std::uint8_t& byte : recipe.params) {
        byte = static_cast<std::uint8_t>(random());
    }
    return recipe;
}

}  // namespace npu::axera::test
