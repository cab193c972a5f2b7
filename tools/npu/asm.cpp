// `npu asm`: from text to words, and from any of the formats to any other.
#include <memory>

#include "commands.h"
#include "program_file.h"
#include "program_option.h"

namespace npu::tools {

namespace {

struct Options {
    std::string path = "-";
    std::string format;
    std::string output = "-";
    std::string as = "raw";
};

void run(const Options& options) {
    const Program program = read_or_fail(options.path, options.format);
    const std::string bytes = write_program(program.words, *format_from_name(options.as));
    if (const Result<void> written = write_file(options.output, bytes); !written) {
        fail(written.error().message);
    }
}

}  // namespace

void add_asm(CLI::App& program) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        program.add_subcommand("asm", "Assembles a command program, or converts it from one format to another");
    command->add_option("FILE", options->path, "Program; - is standard input")->type_name("");
    add_format_option(*command, "--format", options->format,
                      "What FILE is: raw, hex, hex32, dump, json or asm (default: by its content)");
    command->add_option("-o,--output", options->output, "Where the words go; - is standard output")
        ->type_name("FILE")
        ->capture_default_str();
    add_format_option(*command, "--as", options->as, "What to write")->capture_default_str();
    command->footer("Instructions and formats: docs/programs.md");
    command->callback([options] { run(*options); });
}

}  // namespace npu::tools
