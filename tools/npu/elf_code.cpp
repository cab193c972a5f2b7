// `npu elf functions`, `xref` and `callers`: how the code of a stripped library hangs together.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "elf/references.h"
#include "elf_common.h"

namespace npu::tools {

namespace {

struct Options {
    std::string path, which, text;
    unsigned depth = 1;
    bool json = false;
};

std::string function_name(const elf::Program& program, std::uint64_t address) {
    const elf::Function* f = program.function_at(address);
    return f == nullptr ? std::string("-") : demangled(program.name_of(f->start));
}

void list_functions(const elf::Program& program, bool json) {
    if (program.functions().empty()) {
        fail(program.image().name() + ": no functions found", elf_nothing);
    }
    Json list = Json::array();
    std::string text;
    for (const elf::Function& f : program.functions()) {
        if (json) {
            list.push_back({{"address", hex(f.start)},
                            {"size", f.end - f.start},
                            {"name", program.name_of(f.start)},
                            {"found_by", elf::source_name(f.source)},
                            {"returns", f.returns}});
        } else {
            text += format("%10llx %7llu %-8s %s ", static_cast<unsigned long long>(f.start),
                           static_cast<unsigned long long>(f.end - f.start), elf::source_name(f.source),
                           f.returns ? "      " : "no ret") +
                    demangled(program.name_of(f.start)) + "\n";
        }
    }
    json ? print(list) : print(text);
}

void describe_function(const elf::Program& program, const elf::Function& f, bool json) {
    const elf::References references = elf::find_references(program);
    Json strings = Json::array();
    std::set<std::string> seen;
    for (const elf::Reference& r : references.from(f.start, f.end)) {
        const auto text =
            program.strings().find(r.target) == nullptr ? std::nullopt : elf::text_at(program.image(), r.target);
        if (text && seen.emplace(*text).second) {
            strings.push_back({{"site", hex(r.site)}, {"text", *text}});
        }
    }
    Json calls = Json::array();
    for (const elf::Call& c : references.calls_from(f.start, f.end)) {
        calls.push_back({{"site", hex(c.site)}, {"to", program.name_of(c.target)}, {"tail", c.tail}});
    }
    Json callers = Json::array();
    for (const elf::Call& c : references.calls) {
        if (c.target == f.start) {
            const elf::Function* from = program.function_at(c.site);
            callers.push_back({{"site", hex(c.site)}, {"from", from == nullptr ? "" : program.name_of(from->start)}});
        }
    }
    Json asserts = Json::array();
    for (const elf::AssertSite& s : elf::find_asserts(program, elf::find_sinks(program, references))) {
        if (s.site >= f.start && s.site < f.end) {
            asserts.push_back({{"site", hex(s.site)}, {"text", s.expression.value_or(s.format.value_or(""))}});
        }
    }
    const Json all{{"address", hex(f.start)},
                   {"end", hex(f.end)},
                   {"name", program.name_of(f.start)},
                   {"found_by", elf::source_name(f.source)},
                   {"returns", f.returns},
                   {"strings", strings},
                   {"calls", calls},
                   {"callers", callers},
                   {"asserts", asserts}};
    if (json) {
        print(all);
        return;
    }
    std::string text = demangled(program.name_of(f.start)) + "  " + hex(f.start) + " to " + hex(f.end) + "\n";
    for (const char* part : {"strings", "calls", "callers", "asserts"}) {
        text += std::string(part) + ":\n";
        for (const Json& entry : all.at(part)) {
            std::string value;
            for (const char* key : {"text", "to", "from"}) {
                value += entry.contains(key) ? one_line(demangled(entry.at(key).get<std::string>())) : "";
            }
            text += "    " + entry.at("site").get<std::string>() + "  " + value + "\n";
        }
    }
    print(text);
}

void run_functions(const Options& options) {
    const elf::Program program = open_program(options.path);
    if (options.which.empty()) {
        list_functions(program, options.json);
        return;
    }
    const std::uint64_t address = parse_address(program, options.which);
    const elf::Function* f = program.function_at(address);
    if (f == nullptr) {
        fail("no function holds " + hex(address), elf_nothing);
    }
    describe_function(program, *f, options.json);
}

void run_xref(const Options& options) {
    const elf::Program program = open_program(options.path);
    const elf::References references = elf::find_references(program);
    if (options.which.empty() == options.text.empty()) {
        fail("give either --to ADDRESS or --string TEXT", elf_usage);
    }
    Json list = Json::array();
    std::string lines;
    const auto add = [&](std::uint64_t site, std::uint64_t target, const char* kind, unsigned reg) {
        const std::string in = function_name(program, site);
        list.push_back({{"site", hex(site)},
                        {"target", hex(target)},
                        {"kind", kind},
                        {"register", reg < 31 ? Json(format("x%u", reg)) : Json(nullptr)},
                        {"function", in}});
        lines += format("%10llx -> %10llx  %-8s  %-4s ", static_cast<unsigned long long>(site),
                        static_cast<unsigned long long>(target), kind, reg < 31 ? format("x%u", reg).c_str() : "") +
                 in + "\n";
    };
    const auto add_all = [&](std::uint64_t first, std::uint64_t last) {
        for (const elf::Reference& r : references.to(first, last)) {
            add(r.site, r.target, elf::kind_name(r.kind), r.reg);
        }
    };
    if (!options.text.empty()) {
        for (const elf::Text& text : program.strings().all()) {
            if (text.text.find(options.text) != std::string_view::npos) {
                add_all(text.address, text.address + text.text.size() - 1);
            }
        }
    } else {
        const std::uint64_t address = parse_address(program, options.which);
        add_all(address, address);
        for (const elf::Branch& b : program.branches_to(address)) {
            add(b.site, b.target, b.op == elf::Op::call ? "call" : "branch", 31);
        }
    }
    options.json ? print(list) : print(lines);
    if (list.empty()) {
        fail("nothing mentions it", elf_nothing);
    }
}

void run_callers(const Options& options) {
    const elf::Program program = open_program(options.path);
    const elf::References references = elf::find_references(program);
    const std::uint64_t address = parse_address(program, options.which);
    std::multimap<std::uint64_t, const elf::Call*> by_target;
    for (const elf::Call& c : references.calls) {
        by_target.emplace(c.target, &c);
    }
    Json list = Json::array();
    std::string lines;
    std::set<std::uint64_t> seen{address};
    std::vector<std::uint64_t> level{address};
    for (unsigned depth = 1; depth <= options.depth && !level.empty(); ++depth) {
        std::vector<std::uint64_t> next;
        for (const std::uint64_t target : level) {
            const auto [first, last] = by_target.equal_range(target);
            for (auto it = first; it != last; ++it) {
                const elf::Call& c = *it->second;
                const elf::Function* from = program.function_at(c.site);
                const char* how = c.through_register ? "through a pointer" : c.tail ? "tail call" : "call";
                list.push_back({{"depth", depth},
                                {"site", hex(c.site)},
                                {"caller", from == nullptr ? "" : program.name_of(from->start)},
                                {"callee", program.name_of(target)},
                                {"how", how}});
                lines += std::string(2 * depth, ' ') + hex(c.site) + "  " + function_name(program, c.site) + " -> " +
                         demangled(program.name_of(target)) + "  (" + how + ")\n";
                if (from != nullptr && seen.insert(from->start).second) {
                    next.push_back(from->start);
                }
            }
        }
        level = std::move(next);
    }
    options.json ? print(list) : print(lines);
    if (list.empty()) {
        fail(format("nothing calls it directly; %zu calls in the file go through registers that are not known",
                    references.indirect),
             elf_nothing);
    }
}

CLI::App* add(CLI::App& elf, const char* name, const char* help, const std::shared_ptr<Options>& options) {
    CLI::App* command = elf.add_subcommand(name, help);
    command->add_option("LIB", options->path, "Shared object or executable")->required()->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    return command;
}

}  // namespace

void add_elf_functions(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add(elf, "functions", "All functions, or one with its texts, calls and callers", options);
    command->add_option("ADDRESS", options->which, "Address or name of one function")->type_name("");
    command->callback([options] { run_functions(*options); });
}

void add_elf_xref(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add(elf, "xref", "Who mentions an address or a text", options);
    command->add_option("--to", options->which, "Address or name")->type_name("");
    command->add_option("--string", options->text, "Texts that contain this")->type_name("");
    command->callback([options] { run_xref(*options); });
}

void add_elf_callers(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add(elf, "callers", "Who calls a function or an import", options);
    command->add_option("FUNCTION", options->which, "Address, symbol or import")->required()->type_name("");
    command->add_option("--depth", options->depth, "Callers of callers, so deep (default 1)")->type_name("");
    command->callback([options] { run_callers(*options); });
}

}  // namespace npu::tools
