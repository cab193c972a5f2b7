// `npu sim`: runs any program with the simulated NPU (docs/simulator.md), and sums up what it did with it.
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "commands.h"
#include "sim/preload/board_tree.h"
#include "sim/preload/settings.h"
#include "sim_run.h"
#include "sim_summary.h"
#include "sim_target.h"

namespace npu::tools {

namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

// What the command line says, by option.
struct Request {
    std::string kernel = "rknpu";
    std::string chip = "rk3588";
    bool strict = false;
    bool lenient = false;
    std::string rocket_interface = "0.0";
    std::string faults;
    bool coherency = false;
    std::string seed = "1";
    std::string memory;
    bool no_real_time = false;
    std::string root;
    std::string preload_library;
    std::string findings;
    std::string json;
    bool verbose = false;
    bool quiet = false;
};

class TemporaryFolder {
  public:
    TemporaryFolder() : path_((fs::temp_directory_path() / "npu-sim-XXXXXX").string()) {
        if (::mkdtemp(path_.data()) == nullptr) {
            fail("cannot make a temporary folder " + path_ + ": " + std::strerror(errno));
        }
    }
    ~TemporaryFolder() {
        std::error_code error;
        fs::remove_all(path_, error);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// "512M", "2G", or a number of bytes, in MiB.
std::string memory_mib(const std::string& text) {
    char* unit = nullptr;
    errno = 0;
    const unsigned long long number = std::strtoull(text.c_str(), &unit, 10);
    const std::map<std::string, unsigned long long> units{
        {"", 1}, {"K", 1ULL << 10}, {"M", 1ULL << 20}, {"G", 1ULL << 30}};
    const auto found = units.find(unit);
    if (text.empty() || text[0] < '0' || text[0] > '9' || errno != 0 || found == units.end() ||
        number > (1ULL << 40) / found->second || number * found->second < (1ULL << 20)) {
        fail("--memory " + text + ": expected a size from 1M to 1024G, as in 512M or 2G");
    }
    return std::to_string(number * found->second >> 20);
}

Variables& variables() {
    static Variables instance;
    return instance;
}

// The variables that tell the preload library what was asked for; checked as the library will check them.
SimulationOptions checked_options(const Request& request) {
    Variables& set = variables();
    set = {{"GGML_NPU_SIM_KERNEL", request.kernel},
           {"GGML_NPU_SIM_CHIP", request.chip},
           {"GGML_NPU_SIM_MODE", request.lenient ? "lenient" : "strict"},
           {"GGML_NPU_SIM_ROCKET_INTERFACE", request.rocket_interface},
           {"GGML_NPU_SIM_FAULTS", request.faults},
           {"GGML_NPU_SIM_COHERENCY", request.coherency ? "1" : "0"},
           {"GGML_NPU_SIM_SEED", request.seed},
           {"GGML_NPU_SIM_MEMORY_MIB", request.memory.empty() ? "0" : memory_mib(request.memory)},
           {"GGML_NPU_SIM_REAL_TIME", request.no_real_time ? "0" : "1"},
           {"GGML_NPU_SIM_LOG", request.verbose ? "1" : "0"}};
    Result<SimulationOptions> options = parse_simulation_options([](const char* name) -> const char* {
        const auto found = variables().find(name);
        return found == variables().end() ? nullptr : found->second.c_str();
    });
    if (!options) {
        fail(options.error().message);
    }
    if (const auto settings = sim::simulation_settings(*options); !settings) {
        fail(settings.error().message);
    }
    return *options;
}

void write_file(const std::string& path, const std::string& contents) {
    std::ofstream file(path, std::ios::binary);
    file << contents;
    file.close();
    if (!file) {
        fail("cannot write " + path);
    }
}

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

void report(const SimSummary& summary, const SimulationOptions& options, const Request& request, const Target& target) {
    if (!request.json.empty()) {
        write_file(request.json, summary_json(summary, options).dump(2) + "\n");
    }
    if (!request.findings.empty()) {
        write_file(request.findings, violation_lines(summary));
    }
    if (!summary.library_loaded) {
        const std::string reason = why_not_intercepted(target.kind);
        say("npu sim: nothing of " + target.command.front() + " was intercepted" +
            (reason.empty() ? ": the preload library was not loaded (a statically linked program, or one for another "
                              "machine, behind it?)"
                            : ": " + reason) +
            "\n");
        return;
    }
    if (request.quiet) {
        return;
    }
    say(summary.processes == 0 ? "npu sim: no process opened the NPU\n" : "npu sim: " + summary_text(summary, options));
}

void run(const Request& request, const std::vector<std::string>& command) {
    if (command.empty()) {
        fail(
            "npu sim: which program? Usage: npu sim [OPTIONS] -- PROGRAM ARGUMENTS (npu sim --help lists the options)");
    }
    const SimulationOptions options = checked_options(request);
    const Result<Target> target = choose_target(command, request.preload_library);
    if (!target) {  // 127 for a missing program, as shells do
        fail(target.error().message, find_program(command.front()).empty() ? 127 : 2);
    }
    const TemporaryFolder temporary;
    const std::string reports = temporary.path() + "/reports";
    const std::string root = request.root.empty() ? temporary.path() + "/root" : fs::absolute(request.root).string();
    fs::create_directory(reports);
    if (const auto written = sim::write_board_tree(root, sim::driver_of(options), options.chip); !written) {
        fail(written.error().message);
    }
    std::vector<std::pair<std::string, std::string>> environment(variables().begin(), variables().end());
    environment.emplace_back("GGML_NPU_SIM_ROOT", root);
    environment.emplace_back("GGML_NPU_SIM_REPORTS", reports);
    if (!target->set_preload.empty()) {
        // The dynamic linker takes spaces and colons for separators.
        std::string library = target->set_preload;
        if (library.find_first_of(" :") != std::string::npos) {
            fs::create_symlink(library, temporary.path() + "/libnpu-preload.so");
            library = temporary.path() + "/libnpu-preload.so";
        }
        const char* others = std::getenv("LD_PRELOAD");
        const bool alone = others == nullptr || others[0] == '\0';
        environment.emplace_back("LD_PRELOAD", library + (alone ? "" : ":" + std::string(others)));
    }
    const Result<int> status = run_program(target->command, environment);
    if (!status) {
        fail(status.error().message, 127);
    }
    report(read_summary(reports), options, request, *target);
    if (*status != 0) {
        fail("", *status);
    }
}

}  // namespace

void add_sim(CLI::App& program) {
    CLI::App* command = program.add_subcommand(
        "sim",
        "Run a program with a simulated NPU.\n"
        "Usage: npu sim [OPTIONS] -- PROGRAM ARGUMENTS\n"
        "The program finds the device nodes of a kernel driver and the files in /sys and /proc that belong to them;\n"
        "afterwards a summary is printed. Ends with the program's exit status, or 128 + N if signal N ended it.");
    auto request = std::make_shared<Request>();
    auto words = std::make_shared<std::vector<std::string>>();
    command->positionals_at_end();
    command->add_option("program", *words, "the program and its arguments")->type_name("")->group("");
    command->add_option("--kernel", request->kernel, "which driver: rknpu (the vendor's) or rocket (mainline)")
        ->capture_default_str();
    command->add_option("--chip", request->chip, "which chip")->capture_default_str();
    auto* strict = command->add_flag(
        "--strict", request->strict,
        "jobs that hang or corrupt on silicon fail as the driver would report it (this is the default)");
    command->add_flag("--lenient", request->lenient, "such jobs are computed where that has a meaning, and listed")
        ->excludes(strict);
    command
        ->add_option("--rocket-interface", request->rocket_interface,
                     "version that the rocket driver reports: 0.0 as upstream, 1.5 as patched kernels")
        ->capture_default_str();
    command->add_option("--faults", request->faults,
                        "faults to inject, as in job-never-starts@at=3,lost-interrupt@rate=0.1");
    command->add_flag("--coherency", request->coherency, "a buffer that was not synchronised shows stale data");
    command->add_option("--seed", request->seed, "seed of what registers hold before the program writes them")
        ->capture_default_str();
    command->add_option("--memory", request->memory,
                        "memory for all buffers of a process, as in 512M (default: the host's)");
    command->add_flag("--no-real-time", request->no_real_time,
                      "a job that hangs fails at once instead of after its time-out");
    command->add_option("--root", request->root,
                        "folder for the simulated /dev, /sys and /proc; is filled, files that are there already stay");
    command->add_option("--preload-library", request->preload_library, "build of libnpu-preload.so to use");
    command->add_option("--findings", request->findings, "file that receives the violations, one a line");
    command->add_option("--json", request->json, "file that receives the summary as JSON");
    command->add_flag("--verbose", request->verbose, "print each violation also when it happens");
    command->add_flag("--quiet", request->quiet, "print no summary");
    command->callback([request, words] { run(*request, *words); });
}

}  // namespace npu::tools
