// The same function in two builds. Addresses move with every build and bytes change with every compiler; what a function
// says does not: the texts it mentions. Two functions are taken for the same when no other in either build mentions the
// same set of texts. What remains is told apart by whom it calls and who calls it, again only if that leaves one. Nothing is
// ever guessed: a set that several functions share is reported as ambiguous with the number of candidates.
//
// The functions of a group (a function with the parts that a compiler moved away) count as one.
#pragma once

#include "elf/asserts.h"

namespace npu::elf {

// What remains of a text when folders, log levels and format specifiers are taken away, which change from release to
// release. Empty when nothing distinctive remains.
std::string normalised(std::string_view text);

struct Signature {
    std::uint64_t address = 0;           // of the function's main part
    std::size_t group = 0;               // in Program::groups()
    std::set<std::string> texts;         // normalised
    std::set<std::string> imports;       // names of imports and exports that it calls
    std::vector<std::uint64_t> calls;    // functions that it calls, in order of the calls
    std::vector<std::uint64_t> callers;  // functions that call it, ascending
};

// One per group, by address.
std::vector<Signature> signatures(const Program& program, const References& references);

struct Match {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    const char* by = "";  // texts, name, imports, callers, calls
};
struct Ambiguous {
    std::uint64_t from = 0;
    std::size_t candidates = 0;  // in the other build; 0: none
};
struct FunctionDiff {
    std::vector<Match> matched;        // by `from`
    std::vector<Ambiguous> ambiguous;  // several in the new build could be it
    std::vector<std::uint64_t> gone;   // only in the old build: has texts that nothing in the new build has
    std::vector<std::uint64_t> added;

    // The match of an old function; null when there is none.
    [[nodiscard]] const Match* find(std::uint64_t from) const;
};

FunctionDiff match_functions(const Program& before, const References& before_references, const Program& after,
                             const References& after_references);

}  // namespace npu::elf
