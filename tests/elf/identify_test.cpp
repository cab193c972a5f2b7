// Which source a library was built from, asked of the source it was built from and of one that differs a little.
#include "elf/identify.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "elf/crash.h"
#include "elf/rtti.h"
#include "fixture.h"

namespace npu::elf {
namespace {

using namespace testing;

std::string source_of(const std::string& name) {
    std::stringstream text;
    text << std::ifstream(std::string(NPU_SOURCE_DIR "/tests/elf/fixtures/") + name).rdbuf();
    std::string s = text.str();
    // The fixture's macro has another name; the rule is the same.
    for (std::size_t at = 0; (at = s.find("SHAPES_ASSERT(", at)) != std::string::npos;) {
        s.replace(at, 14, "GGML_ASSERT(");
    }
    return s;
}

TEST(Identify, LiteralsAreJoinedAndCommentsAreNotRead) {
    SourceTexts t;
    read_source(
        "f(\"one \" /* no \"text\" */\n  \"two\\n\"); // \"comment\"\nchar c = '\"'; g(\"after\");"
        "GGML_ASSERT(a->ne[0] ==\n   b(\"x)y\"));",
        t);
    EXPECT_EQ(t.literals, (std::set<std::string>{"one two\n", "after"}));
    EXPECT_EQ(t.assertions, (std::set<std::string>{"a->ne[0]==b(\"x)y\")"}));
}

TEST(Identify, TheTreeThatWasBuiltScoresBestAndTheEvidenceIsWhatDiffers) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    const std::string right = source_of("shapes.cpp");
    std::string wrong = right;
    const std::string changed = "mask->ne[1] >= a->ne[1]";
    wrong.replace(wrong.find(changed), changed.size(), "mask->ne[1] == a->ne[1]");
    SourceTexts a{"other", {}, {}, 0}, b{"built", {}, {}, 0};
    read_source(wrong, a);
    read_source(right, b);
    const Identification result = identify(program, find_references(program), {a, b});
    ASSERT_EQ(result.scores.size(), 2U);
    EXPECT_FALSE(result.tie);
    EXPECT_EQ(result.scores[0].name, "built");
    EXPECT_GT(result.scores[0].assertions_present, 15U);
    EXPECT_EQ(result.scores[0].only_here, std::vector<std::string>{"assert mask->ne[1]>=a->ne[1]"});
    EXPECT_EQ(result.scores[1].missing_here, std::vector<std::string>{"assert mask->ne[1]>=a->ne[1]"});
    EXPECT_TRUE(identify(program, find_references(program), {b, b}).tie) << "control: equal trees are no answer";
}

TEST(Identify, ALoopOverLayersIsFoundByTheNameOfItsOutput) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    const auto loops = find_layer_loops(program, find_references(program), "l_out");
    ASSERT_EQ(loops.size(), 1U);
    const Function* f = program.function_at(loops[0].site);
    ASSERT_NE(f, nullptr);
    EXPECT_GE(loops[0].start, f->start);
    EXPECT_GT(loops[0].end, loops[0].start);
    EXPECT_LT(loops[0].end, f->end);
    ASSERT_EQ(loops[0].callbacks.size(), 1U);
    EXPECT_GT(loops[0].callbacks[0], loops[0].start);
    EXPECT_LT(loops[0].callbacks[0], loops[0].end);
    for (std::uint64_t a = loops[0].callbacks[0] + 4; a < loops[0].end; a += 4) {
        EXPECT_NE(program.instruction(a).op, Op::call_register) << "the callback is the last call, not the activation";
    }
    EXPECT_GE(loops[0].index_register, 0);
    EXPECT_TRUE(find_layer_loops(program, find_references(program), "no such name").empty());
}

TEST(Crash, OffsetsOfABacktraceBecomeAssertions) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    const References references = find_references(program);
    std::uint64_t call = 0;
    for (const AssertSite& s : find_asserts(program, find_sinks(program, references))) {
        call = s.expression == "mask->ne[0] == a->ne[0]" ? s.site : call;
    }
    ASSERT_NE(call, 0U);
    const std::string log =
        format("noise\n/usr/lib/shapes.so(+0x%llx) [0x7f8]\n/lib/libc.so.6(abort+0x123)\nx.so(+0x8)\n",
               static_cast<unsigned long long>(call + 4));
    const auto frames = read_backtrace(log);
    ASSERT_EQ(frames.size(), 2U);
    EXPECT_EQ(frames[0].module, "shapes.so");
    const auto explained = explain(program, references, "shapes.so", frames);
    EXPECT_EQ(explained[0].function, "shapes_soft_max");
    ASSERT_EQ(explained[0].assertions, std::vector<std::string>{"mask->ne[0] == a->ne[0]"});
    EXPECT_NE(explained[0].report.find("GET_LOGITS"), std::string::npos);
    EXPECT_TRUE(explained[1].function.empty()) << "another module is not looked up in this one";
}

TEST(Rtti, TypesAndLambdasHaveTheirNamesAndTheFunctionAroundThem) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    bool derived = false, lambda = false;
    for (const TypeName& t : find_types(program)) {
        derived |= t.name == "(anonymous namespace)::Gelu" && t.tables.size() == 1 && t.enclosing.empty();
        lambda |=
            t.name.find("{lambda(Tensor*, char const*, int)#1}") != std::string::npos && t.enclosing == "shapes_build";
    }
    EXPECT_TRUE(derived);
    EXPECT_TRUE(lambda);
    EXPECT_EQ(
        demangle("*ZL17llama_build_graphR13llama_contextRK11llama_batchbEUlP11ggml_tensorPKciE_"),
        "llama_build_graph(llama_context&, llama_batch const&, bool)::{lambda(ggml_tensor*, char const*, int)#1}");
    EXPECT_EQ(demangle("not mangled"), "");
}

}  // namespace
}  // namespace npu::elf
