// Every option the product reads stands in one table: environment variable, type, default, one line of help.
// The environment is read once, when the table is first asked; nothing reads it per operation and nothing
// outside this file calls getenv. A value that cannot be understood is an error that names the variable, the
// value and what would be accepted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace npu {

enum class OptionType { text, integer, choice };

struct OptionInfo {
    const char* name;  // environment variable
    OptionType type;
    const char* default_value;
    const char* choices;  // for choice: "a|b|c"; for integer: "low..high"
    const char* help;
};

// The whole table, for `--help`, the documents and tests.
std::span<const OptionInfo> option_table();

// The parsed options. Plain values: make one with `parse_options` (tests) or use `options()` (the product).
struct Options {
    std::string device;              // GGML_NPU_DEVICE: auto | simulated | path of a device node
    std::string stats_path;          // GGML_NPU_STATS
    std::string precision;           // GGML_NPU_PRECISION: auto | fp16
    std::string claim;               // GGML_NPU_CLAIM: all | matmul
    std::int64_t cores = 3;          // GGML_NPU_CORES
    std::int64_t timeout_ms = 2000;  // GGML_NPU_TIMEOUT_MS
    std::int64_t memory_mib = 0;     // GGML_NPU_MEMORY_MIB: simulated device memory; 0 = the host's
    bool any_host = false;           // GGML_NPU_ANY_HOST
    bool check_programs = true;      // GGML_NPU_CHECK
};

// Reads options through `lookup` (returns nullptr for an unset variable). An unknown variable that starts with
// GGML_NPU_ is not seen here; `unknown_options` lists those of the environment.
using OptionLookup = const char* (*)(const char* name);
Result<Options> parse_options(OptionLookup lookup);

// Options from the environment, parsed once. The error, if any, is the same on every call. Thread-safe.
const Result<Options>& options();

// Names in the environment that start with GGML_NPU_ and stand in no table: most likely spelling mistakes.
std::vector<std::string> unknown_options();

// The table as aligned text, one option per line.
std::string describe_options();

}  // namespace npu
