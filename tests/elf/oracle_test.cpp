// What is read from stripped libraries against what binutils knows of their twins with debug information.
#include <algorithm>
#include <fstream>
#include <set>

#include "elf/asserts.h"
#include "elf/references.h"
#include "fixture.h"

namespace npu::elf {
namespace {

using namespace testing;

class Twin : public ::testing::TestWithParam<const char*> {
  protected:
    [[nodiscard]] std::string stripped() const { return std::string(GetParam()) + ".so"; }
    [[nodiscard]] std::string twin() const { return std::string(GetParam()) + ".debug.so"; }
};

TEST_P(Twin, FunctionsBeginAndEndWhereTheSymbolTableSays) {
    NPU_REQUIRE_FIXTURE(stripped());
    const Program program = analysed(stripped());
    const auto truth = true_functions(twin());
    ASSERT_GT(truth.size(), 20U);
    std::map<std::uint64_t, const Function*> ours;
    for (const Function& f : program.functions()) {
        ours[f.start] = &f;
    }
    std::size_t right = 0;
    for (const auto& [address, f] : truth) {
        const auto found = ours.find(address);
        right += found != ours.end() && found->second->end == address + f.size ? 1 : 0;
    }
    const double share = static_cast<double>(right) / static_cast<double>(truth.size());
    EXPECT_GE(share, 0.97) << right << " of " << truth.size();
    std::size_t invented = 0;
    for (const auto& [address, f] : ours) {
        invented += truth.contains(address) ? 0 : 1;
    }
    EXPECT_LE(invented, 4 + truth.size() / 100) << "start-up code of the compiler has no symbols of a size";
    std::printf("    functions: %zu of %zu right, %zu that have no symbol\n", right, truth.size(), invented);
}

// Whether the register that an instruction adds to was last loaded from the stack: half an address that a function with too
// many values put aside, which following registers cannot see. By the text of objdump.
bool kept_on_stack(const std::string& twin, std::uint64_t site) {
    const std::string text = shell(format("aarch64-linux-gnu-objdump -d --no-show-raw-insn --start-address=0x%llx "
                                          "--stop-address=0x%llx %s",
                                          static_cast<unsigned long long>(site - 400),
                                          static_cast<unsigned long long>(site + 4), fixture(twin).c_str()))
                                 .text;
    const std::vector<std::string> all = lines(text);
    const std::string& last = all.back();
    const std::size_t at = last.find_first_of("x", last.find(", ") == std::string::npos ? 0 : last.find(", "));
    const std::string base = at == std::string::npos ? "" : last.substr(at, last.find_first_of(",]", at) - at);
    for (std::size_t i = all.size() - 1; i-- > 0 && !base.empty();) {
        const std::size_t operands = all[i].find('\t', all[i].find('\t') + 1);
        const bool writes =
            operands != std::string::npos && all[i].compare(operands + 1, base.size() + 1, base + ",") == 0;
        if (writes && all[i].find("\tstr") == std::string::npos) {
            return all[i].find("\tldr\t") != std::string::npos && all[i].find("[sp") != std::string::npos;
        }
    }
    return false;
}

TEST_P(Twin, ReferencesAreThoseThatTheLinkerRelocated) {
    NPU_REQUIRE_FIXTURE(stripped());
    const Program program = analysed(stripped());
    const References references = find_references(program);
    std::set<std::pair<std::uint64_t, std::uint64_t>> ours;
    std::map<std::uint64_t, ReferenceKind> sites;
    for (const Reference& r : references.all) {
        ours.emplace(r.site, r.target);
        sites.emplace(r.site, r.kind);
    }
    std::set<std::uint64_t> relocated;
    std::size_t wanted = 0, right = 0, spilled = 0;
    std::string missing;
    for (const std::string& line : lines(shell("aarch64-linux-gnu-readelf -rW " + fixture(twin())).text)) {
        unsigned long long site = 0, info = 0, value = 0, addend = 0;
        char type[64], name[4096], sign = '+';
        const int fields = std::sscanf(line.c_str(), "%llx %llx %63s %llx %4095s %c %llx", &site, &info, type, &value,
                                       name, &sign, &addend);
        const std::string kind = fields >= 4 ? type : "";
        const bool got = kind == "R_AARCH64_LD64_GOT_";
        const bool low = kind.starts_with("R_AARCH64_ADD_ABS") || kind.starts_with("R_AARCH64_LDST") ||
                         kind.starts_with("R_AARCH64_ADR_PREL_LO21") || kind.starts_with("R_AARCH64_LD_PREL_LO19");
        if (kind.starts_with("R_AARCH64_LD64_GOT") || got) {
            relocated.insert(site);
            continue;
        }
        if (!low || program.function_at(site) == nullptr) {
            continue;
        }
        relocated.insert(site);
        ++wanted;
        const std::uint64_t target = fields == 7 ? value + (sign == '-' ? 0 - addend : addend) : value;
        if (ours.contains({site, target})) {
            ++right;
        } else if (kept_on_stack(twin(), site)) {
            ++spilled;
        } else {
            missing += format(" %llx->%llx", site, static_cast<unsigned long long>(target));
        }
    }
    ASSERT_GT(wanted, 50U);
    EXPECT_EQ(right + spilled, wanted) << missing.substr(0, 400);
    EXPECT_LE(spilled, wanted / 200);
    std::size_t invented = 0;
    for (const auto& [site, kind] : sites) {
        // ADR to a jump table or label in the same section needs no linker, so it has no relocation.
        const bool direct =
            kind == ReferenceKind::adrp_add || kind == ReferenceKind::adrp_load || kind == ReferenceKind::literal;
        invented += direct && !relocated.contains(site) ? 1 : 0;
    }
    EXPECT_EQ(invented, 0U);
    std::printf("    references: %zu of %zu, %zu through the stack, %zu invented\n", right, wanted, spilled, invented);
}

INSTANTIATE_TEST_SUITE_P(Elf, Twin, ::testing::Values("shapes", "shapes_small", "shapes_fast", "rooms", "ggml"),
                         [](const auto& info) { return std::string(info.param); });

struct AssertCase {
    const char* name;
    const char* abort;  // symbol in the twin
};

class AssertTwin : public ::testing::TestWithParam<AssertCase> {};

TEST_P(AssertTwin, AssertSitesHaveTheFileAndLineOfTheDebugInformation) {
    const std::string name = GetParam().name;
    NPU_REQUIRE_FIXTURE(name + ".so");
    const Program program = analysed(name + ".so");
    const References references = find_references(program);
    const auto sinks = find_sinks(program, references);
    const auto sites = find_asserts(program, sinks);
    const auto calls = true_calls(name + ".debug.so", GetParam().abort);
    ASSERT_GE(calls.size(), 10U);
    const auto truth = true_lines(name + ".debug.so", calls);
    std::size_t right = 0;
    std::string wrong;
    for (const std::uint64_t call : calls) {
        bool agrees = false;
        std::string seen;
        for (const AssertSite& s : sites) {
            if (s.site == call && s.file && s.line) {
                const std::string base = s.file->substr(s.file->rfind('/') + 1);
                agrees |= base == truth.at(call).file && *s.line == truth.at(call).line;
                seen += base + ":" + std::to_string(*s.line) + " ";
            }
        }
        right += agrees ? 1 : 0;
        if (!agrees) {
            wrong += format("%llx is %s:%u, read: %s\n", static_cast<unsigned long long>(call),
                            truth.at(call).file.c_str(), truth.at(call).line, seen.c_str());
        }
    }
    const double share = static_cast<double>(right) / static_cast<double>(calls.size());
    EXPECT_GE(share, 0.995) << wrong.substr(0, 1500);
    std::printf("    assert sites: %zu of %zu with file and line of DWARF; %zu sites read\n", right, calls.size(),
                sites.size());
}

INSTANTIATE_TEST_SUITE_P(Elf, AssertTwin,
                         ::testing::Values(AssertCase{"shapes", "_Z12shapes_abort"},
                                           AssertCase{"shapes_small", "_Z12shapes_abort"},
                                           AssertCase{"shapes_fast", "_Z12shapes_abort"},
                                           AssertCase{"rooms", "__assert_fail"}, AssertCase{"ggml", "ggml_abort"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Asserts, TheExpressionIsTheTextOfItsSourceLine) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    std::vector<std::string> source{""};
    std::ifstream file(NPU_SOURCE_DIR "/tests/elf/fixtures/shapes.cpp");
    for (std::string line; std::getline(file, line);) {
        source.push_back(line);
    }
    const Program program = analysed("shapes.so");
    const References references = find_references(program);
    std::size_t with_expression = 0, without = 0;
    for (const AssertSite& s : find_asserts(program, find_sinks(program, references))) {
        if (std::string(s.sink->name) != "ggml_abort" || !s.line) {
            continue;
        }
        if (!s.expression) {
            ++without;
            ASSERT_TRUE(s.format);
            EXPECT_NE(*s.format, "GGML_ASSERT(%s) failed");
            continue;
        }
        ++with_expression;
        ASSERT_LT(*s.line, source.size());
        EXPECT_NE(source[*s.line].find(*s.expression), std::string::npos) << *s.expression;
    }
    EXPECT_GT(with_expression, 100U);
    EXPECT_GT(without, 0U) << "control: sites with another message have no expression";
}

}  // namespace
}  // namespace npu::elf
