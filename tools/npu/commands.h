// The subcommands of `npu`. Each adds itself to the program and runs as a callback when it was chosen; it reports
// failure with fail() and never calls exit().
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace npu::tools {

// What a subcommand ends with: a message for standard error and the exit status of the program. 1: the command did its
// work and the answer is no (a program was refused, files differ); 2: it could not do its work (no such file, bad input).
struct Failure {
    std::string message;  // may be empty when everything was printed already
    int status = 2;
};

// To standard output, as it is. Ends the subcommand when that cannot be written.
void print(const std::string& text);

// Ends the subcommand.
[[noreturn]] void fail(std::string message, int status = 2);

void add_asm(CLI::App& program);
void add_axmodel(CLI::App& program);
void add_check(CLI::App& program);
void add_disasm(CLI::App& program);
void add_doctor(CLI::App& program);
void add_elf(CLI::App& program);
void add_options(CLI::App& program);
void add_plan(CLI::App& program);
void add_predict(CLI::App& program);
void add_probe(CLI::App& program);
void add_registers(CLI::App& program);
void add_rkllm(CLI::App& program);
void add_sim(CLI::App& program);
void add_timing(CLI::App& program);

}  // namespace npu::tools
