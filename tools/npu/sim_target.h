// How a program is started with the simulated NPU: which build of the preload library fits it, and whether an emulator
// has to run it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace npu::tools {

// What the beginning of a file says about it as a program.
struct ProgramKind {
    enum class Machine { host, aarch64, other, script };
    Machine machine = Machine::script;  // script: not an ELF file; its interpreter is started by the kernel
    bool is_static = false;             // has no dynamic linker, so nothing can be preloaded into it
    bool gains_privileges = false;      // setuid or setgid: the dynamic linker ignores preloaded libraries
};
ProgramKind inspect_program(const std::string& path);

// The file that would run for `name`: a path, or searched in PATH as a shell does. Empty when there is none.
std::string find_program(const std::string& name);

struct Target {
    std::vector<std::string> command;  // with the emulator in front if there is one
    std::string preload_library;
    std::string set_preload;  // value for LD_PRELOAD in the environment; empty: passed on the command line
    ProgramKind kind;         // of the program itself
};

// `given_library` replaces the library that would be chosen. Errors: not_found (program, library, emulator), unsupported
// (a program for another machine).
Result<Target> choose_target(const std::vector<std::string>& command, const std::string& given_library);

// Why nothing of such a program is intercepted; empty when there is no known reason.
std::string why_not_intercepted(const ProgramKind& kind);

}  // namespace npu::tools
