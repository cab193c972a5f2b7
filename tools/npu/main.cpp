// Entry of the `npu` command: reads the command line and runs one subcommand.
#include <cstdio>

#include "commands.h"

namespace npu::tools {

void fail(std::string message, int status) { throw Failure{std::move(message), status}; }

}  // namespace npu::tools

int main(int argc, char** argv) {
    using namespace npu::tools;
    CLI::App program("Tools for the NPUs of small boards, and for the NPU in software.", "npu");
    program.require_subcommand(1);
    add_asm(program);
    add_check(program);
    add_disasm(program);
    add_doctor(program);
    add_options(program);
    add_plan(program);
    add_predict(program);
    add_probe(program);
    add_registers(program);
    add_sim(program);
    add_timing(program);
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
