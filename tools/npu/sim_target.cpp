#include "sim_target.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace npu::tools {

namespace {

namespace fs = std::filesystem;

#if defined(__aarch64__)
constexpr unsigned host_machine = EM_AARCH64;
#else
constexpr unsigned host_machine = EM_X86_64;
#endif

constexpr const char* aarch64_libraries = "/usr/aarch64-linux-gnu";  // where Debian's cross compiler has them

bool can_run(const fs::path& path) { return fs::is_regular_file(path) && ::access(path.c_str(), X_OK) == 0; }

// The library lies beside this program, or where an installation puts libraries.
std::string find_library(const std::string& name) {
    std::error_code error;
    const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
    for (const fs::path& folder : {here, here / "../lib", here / "../lib/ggml-npu"}) {
        if (fs::exists(folder / name)) {
            return fs::canonical(folder / name);
        }
    }
    return {};
}

bool runs_under_emulator(const ProgramKind& kind) {
    return kind.machine == ProgramKind::Machine::aarch64 && host_machine != EM_AARCH64;
}

bool is_aarch64_emulator(const std::string& program) {
    return fs::path(program).filename().string().starts_with("qemu-aarch64") && host_machine != EM_AARCH64;
}

}  // namespace

ProgramKind inspect_program(const std::string& path) {
    ProgramKind kind;
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
        kind.gains_privileges = ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::geteuid()) ||
                                ((status.st_mode & S_ISGID) != 0 && status.st_gid != ::getegid());
    }
    std::ifstream file(path, std::ios::binary);
    Elf64_Ehdr header{};
    if (!file.read(reinterpret_cast<char*>(&header), sizeof header) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return kind;
    }
    const bool is_64_bit = header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
    kind.machine = !is_64_bit                         ? ProgramKind::Machine::other
                   : header.e_machine == host_machine ? ProgramKind::Machine::host
                   : header.e_machine == EM_AARCH64   ? ProgramKind::Machine::aarch64
                                                      : ProgramKind::Machine::other;
    if (!is_64_bit) {
        return kind;
    }
    kind.is_static = true;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment{};
        file.seekg(static_cast<std::streamoff>(header.e_phoff + std::uint64_t{i} * header.e_phentsize));
        if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) {
            break;
        }
        kind.is_static &= segment.p_type != PT_INTERP;
    }
    return kind;
}

std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) {
        return can_run(name) ? name : std::string();
    }
    const char* path = std::getenv("PATH");
    std::string folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
    folders += ':';
    for (std::size_t begin = 0, end = 0; (end = folders.find(':', begin)) != std::string::npos; begin = end + 1) {
        const std::string folder = folders.substr(begin, end - begin);
        const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
        if (can_run(candidate)) {
            return candidate;
        }
    }
    return {};
}

std::string why_not_intercepted(const ProgramKind& kind) {
    if (kind.is_static) {
        return "it is statically linked, so no library can be preloaded into it";
    }
    if (kind.gains_privileges) {
        return "it is setuid or setgid, and the dynamic linker preloads nothing into such programs";
    }
    return {};
}

Result<Target> choose_target(const std::vector<std::string>& command, const std::string& given_library) {
    Target target;
    const std::string program = find_program(command.front());
    if (program.empty()) {
        return make_error(ErrorCode::not_found, "there is no program %s that can be run", command.front().c_str());
    }
    target.kind = inspect_program(program);
    const bool emulate = runs_under_emulator(target.kind);
    if (target.kind.machine == ProgramKind::Machine::other) {
        return make_error(
            ErrorCode::unsupported,
            "%s is for another machine than this one and AArch64 (64-bit); start it with its own emulator "
            "and name a preload library for it: --preload-library FILE -- EMULATOR PROGRAM",
            program.c_str());
    }
    const std::string name =
        emulate || is_aarch64_emulator(program) ? "libnpu-preload-aarch64.so" : "libnpu-preload.so";
    target.preload_library = given_library.empty() ? find_library(name) : given_library;
    if (target.preload_library.empty() || !fs::exists(target.preload_library)) {
        return make_error(ErrorCode::not_found, "there is no %s%s",
                          given_library.empty() ? name.c_str() : given_library.c_str(),
                          given_library.empty() ? " beside this program or in ../lib. It is built where "
                                                  "libnpu-preload.so is, the AArch64 one only where "
                                                  "aarch64-linux-gnu-g++ is installed; --preload-library names another"
                                                : "");
    }
    target.preload_library = fs::absolute(target.preload_library);
    target.command = command;
    target.command.front() = program;
    if (!emulate) {
        target.set_preload = target.preload_library;
        return target;
    }
    std::string emulator = find_program("qemu-aarch64-static");
    emulator = emulator.empty() ? find_program("qemu-aarch64") : emulator;
    if (emulator.empty()) {
        return make_error(ErrorCode::not_found,
                          "%s is an AArch64 program and there is no qemu-aarch64-static to run it (Debian package "
                          "qemu-user-static)",
                          program.c_str());
    }
    // The emulator itself does not need the library, its program does.
    std::vector<std::string> prefix{emulator};
    if (std::getenv("QEMU_LD_PREFIX") == nullptr && fs::is_directory(aarch64_libraries)) {
        prefix.insert(prefix.end(), {"-L", aarch64_libraries});
    }
    prefix.insert(prefix.end(), {"-E", "LD_PRELOAD=" + target.preload_library});
    target.command.insert(target.command.begin(), prefix.begin(), prefix.end());
    return target;
}

}  // namespace npu::tools
