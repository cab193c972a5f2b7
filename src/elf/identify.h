// Which revision of an open project a closed library was built from. A library keeps the texts of its source: assertion
// expressions, log formats, keys of model files, names of graph nodes. Each source tree is asked which of the library's texts
// it has. Texts that all trees have say nothing; those that only some have tell the trees apart and are the evidence.
#pragma once

#include "elf/references.h"

namespace npu::elf {

// What a source tree says: its string literals and the expressions of GGML_ASSERT, the latter without white space.
struct SourceTexts {
    std::string name;
    std::set<std::string> literals;
    std::set<std::string> assertions;
    std::size_t files = 0;
};

// Adds what one C or C++ source file says. Adjacent literals are joined as a compiler joins them.
void read_source(std::string_view text, SourceTexts& into);

struct SourceScore {
    std::string name;
    std::size_t assertions_present = 0;       // of the library's, in this tree
    std::size_t literals_present = 0;         // of the library's texts that at least one tree has
    std::vector<std::string> only_here;       // in the library and in this tree, and not in every other
    std::vector<std::string> missing_here;    // in the library and another tree, not in this
    std::vector<std::string> not_in_library;  // assertions of the files that the library has, which it does not have
};

struct Identification {
    std::size_t assertions = 0;  // distinct expressions of the library
    std::size_t shared_texts = 0;
    std::vector<SourceScore> scores;  // best first
    bool tie = false;                 // the best two have the same score
};

Identification identify(const Program& program, const References& references, const std::vector<SourceTexts>& trees);

// A loop over layers: code that names a graph node ("l_out") inside a loop.
struct LayerLoop {
    std::uint64_t function = 0;
    std::uint64_t site = 0;                // where the name is made
    std::uint64_t start = 0, end = 0;      // of the innermost loop around it; 0 when none was found
    std::vector<std::uint64_t> callbacks;  // calls through a register shortly after the name: cb(tensor, name, layer)
    int index_register = -1;               // counts up by one in the loop, when there is exactly one such
};
std::vector<LayerLoop> find_layer_loops(const Program& program, const References& references, std::string_view name);

}  // namespace npu::elf
