// `npu elf crash` and `npu elf rtti`: names where there are none: of a crash, and of types.
#include "elf/crash.h"

#include <memory>
#include <regex>

#include "elf/file.h"
#include "elf/rtti.h"
#include "elf_common.h"

namespace npu::tools {

namespace {

struct Options {
    std::string log, path, pattern;
    bool json = false;
};

void run_crash(const Options& options) {
    const auto bytes = elf::read_file(options.log == "-" ? "/dev/stdin" : options.log);
    if (!bytes) {
        fail(bytes.error().message, elf_io);
    }
    const std::string_view log(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    const auto frames = elf::read_backtrace(log);
    const std::string report = elf::known_report(log);
    const elf::Program program = open_program(options.path);
    const std::string module =
        options.path.substr(options.path.rfind('/') == std::string::npos ? 0 : options.path.rfind('/') + 1);
    const auto explained = elf::explain(program, elf::find_references(program), module, frames);
    Json list = Json::array();
    std::string text;
    for (const elf::ExplainedFrame& e : explained) {
        list.push_back({{"module", e.frame.module},
                        {"offset", hex(e.frame.offset)},
                        {"function", e.function},
                        {"assertions", e.assertions},
                        {"texts", e.texts},
                        {"report", e.report}});
        text += e.frame.module + "+" + hex(e.frame.offset) + "  " + (e.function.empty() ? "?" : demangled(e.function));
        for (const std::string& a : e.assertions) {
            text += "\n    failed: " + one_line(a);
        }
        text += e.report.empty() ? "" : "\n    known: " + e.report;
        for (const std::string& t : e.texts) {
            text += "\n    mentions: " + one_line(t);
        }
        text += "\n";
    }
    if (!report.empty()) {
        text += "known: " + report + "\n";
    }
    options.json ? print(Json{{"frames", list}, {"report", report}}) : print(text);
    if (list.empty() && report.empty()) {
        fail("no line of the form " + module + "(+0x...) in " + options.log, elf_nothing);
    }
}

void run_rtti(const Options& options) {
    const elf::Program program = open_program(options.path);
    std::regex pattern;
    try {
        pattern = std::regex(options.pattern);
    } catch (const std::regex_error& error) {
        fail(options.pattern + ": " + error.what(), elf_usage);
    }
    Json list = Json::array();
    std::string text;
    for (const elf::TypeName& t : elf::find_types(program)) {
        if (!options.pattern.empty() && !std::regex_search(t.name.substr(0, 4096), pattern)) {
            continue;
        }
        Json tables = Json::array();
        for (const std::uint64_t table : t.tables) {
            tables.push_back(hex(table));
        }
        list.push_back({{"typeinfo", hex(t.address)},
                        {"name", t.name},
                        {"mangled", t.mangled},
                        {"enclosing", t.enclosing},
                        {"tables", tables}});
        text += format("%10llx  ", static_cast<unsigned long long>(t.address)) + t.name + "\n";
        if (!t.enclosing.empty()) {
            text += "            in " + t.enclosing + "\n";
        }
    }
    options.json ? print(list) : print(text);
    if (list.empty()) {
        fail("no type names", elf_nothing);
    }
}

}  // namespace

void add_elf_crash(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        elf.add_subcommand("crash", "Turns a backtrace of a stripped library into assertions and functions");
    command->add_option("LOG", options->log, "Text with lines such as lib.so(+0x1234); - is standard input")
        ->required()
        ->type_name("");
    command->add_option("--lib", options->path, "The library, of the same build")->required()->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run_crash(*options); });
}

void add_elf_rtti(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = elf.add_subcommand("rtti", "Names of types and lambdas, and their tables of virtual functions");
    command->add_option("LIB", options->path, "Shared object or executable")->required()->type_name("");
    command->add_option("--grep", options->pattern, "Only those that match a regular expression")->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run_rtti(*options); });
}

}  // namespace npu::tools
