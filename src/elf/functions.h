// The functions of a stripped file. The frame table names nearly all of them; what has no frame (start-up code, assembler,
// libraries built without unwind tables) is found in the gaps: an address that is exported, called, stored as a pointer or
// run at load begins a function, and where a file has no frames at all so does a prologue behind the end of another. A
// function so found ends where the next begins. Stubs of the procedure linkage table are no functions but names of imports.
#pragma once

#include "elf/dynamic.h"
#include "elf/frames.h"

namespace npu::elf {

enum class FunctionSource : std::uint8_t { frame, symbol, called, prologue };
const char* source_name(FunctionSource source);

struct Function {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::string name;  // empty in a stripped file unless exported
    FunctionSource source = FunctionSource::frame;
    std::vector<LandingPad> landing_pads;
    bool returns = true;  // false: no path leads out of it, as of abort()
};

struct Range {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
};

// Where code stands: executable sections, or executable segments when there are none. The linkage table is left out.
std::vector<Range> code_ranges(const Image& image);

// Stubs: address of the stub -> name of the import (or address in hexadecimal for one defined here).
std::map<std::uint64_t, std::string> find_stubs(const Image& image, const Dynamic& dynamic);

// By start, without overlaps.
std::vector<Function> find_functions(const Image& image, const Dynamic& dynamic,
                                     const std::map<std::uint64_t, std::string>& stubs);

}  // namespace npu::elf
