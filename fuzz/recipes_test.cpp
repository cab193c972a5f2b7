// A fuzzer that starts from programs which are refused looks at refusals only. So: every recipe, in every shape that it
// may draw, runs to its end in strict mode.
#include "fuzz/recipes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rockchip/command.h"
#include "sim/core.h"

namespace npu::fuzz {
namespace {

constexpr Places places{.features = 0x00100000, .weights = 0x00200000, .outputs = 0x00300000, .operands = 0x00400000};
constexpr std::uint32_t recipes = 8;  // values of the first byte

TEST(RecipeTest, EveryRecipeRunsInStrictModeInEveryShapeThatItDraws) {
    std::vector<std::vector<std::byte>> buffers(5, std::vector<std::byte>(place_bytes));
    sim::MappedMemory memory;
    const std::uint32_t addresses[] = {0, places.features, places.weights, places.outputs, places.operands};
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        ASSERT_TRUE(memory.map(addresses[i], buffers[i]));
    }
    std::mt19937 random(1);
    std::map<std::string, std::string> refused;  // by the first finding
    std::set<std::uint32_t> enables;
    std::size_t finished = 0;
    std::size_t without_tables = 0;
    constexpr std::size_t draws = 250;
    for (std::uint32_t kind = 0; kind < recipes; ++kind) {
        for (std::size_t draw = 0; draw < draws; ++draw) {
            std::vector<std::uint8_t> bytes(32);
            for (std::uint8_t& byte : bytes) {
                byte = static_cast<std::uint8_t>(random());
            }
            bytes[0] = static_cast<std::uint8_t>(kind);
            Input input(bytes.data(), bytes.size());
            const Recipe recipe = draw_recipe(input, places);
            const auto words = recipe.registers.words(recipe.enable);
            std::memcpy(buffers[0].data(), words.data(), words.size() * 8);
            sim::Core core(sim::CoreOptions{});
            const sim::KickResult result =
                core.run({.base = 0,
                          .amount = rockchip::fetch_amount(static_cast<std::uint32_t>(words.size())),
                          .task_number = 1},
                         memory);
            if (result.finished) {
                ++finished;
                enables.insert(recipe.enable);
            } else if (result.findings.front().message.starts_with("the task uses the look-up tables")) {
                ++without_tables;  // a list of registers cannot fill them: that takes the same register 513 times
            } else {
                refused[result.findings.front().message.substr(0, 120)] = "recipe " + std::to_string(kind);
            }
        }
    }
    for (const auto& [message, where] : refused) {
        ADD_FAILURE() << where << ": " << message;
    }
    EXPECT_EQ(finished + without_tables, recipes * draws);
    EXPECT_LT(without_tables, draws);
    EXPECT_EQ(enables, (std::set<std::uint32_t>{0x0d, 0x1d, 0x18, 0x60}));
}

}  // namespace
}  // namespace npu::fuzz
