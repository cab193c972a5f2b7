// The assertions of a stripped file. An assertion that fails calls one function with texts: what was expected, in which
// file, at which line. So the table of all assertions, with the expression as the source has it, can be read back: find the
// function, look at every call to it, and see what the argument registers hold there. Which register holds what differs by
// library and is data here (Sink). A function without a name is found by the format string that its callers pass.
#pragma once

#include "elf/references.h"

namespace npu::elf {

// Where a function that ends the program takes its texts: numbers of argument registers, -1 where it has none.
struct Sink {
    const char* name;
    std::vector<const char*> symbols;  // its names as an import or export
    const char* anchor;                // format string by which it is found without a name; null: only by name
    int expression = -1;
    int file = -1;
    int line = -1;
    int function = -1;
    int format = -1;
    bool anchor_required = false;  // other calls are ordinary log messages
};
const std::vector<Sink>& known_sinks();

struct FoundSink {
    const Sink* sink = nullptr;
    std::uint64_t address = 0;   // of the function or its stub
    std::size_t agree = 0;       // references to the anchor that are followed by a call to it
    std::size_t references = 0;  // references to the anchor; 0: found by name
};

struct AssertSite {
    std::uint64_t site = 0;      // the call
    std::uint64_t tail = 0;      // beginning of the block that prepares it
    std::uint64_t function = 0;  // start of the function (part) that holds it
    const Sink* sink = nullptr;
    std::optional<std::string> expression, file, function_name, format;
    std::optional<std::uint32_t> line;
};

// The sinks of a program, by address. `only`: a symbol or address in hexadecimal that is one by decree, in the manner of
// ggml_abort; empty: all that are known.
std::vector<FoundSink> find_sinks(const Program& program, const References& references, std::string_view only = {});

// All sites, by address of the call. Several ways into one call with different texts are several sites.
std::vector<AssertSite> find_asserts(const Program& program, std::span<const FoundSink> sinks);

}  // namespace npu::elf
