#include "base/options.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

extern char** environ;

namespace npu {

namespace {

constexpr std::array table{
    OptionInfo{
        "GGML_NPU_DEVICE", OptionType::text, "auto", nullptr,
        "which NPU: auto (a real one when there is one, else simulated), simulated, simulated-rocket (behind the "
        "mainline driver), or the path of a device node"},
    OptionInfo{
        "GGML_NPU_ENGINE", OptionType::choice, "native", "native|rknn",
        "who multiplies. native: programs of the plugin; rknn: Rockchip's own kernels in librknnrt.so, which finds "
        "the NPU by itself, in fp16 and int8"},
    OptionInfo{"GGML_NPU_RKNN_LIBRARY", OptionType::text, "librknnrt.so", nullptr,
               "path of that library, or a name that the dynamic linker looks for"},
    OptionInfo{
        "GGML_NPU_CACHE", OptionType::text, "", nullptr,
        "folder for converted weights: a model is converted the first time it is loaded, and read from there later; "
        "it takes as much room as the weights take in NPU memory (native engine)"},
    OptionInfo{"GGML_NPU_STATS", OptionType::text, "", nullptr,
               "file that receives statistics as JSON when the device closes"},
    OptionInfo{"GGML_NPU_LOG", OptionType::choice, "none", "none|ops",
               "ops: log every matmul of every new graph: shape, type, where it runs and why"},
    OptionInfo{"GGML_NPU_PROFILE", OptionType::choice, "0", "0|1",
               "1: measure where the host's time goes, by phase and shape, and log it when the device closes"},
    OptionInfo{
        "GGML_NPU_PRECISION", OptionType::text, "auto", nullptr,
        "auto: int8 for quantised weights and fp16 for float weights; fp16: fp16 for all; bf16: bf16 for float "
        "weights; the others for quantised weights (int8n: results narrowed on the chip, w4a8: weights of 4 bits, "
        "but for the projection to the vocabulary; int4: activations, too); or rules for classes of weights: "
        "'experts .*=w4a8; auto' (docs/precisions.md)"},
    OptionInfo{
        "GGML_NPU_ROTATE", OptionType::choice, "auto", "auto|0|1",
        "1: rotate K by a block-Hadamard matrix before int8 or 4-bit quantisation, which spreads outliers; auto: where "
        "it helps: weights of 8 bits and more in the file, and int4"},
    OptionInfo{"GGML_NPU_MIN_BATCH", OptionType::integer, "0", "0..1048576",
               "matmuls of fewer rows run on the CPU, from the same weights in device memory and with the same result; "
               "0: where that is predicted to be faster on a board. int8, w4a8 and int4 only"},
    OptionInfo{
        "GGML_NPU_REDUCE", OptionType::choice, "auto", "auto|host|device",
        "who adds the partial sums of a long K: the host when it reads them; the device wherever that is known "
        "and exact (int8); auto: the host where it reads beside the next job (GGML_NPU_OVERLAP), else whoever is "
        "cheaper by the timing model, if two sources agree how"},
    OptionInfo{"GGML_NPU_WITHOUT", OptionType::text, "", nullptr,
               "constraints of the planner to take away, by comma, for experiments on a board (npu plan --help)"},
    OptionInfo{
        "GGML_NPU_OVERLAP", OptionType::choice, "auto", "auto|0|1",
        "1: long batches are cut into jobs, and the host converts activations and results of the others while one "
        "runs; auto: on a real NPU (a simulated one computes with the same threads)"},
    OptionInfo{"GGML_NPU_CLAIM", OptionType::choice, "all", "all|matmul",
               "all: take whole graphs and run on the CPU, counted, what the NPU does not do; "
               "matmul: accept only what the NPU computes and decline the rest"},
    OptionInfo{"GGML_NPU_CORES", OptionType::integer, "3", "1..3", "NPU cores to use"},
    OptionInfo{"GGML_NPU_TIMEOUT_MS", OptionType::integer, "2000", "1..600000",
               "longest time to wait for one job, in milliseconds"},
    OptionInfo{"GGML_NPU_MEMORY_MIB", OptionType::integer, "0", "0..1048576",
               "device memory of the simulated NPU, in MiB; 0 takes the host's"},
    OptionInfo{"GGML_NPU_ANY_HOST", OptionType::choice, "0", "0|1",
               "1: load into a llama.cpp of another version than the plugin was built against (unsafe)"},
    OptionInfo{"GGML_NPU_CHECK", OptionType::choice, "1", "0|1",
               "1: check every new command program before it is submitted"},
    OptionInfo{"GGML_NPU_SIM_KERNEL", OptionType::choice, "rknpu", "rknpu|rocket",
               "which driver the preload library simulates: the vendor's or mainline"},
    OptionInfo{"GGML_NPU_SIM_CHIP", OptionType::text, "rk3588", nullptr, "which chip the preload library simulates"},
    OptionInfo{"GGML_NPU_SIM_MODE", OptionType::choice, "strict", "strict|lenient",
               "what happens to jobs that hang or corrupt on silicon. strict: they fail as the driver would report it; "
               "lenient: they are computed where that has a meaning"},
    OptionInfo{"GGML_NPU_SIM_ROCKET_INTERFACE", OptionType::choice, "0.0", "0.0|1.5",
               "interface version of the simulated rocket driver: 0.0 as upstream, 1.5 as patched kernels"},
    OptionInfo{"GGML_NPU_SIM_FAULTS", OptionType::text, "", nullptr, "faults to inject, as in job-never-starts@at=3"},
    OptionInfo{"GGML_NPU_SIM_COHERENCY", OptionType::choice, "0", "0|1",
               "1: a buffer that was not synchronised shows stale data"},
    OptionInfo{"GGML_NPU_SIM_SEED", OptionType::integer, "1", "0..4294967295",
               "seed of what registers hold before a program writes them"},
    OptionInfo{"GGML_NPU_SIM_MEMORY_MIB", OptionType::integer, "0", "0..1048576",
               "memory for all buffers of a process, in MiB; 0 takes the host's"},
    OptionInfo{"GGML_NPU_SIM_REAL_TIME", OptionType::choice, "1", "0|1",
               "1: a job that hangs takes as long to fail as on a board; 0: it fails at once"},
    OptionInfo{"GGML_NPU_SIM_LOG", OptionType::choice, "1", "0|1",
               "1: what the simulated NPU finds wrong is printed on standard error when it happens"},
    OptionInfo{"GGML_NPU_SIM_ROOT", OptionType::text, "", nullptr,
               "folder with the simulated /dev, /sys and /proc files; empty makes a temporary one"},
    OptionInfo{"GGML_NPU_SIM_REPORTS", OptionType::text, "", nullptr,
               "folder that receives a report of every process, as JSON"},
    OptionInfo{"GGML_NPU_AXERA_LIBRARY", OptionType::text, "libaxcl_rt.so", nullptr,
               "path of the vendor's runtime for Axera cards, or a name that the dynamic linker looks for"},
    OptionInfo{"GGML_NPU_AXERA_MOCK", OptionType::choice, "0", "0|1",
               "1: a runtime in software stands in for Axera cards"},
    OptionInfo{"GGML_NPU_AXERA_MOCK_CARDS", OptionType::text, "3", nullptr,
               "numbers of its cards, by comma; none: a driver without cards; no-driver: not even that"},
    OptionInfo{"GGML_NPU_AXERA_MOCK_CMM_MIB", OptionType::integer, "7040", "32..1048576",
               "memory of each of its cards, in MiB"},
    OptionInfo{"GGML_NPU_AXERA_MOCK_FAULTS", OptionType::text, "", nullptr,
               "faults for it to inject, as in execute-fails@at=3 (docs/axera.md)"},
    OptionInfo{"GGML_NPU_AXERA_MOCK_LOG", OptionType::choice, "1", "0|1",
               "1: what it finds wrong is printed on standard error"},
};

const OptionInfo& info_of(std::string_view name) {
    return *std::find_if(table.begin(), table.end(), [&](const OptionInfo& o) { return name == o.name; });
}

Error bad_value(const OptionInfo& info, const char* value) {
    return make_error(ErrorCode::invalid_argument, "option %s has the value '%s'; accepted: %s (default %s): %s",
                      info.name, value, info.choices, info.default_value, info.help);
}

class Reader {
  public:
    explicit Reader(OptionLookup lookup) : lookup_(lookup) {}

    std::string text(const char* name) const { return raw(info_of(name)); }

    std::string choice(const char* name) {
        const OptionInfo& info = info_of(name);
        const std::string value = raw(info);
        std::string_view rest = info.choices;
        while (!rest.empty()) {
            const std::size_t bar = rest.find('|');
            if (rest.substr(0, bar) == value) {
                return value;
            }
            rest = bar == std::string_view::npos ? std::string_view{} : rest.substr(bar + 1);
        }
        fail(bad_value(info, value.c_str()));
        return info.default_value;
    }

    bool flag(const char* name) { return choice(name) == "1"; }

    std::int64_t integer(const char* name) {
        const OptionInfo& info = info_of(name);
        const std::string value = raw(info);
        char* end = nullptr;
        errno = 0;
        const long long number = std::strtoll(value.c_str(), &end, 10);
        char* high_text = nullptr;
        const long long low = std::strtoll(info.choices, &high_text, 10);
        const long long high = std::strtoll(high_text + 2, nullptr, 10);
        if (value.empty() || *end != '\0' || errno != 0 || number < low || number > high) {
            fail(bad_value(info, value.c_str()));
            return low;
        }
        return number;
    }

    [[nodiscard]] const std::vector<Error>& errors() const { return errors_; }

  private:
    std::string raw(const OptionInfo& info) const {
        const char* value = lookup_(info.name);
        return value != nullptr ? value : info.default_value;
    }
    void fail(Error error) { errors_.push_back(std::move(error)); }

    OptionLookup lookup_;
    std::vector<Error> errors_;
};

SimulationOptions read_simulation_options(Reader& reader) {
    SimulationOptions parsed;
    parsed.kernel = reader.choice("GGML_NPU_SIM_KERNEL");
    parsed.chip = reader.text("GGML_NPU_SIM_CHIP");
    parsed.mode = reader.choice("GGML_NPU_SIM_MODE");
    parsed.rocket_interface = reader.choice("GGML_NPU_SIM_ROCKET_INTERFACE");
    parsed.faults = reader.text("GGML_NPU_SIM_FAULTS");
    parsed.coherency = reader.flag("GGML_NPU_SIM_COHERENCY");
    parsed.seed = reader.integer("GGML_NPU_SIM_SEED");
    parsed.memory_mib = reader.integer("GGML_NPU_SIM_MEMORY_MIB");
    parsed.real_time = reader.flag("GGML_NPU_SIM_REAL_TIME");
    parsed.log = reader.flag("GGML_NPU_SIM_LOG");
    parsed.root = reader.text("GGML_NPU_SIM_ROOT");
    parsed.reports = reader.text("GGML_NPU_SIM_REPORTS");
    return parsed;
}

AxeraOptions read_axera_options(Reader& reader, OptionLookup lookup) {
    AxeraOptions parsed;
    const char* other_name = lookup("GGML_AXERA_MOCK");
    parsed.mock = reader.flag("GGML_NPU_AXERA_MOCK") || (other_name != nullptr && std::string_view(other_name) == "1");
    parsed.library = reader.text("GGML_NPU_AXERA_LIBRARY");
    parsed.mock_cards = reader.text("GGML_NPU_AXERA_MOCK_CARDS");
    parsed.mock_cmm_mib = reader.integer("GGML_NPU_AXERA_MOCK_CMM_MIB");
    parsed.mock_faults = reader.text("GGML_NPU_AXERA_MOCK_FAULTS");
    parsed.mock_log = reader.flag("GGML_NPU_AXERA_MOCK_LOG");
    return parsed;
}

}  // namespace

std::span<const OptionInfo> option_table() { return table; }

Result<Options> parse_options(OptionLookup lookup) {
    Reader reader(lookup);
    Options parsed;
    parsed.device = reader.text("GGML_NPU_DEVICE");
    parsed.engine = reader.choice("GGML_NPU_ENGINE");
    parsed.rknn_library = reader.text("GGML_NPU_RKNN_LIBRARY");
    parsed.stats_path = reader.text("GGML_NPU_STATS");
    parsed.log = reader.choice("GGML_NPU_LOG");
    parsed.profile = reader.flag("GGML_NPU_PROFILE");
    parsed.precision = reader.text("GGML_NPU_PRECISION");
    parsed.rotate = reader.choice("GGML_NPU_ROTATE");
    parsed.min_batch = reader.integer("GGML_NPU_MIN_BATCH");
    parsed.reduce = reader.choice("GGML_NPU_REDUCE");
    parsed.cache = reader.text("GGML_NPU_CACHE");
    parsed.without = reader.text("GGML_NPU_WITHOUT");
    parsed.overlap = reader.choice("GGML_NPU_OVERLAP");
    parsed.claim = reader.choice("GGML_NPU_CLAIM");
    parsed.cores = reader.integer("GGML_NPU_CORES");
    parsed.timeout_ms = reader.integer("GGML_NPU_TIMEOUT_MS");
    parsed.memory_mib = reader.integer("GGML_NPU_MEMORY_MIB");
    parsed.any_host = reader.flag("GGML_NPU_ANY_HOST");
    parsed.check_programs = reader.flag("GGML_NPU_CHECK");
    parsed.simulation = read_simulation_options(reader);
    parsed.axera = read_axera_options(reader, lookup);
    if (!reader.errors().empty()) {
        return reader.errors().front();
    }
    return parsed;
}

Result<SimulationOptions> parse_simulation_options(OptionLookup lookup) {
    Reader reader(lookup);
    SimulationOptions parsed = read_simulation_options(reader);
    if (!reader.errors().empty()) {
        return reader.errors().front();
    }
    return parsed;
}

const Result<SimulationOptions>& simulation_options() {
    static const Result<SimulationOptions> parsed =
        parse_simulation_options([](const char* name) -> const char* { return std::getenv(name); });
    return parsed;
}

Result<AxeraOptions> parse_axera_options(OptionLookup lookup) {
    Reader reader(lookup);
    AxeraOptions parsed = read_axera_options(reader, lookup);
    if (!reader.errors().empty()) {
        return reader.errors().front();
    }
    return parsed;
}

const Result<AxeraOptions>& axera_options() {
    static const Result<AxeraOptions> parsed =
        parse_axera_options([](const char* name) -> const char* { return std::getenv(name); });
    return parsed;
}

const Result<Options>& options() {
    static const Result<Options> parsed =
        parse_options([](const char* name) -> const char* { return std::getenv(name); });
    return parsed;
}

std::string temporary_folder() {
    const char* folder = std::getenv("TMPDIR");
    return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

std::vector<std::string> unknown_options() {
    std::vector<std::string> unknown;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::string name(text.substr(0, text.find('=')));
        if (name.rfind("GGML_NPU_", 0) == 0 &&
            std::none_of(table.begin(), table.end(), [&](const OptionInfo& o) { return name == o.name; })) {
            unknown.push_back(name);
        }
    }
    return unknown;
}

std::string describe_options() {
    std::string text;
    for (const OptionInfo& option : table) {
        text += format("%-30s %s%s%s%s [default: %s]\n", option.name, option.help,
                       option.choices != nullptr ? " (" : "", option.choices != nullptr ? option.choices : "",
                       option.choices != nullptr ? ")" : "", option.default_value);
    }
    return text;
}

}  // namespace npu
