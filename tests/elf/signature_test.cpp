// Functions found again in another build, judged by the symbols that both twins have and the code under test does not see.
#include "elf/signature.h"

#include "fixture.h"

namespace npu::elf {
namespace {

using namespace testing;

struct Pair {
    const char* before;
    const char* after;
    std::size_t least;  // functions that must be matched
};

class Builds : public ::testing::TestWithParam<Pair> {};

// Names without what compilers append to copies (.constprop.0, .isra.0, .part.0, .cold).
std::string plain(const std::string& name) { return name.substr(0, name.find('.')); }

TEST_P(Builds, MatchedFunctionsHaveTheSameSymbolAndAmbiguityIsReported) {
    const Pair& pair = GetParam();
    NPU_REQUIRE_FIXTURE(std::string(pair.before) + ".so");
    NPU_REQUIRE_FIXTURE(std::string(pair.after) + ".so");
    const Program before = analysed(std::string(pair.before) + ".so");
    const Program after = analysed(std::string(pair.after) + ".so");
    const FunctionDiff diff = match_functions(before, find_references(before), after, find_references(after));
    const auto old_truth = true_functions(std::string(pair.before) + ".debug.so");
    const auto new_truth = true_functions(std::string(pair.after) + ".debug.so");
    std::size_t judged = 0, right = 0, by_name = 0;
    std::string wrong;
    for (const Match& m : diff.matched) {
        if (std::string(m.by) == "name") {
            ++by_name;  // exported: no achievement
            continue;
        }
        const auto from = old_truth.find(m.from);
        const auto to = new_truth.find(m.to);
        if (from == old_truth.end() || to == new_truth.end()) {
            continue;
        }
        ++judged;
        const bool same = plain(from->second.name) == plain(to->second.name);
        right += same ? 1 : 0;
        wrong += same ? "" : from->second.name + " -> " + to->second.name + " by " + m.by + "\n";
    }
    EXPECT_GE(judged, pair.least);
    EXPECT_GE(static_cast<double>(right), 0.95 * static_cast<double>(judged)) << wrong.substr(0, 1500);
    EXPECT_FALSE(diff.ambiguous.empty());
    std::printf("    %zu of %zu matches right, %zu by exported name, %zu ambiguous, %zu gone, %zu new\n", right, judged,
                by_name, diff.ambiguous.size(), diff.gone.size(), diff.added.size());
}

INSTANTIATE_TEST_SUITE_P(Elf, Builds,
                         ::testing::Values(Pair{"rooms", "rooms_other", 20}, Pair{"ggml", "ggml_other", 100},
                                           Pair{"shapes", "shapes_fast", 1}),
                         [](const auto& info) { return std::string(info.param.before); });

TEST(Signatures, AFunctionMatchesItselfAndRepeatedOnesAreNotGuessed) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    const References references = find_references(program);
    const FunctionDiff diff = match_functions(program, references, program, references);
    for (const Match& m : diff.matched) {
        EXPECT_EQ(m.from, m.to);
    }
    std::size_t several = 0;
    for (const Ambiguous& a : diff.ambiguous) {
        several += a.candidates > 1 ? 1 : 0;
    }
    EXPECT_GT(several, 5U) << "template instances mention the same texts";
}

TEST(Signatures, TextsAreComparedWithoutFoldersLevelsAndFormats) {
    EXPECT_EQ(normalised("/home/a/src/ggml.c"), "ggml.c");
    EXPECT_EQ(normalised("E failed to submit, op id: %d"), normalised("failed to submit, op id: %lu"));
    EXPECT_NE(normalised("failed to submit"), normalised("failed to commit"));
    EXPECT_EQ(normalised("%s"), "");
}

}  // namespace
}  // namespace npu::elf
