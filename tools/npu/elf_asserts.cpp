// `npu elf asserts` and `npu elf guards`: the assertions of a stripped library, and the branches that decide them.
#include <memory>
#include <regex>

#include "elf/guards.h"
#include "elf_common.h"

namespace npu::tools {

namespace {

struct Options {
    std::string path, sink, pattern, which;
    bool json = false;
};

std::regex pattern_of(const std::string& text) {
    try {
        return std::regex(text);
    } catch (const std::regex_error& error) {
        fail(text + ": " + error.what(), elf_usage);
    }
}

std::string text_of(const elf::AssertSite& s) {
    if (s.expression) {
        return *s.expression;
    }
    return s.format ? "(" + *s.format + ")" : "(unknown)";
}

Json json_of(const elf::Program& program, const elf::AssertSite& s, const elf::Guards& guards) {
    const auto maybe = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
    Json list = Json::array();
    for (const elf::Guard& g : guards.all) {
        const auto offset = program.image().offset_of(g.site, 4);
        list.push_back({{"address", hex(g.site)},
                        {"offset", offset ? Json(hex(*offset)) : Json(nullptr)},
                        {"class", elf::class_name(g.kind)},
                        {"word", format("%08x", g.word)},
                        {"target", hex(g.target)},
                        {"patched", g.safe() ? Json(format("%08x", g.patched)) : Json(nullptr)},
                        {"through_jump", g.through_jump}});
    }
    return {{"site", hex(s.site)},
            {"tail", hex(s.tail)},
            {"function", program.name_of(s.function)},
            {"sink", s.sink->name},
            {"expression", maybe(s.expression)},
            {"file", maybe(s.file)},
            {"line", maybe(s.line)},
            {"in", maybe(s.function_name)},
            {"format", maybe(s.format)},
            {"shared", guards.deciding() > 1},
            {"guards", std::move(list)}};
}

struct Found {
    std::vector<elf::AssertSite> sites;
    std::vector<elf::Guards> guards;
};

Found find(const elf::Program& program, const Options& options) {
    const elf::References references = elf::find_references(program);
    const auto sinks = elf::find_sinks(program, references, options.sink);
    if (sinks.empty()) {
        fail("no function that reports failed assertions was found; name one with --sink", elf_nothing);
    }
    Found found;
    const std::regex pattern = pattern_of(options.pattern);
    for (elf::AssertSite& s : elf::find_asserts(program, sinks)) {
        if (options.pattern.empty() || std::regex_search(text_of(s).substr(0, 4096), pattern)) {
            found.sites.push_back(std::move(s));
        }
    }
    found.guards = elf::find_guards(program, found.sites);
    return found;
}

void run_asserts(const Options& options) {
    const elf::Program program = open_program(options.path);
    const Found found = find(program, options);
    Json list = Json::array();
    std::string lines;
    for (std::size_t i = 0; i < found.sites.size(); ++i) {
        const elf::AssertSite& s = found.sites[i];
        const elf::Guards& guards = found.guards[i];
        if (options.json) {
            list.push_back(json_of(program, s, guards));
            continue;
        }
        std::string classes;
        for (const elf::Guard& g : guards.all) {
            classes += (classes.empty() ? "" : ",") + std::string(elf::class_name(g.kind));
        }
        lines += format("%10llx  %-14s %s:%s  ", static_cast<unsigned long long>(s.site), s.sink->name,
                        s.file.value_or("").c_str(), s.line ? std::to_string(*s.line).c_str() : "?") +
                 one_line(text_of(s)) + "  [" + classes + "]  " + demangled(program.name_of(s.function)) + "\n";
    }
    options.json ? print(list) : print(lines);
    if (found.sites.empty()) {
        fail("no assertion matches", elf_nothing);
    }
}

void run_guards(const Options& given) {
    Options options = given;
    const elf::Program program = open_program(options.path);
    // A number is the address of a site or its tail; anything else an expression.
    std::optional<std::uint64_t> address;
    if (options.which.starts_with("0x")) {
        address = parse_address(program, options.which);
    } else {
        options.pattern = options.which;
    }
    const Found found = find(program, options);
    Json list = Json::array();
    std::string lines;
    for (std::size_t i = 0; i < found.sites.size(); ++i) {
        const elf::AssertSite& s = found.sites[i];
        if (address && s.site != *address && s.tail != *address) {
            continue;
        }
        list.push_back(json_of(program, s, found.guards[i]));
        lines += hex(s.site) + "  " + s.file.value_or("") + ":" + (s.line ? std::to_string(*s.line) : "?") + "  " +
                 one_line(text_of(s)) + "\n";
        if (found.guards[i].deciding() > 1) {
            lines +=
                format("    %zu ways lead here: a patch must change all (--all-guards)\n", found.guards[i].deciding());
        }
        for (const elf::Guard& g : found.guards[i].all) {
            lines += format("    %10llx  %08x  %-9s ", static_cast<unsigned long long>(g.site), g.word,
                            elf::class_name(g.kind)) +
                     (g.safe() ? format("-> %08x", g.patched) : std::string("must not be patched")) +
                     (g.through_jump ? "  (through a jump)" : "") + "\n";
        }
    }
    options.json ? print(list) : print(lines);
    if (list.empty()) {
        fail("no assertion matches", elf_nothing);
    }
}

}  // namespace

void add_elf_asserts(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = elf.add_subcommand("asserts", "All assertions: expression, file, line, function, guards");
    command->add_option("LIB", options->path, "Shared object or executable")->required()->type_name("");
    command->add_option("--sink", options->sink, "Function that failed assertions call (default: found by itself)")
        ->type_name("");
    command->add_option("--grep", options->pattern, "Only those that match a regular expression")->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run_asserts(*options); });
}

void add_elf_guards(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = elf.add_subcommand("guards", "The branches that decide an assertion, and what disables each");
    command->add_option("LIB", options->path, "Shared object or executable")->required()->type_name("");
    command->add_option("--assert", options->which, "Regular expression for its text, or address (0x...)")
        ->required()
        ->type_name("");
    command->add_option("--sink", options->sink, "Function that failed assertions call (default: found by itself)")
        ->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run_guards(*options); });
    command->footer(
        "Classes: taken (the branch leads to the report; a NOP disables it), falls (the report stands behind the "
        "branch;\n"
        "an unconditional branch disables it), canary, bound, exception, start, unknown (never patched).");
}

}  // namespace npu::tools
