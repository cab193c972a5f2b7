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

// What libnpu-preload.so simulates for the program that it is loaded into (docs/simulator.md). `npu sim` sets these
// variables; they may be set by hand.
struct SimulationOptions {
    std::string kernel = "rknpu";          // GGML_NPU_SIM_KERNEL: rknpu | rocket
    std::string chip = "rk3588";           // GGML_NPU_SIM_CHIP
    std::string mode = "strict";           // GGML_NPU_SIM_MODE: strict | lenient
    std::string rocket_interface = "0.0";  // GGML_NPU_SIM_ROCKET_INTERFACE: 0.0 | 1.5
    std::string faults;                    // GGML_NPU_SIM_FAULTS
    bool coherency = false;                // GGML_NPU_SIM_COHERENCY
    std::int64_t seed = 1;                 // GGML_NPU_SIM_SEED
    std::int64_t memory_mib = 0;           // GGML_NPU_SIM_MEMORY_MIB: 0 = the host's
    bool real_time = true;                 // GGML_NPU_SIM_REAL_TIME
    bool log = true;                       // GGML_NPU_SIM_LOG
    std::string root;                      // GGML_NPU_SIM_ROOT
    std::string reports;                   // GGML_NPU_SIM_REPORTS
};

// Axera cards, and the runtime that stands in for them (docs/axera.md).
struct AxeraOptions {
    bool mock = false;              // GGML_NPU_AXERA_MOCK
    std::string library;            // GGML_NPU_AXERA_LIBRARY
    std::string mock_cards;         // GGML_NPU_AXERA_MOCK_CARDS: numbers by comma, none, or no-driver
    std::int64_t mock_cmm_mib = 0;  // GGML_NPU_AXERA_MOCK_CMM_MIB
    std::string mock_faults;        // GGML_NPU_AXERA_MOCK_FAULTS
    bool mock_log = true;           // GGML_NPU_AXERA_MOCK_LOG
};

// The parsed options. Plain values: make one with `parse_options` (tests) or use `options()` (the product).
struct Options {
    std::string device;        // GGML_NPU_DEVICE: auto | simulated | simulated-rocket | path of a node
    std::string engine;        // GGML_NPU_ENGINE: native | rknn
    std::string rknn_library;  // GGML_NPU_RKNN_LIBRARY: empty = librknnrt.so
    std::string cache;         // GGML_NPU_CACHE: empty = none
    std::string stats_path;    // GGML_NPU_STATS
    std::string log;           // GGML_NPU_LOG: none | ops
    bool profile = false;      // GGML_NPU_PROFILE
    std::string precision;     // GGML_NPU_PRECISION: auto | the name of a pipeline | rules (plugin/precision_policy.h)
    std::string rotate;        // GGML_NPU_ROTATE: auto | 0 | 1
    std::int64_t min_batch = 0;      // GGML_NPU_MIN_BATCH: 0 = as predicted
    std::string reduce;              // GGML_NPU_REDUCE: auto | host | device
    std::string without;             // GGML_NPU_WITHOUT
    std::string overlap;             // GGML_NPU_OVERLAP: auto | 0 | 1
    std::string claim;               // GGML_NPU_CLAIM: all | matmul
    std::int64_t cores = 3;          // GGML_NPU_CORES
    std::int64_t timeout_ms = 2000;  // GGML_NPU_TIMEOUT_MS
    std::int64_t memory_mib = 0;     // GGML_NPU_MEMORY_MIB: simulated device memory; 0 = the host's
    bool any_host = false;           // GGML_NPU_ANY_HOST
    bool check_programs = true;      // GGML_NPU_CHECK
    SimulationOptions simulation;    // GGML_NPU_SIM_...
    AxeraOptions axera;              // GGML_NPU_AXERA_...
};

// Reads options through `lookup` (returns nullptr for an unset variable). An unknown variable that starts with
// GGML_NPU_ is not seen here; `unknown_options` lists those of the environment.
using OptionLookup = const char* (*)(const char* name);
Result<Options> parse_options(OptionLookup lookup);

// Options from the environment, parsed once. The error, if any, is the same on every call. Thread-safe.
const Result<Options>& options();

// As parse_options, for the part that the preload library needs: an unacceptable value of another option does not
// concern it.
Result<SimulationOptions> parse_simulation_options(OptionLookup lookup);

// From the environment, parsed once. Thread-safe.
const Result<SimulationOptions>& simulation_options();

// As parse_simulation_options, for whoever needs nothing but Axera cards. The mock may also be asked for as
// GGML_AXERA_MOCK=1, as other tools for these cards do.
Result<AxeraOptions> parse_axera_options(OptionLookup lookup);

// From the environment, parsed once. Thread-safe.
const Result<AxeraOptions>& axera_options();

// Where temporary files go: $TMPDIR, or "/tmp".
std::string temporary_folder();

// Names in the environment that start with GGML_NPU_ and stand in no table: most likely spelling mistakes.
std::vector<std::string> unknown_options();

// The table as aligned text, one option per line.
std::string describe_options();

}  // namespace npu
