// What an anonymous backtrace says. A crash of a stripped library prints lines such as `librkllmrt.so(+0x1c7e34)`: offsets
// from where it was loaded, each behind a call. With the library at hand each becomes a function, and the one that called
// the function for failed assertions becomes the assertion's text; some of those are known to its users.
#pragma once

#include "elf/asserts.h"

namespace npu::elf {

struct CrashFrame {
    std::string line;          // as in the log
    std::string module;        // file name without folder
    std::uint64_t offset = 0;  // in the module
};

struct ExplainedFrame {
    CrashFrame frame;
    std::string function;                 // empty: none holds the address
    std::vector<std::string> texts;       // that the function mentions, at most eight: what stands for its name
    std::vector<std::string> assertions;  // reported by the call in front of the offset
    std::string report;                   // what is known of such a failure; empty: nothing
};

// Frames of the forms `lib.so(+0x12)` and `lib.so+0x12`. `lib.so(name+0x12)` counts from a symbol and is left out.
std::vector<CrashFrame> read_backtrace(std::string_view log);

// Frames in other modules than `module` come back without explanation.
std::vector<ExplainedFrame> explain(const Program& program, const References& references, std::string_view module,
                                    std::span<const CrashFrame> frames);

// What users reported about a failure with this text (airockchip/rknn-llm issues); empty when nothing is known.
std::string known_report(std::string_view text);

}  // namespace npu::elf
