// Entry of the `npu` command: reads the command line and runs one subcommand.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/result.h"
#include "commands.h"

namespace npu::tools {

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        fail(npu::format("cannot write to standard output: %s", std::strerror(errno)));
    }
}

void fail(std::string message, int status) { throw Failure{std::move(message), status}; }

}  // namespace npu::tools

namespace {

using namespace npu::tools;

// Subcommands that are programs of their own beside this one, because they need llama.cpp (tools/llama).
struct External {
    const char* name;
    const char* help;
};
constexpr External externals[] = {
    {"capture", "Writes residual streams of a model's layers, for every token of a text"},
};

// Becomes the program of that subcommand; returns only when that cannot be done.
void become(const External& external, char** argv) {
    const std::filesystem::path here = std::filesystem::canonical("/proc/self/exe").parent_path();
    const std::string path = (here / (std::string("npu-") + external.name)).string();
    execv(path.c_str(), argv + 1);
    fail(npu::format("%s cannot be started (%s): it is built with the plugin, by scripts/setup", path.c_str(),
                     std::strerror(errno)));
}

void add_externals(CLI::App& program, char** argv) {
    for (const External& external : externals) {
        CLI::App* command = program.add_subcommand(external.name, external.help);
        command->prefix_command();
        command->set_help_flag();
        command->callback([&external, argv] { become(external, argv); });
    }
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App program("Tools for the NPUs of small boards, and for the NPU in software.", "npu");
    program.require_subcommand(1);
    add_asm(program);
    add_axmodel(program);
    add_check(program);
    add_disasm(program);
    add_doctor(program);
    add_elf(program);
    add_options(program);
    add_plan(program);
    add_predict(program);
    add_probe(program);
    add_registers(program);
    add_rkllm(program);
    add_sim(program);
    add_timing(program);
    add_externals(program, argv);
    try {
        program.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return program.exit(error) == 0 ? 0 : 2;
    } catch (const Failure& failure) {
        if (!failure.message.empty()) {
            std::fprintf(stderr, "npu: %s\n", failure.message.c_str());
        }
        return failure.status;
    }
    return 0;
}
