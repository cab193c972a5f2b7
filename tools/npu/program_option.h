// The option --format of the subcommands that read programs.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "commands.h"
#include "program_file.h"

namespace npu::tools {

// Adds an option whose value is the name of a format.
inline CLI::Option* add_format_option(CLI::App& command, const char* name, std::string& value, const char* help) {
    return command.add_option(name, value, help)
        ->check(CLI::IsMember({"raw", "hex", "hex32", "dump", "json", "asm"}))
        ->type_name("FORMAT");
}

// Reads the program that the command line names; ends the subcommand when it cannot be read.
inline Program read_or_fail(const std::string& path, const std::string& format) {
    Result<Program> program = read_program(path, format_from_name(format));  // "" names none: detected
    if (!program) {
        fail(program.error().message);
    }
    return *std::move(program);
}

}  // namespace npu::tools
