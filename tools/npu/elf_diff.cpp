// `npu elf diff` and `npu elf find`: what a new build of a library added, dropped and moved.
#include <memory>
#include <set>

#include "elf/file.h"
#include "elf/patch.h"
#include "elf/signature.h"
#include "elf_common.h"

namespace npu::tools {

namespace {

struct Options {
    std::string before, after, address;
    std::vector<std::string> patches;
    bool json = false;
};

struct Side {
    elf::Program program;
    elf::References references;
    explicit Side(const std::string& path) : program(open_program(path)), references(elf::find_references(program)) {}
};

using Names = std::set<std::string>;

Names texts(const Side& side) {
    Names names;
    for (const elf::Text& t : side.program.strings().all()) {
        names.emplace(t.text);
    }
    return names;
}

Names exports(const Side& side) {
    Names names;
    for (const elf::Symbol& s : side.program.dynamic().symbols) {
        if (s.defined && !s.name.empty()) {
            names.insert(s.name);
        }
    }
    return names;
}

Names assertions(const Side& side) {
    Names names;
    for (const auto& s : elf::find_asserts(side.program, elf::find_sinks(side.program, side.references))) {
        const std::string file = s.file.value_or("");
        names.insert(file.substr(file.rfind('/') == std::string::npos ? 0 : file.rfind('/') + 1) + ": " +
                     s.expression.value_or(s.format.value_or("")));
    }
    return names;
}

// Upper-case names of environment variables, and lower-case keys such as rkllm.core_num.
bool is_variable(const std::string& text) {
    return text.size() > 5 && text.find('_') != std::string::npos &&
           text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
}

bool is_key(const std::string& text) {
    const std::size_t dot = text.find('.');
    return dot != std::string::npos && dot > 1 && dot + 2 < text.size() && text.size() < 64 &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.%") == std::string::npos &&
           text.find(".so") == std::string::npos;
}

template <typename Kept>
Json changes(const Names& before, const Names& after, Kept kept) {
    Json added = Json::array(), removed = Json::array();
    for (const std::string& name : after) {
        if (!before.contains(name) && kept(name)) {
            added.push_back(name);
        }
    }
    for (const std::string& name : before) {
        if (!after.contains(name) && kept(name)) {
            removed.push_back(name);
        }
    }
    return {{"added", added}, {"removed", removed}};
}

Json patches_json(const Options& options, const Side& after) {
    Json list = Json::array();
    for (const std::string& path : options.patches) {
        const auto bytes = elf::read_file(path);
        const auto patch = bytes ? elf::read_patch({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path)
                                 : Result<elf::Patch>(bytes.error());
        if (!patch) {
            fail(patch.error().message, elf_malformed);
        }
        elf::Patch anywhere = *patch;  // the banner of the old build does not matter here
        anywhere.banner.clear();
        list.push_back({{"patch", path}, {"finding", elf::check_patch(after.program, anywhere).message}});
    }
    return list;
}

void run_diff(const Options& options) {
    const Side before(options.before), after(options.after);
    const elf::FunctionDiff diff =
        elf::match_functions(before.program, before.references, after.program, after.references);
    const Names old_texts = texts(before), new_texts = texts(after);
    const auto all = [](const std::string&) { return true; };
    Json matched = Json::array(), ambiguous = Json::array(), gone = Json::array(), added = Json::array();
    for (const elf::Match& m : diff.matched) {
        matched.push_back({{"from", hex(m.from)}, {"to", hex(m.to)}, {"by", m.by}});
    }
    std::size_t silent = 0;
    for (const elf::Ambiguous& a : diff.ambiguous) {
        if (a.candidates == 0) {
            ++silent;
        } else {
            ambiguous.push_back({{"from", hex(a.from)}, {"candidates", a.candidates}});
        }
    }
    for (const std::uint64_t a : diff.gone) {
        gone.push_back(hex(a));
    }
    for (const std::uint64_t a : diff.added) {
        added.push_back(hex(a));
    }
    Json json{{"strings", changes(old_texts, new_texts, all)},
              {"exports", changes(exports(before), exports(after), all)},
              {"variables", changes(old_texts, new_texts, is_variable)},
              {"keys", changes(old_texts, new_texts, is_key)},
              {"asserts", changes(assertions(before), assertions(after), all)},
              {"functions", {{"matched", matched}, {"ambiguous", ambiguous}, {"gone", gone}, {"new", added}}},
              {"patches", patches_json(options, after)}};
    if (options.json) {
        print(json);
        return;
    }
    std::string text;
    for (const char* kind : {"exports", "variables", "keys", "asserts", "strings"}) {
        const Json& change = json.at(kind);
        text += format("%s: %zu added, %zu removed\n", kind, change.at("added").size(), change.at("removed").size());
        for (const Json& name : change.at("added")) {
            text += "  + " + one_line(name.get<std::string>()) + "\n";
        }
        for (const Json& name : change.at("removed")) {
            text += "  - " + one_line(name.get<std::string>()) + "\n";
        }
    }
    text += format("functions: %zu matched, %zu ambiguous, %zu gone, %zu new, %zu without anything to know them by\n",
                   matched.size(), ambiguous.size(), gone.size(), added.size(), silent);
    for (const Json& m : matched) {
        text += "  " + m["from"].get<std::string>() + " = " + m["to"].get<std::string>() + "  by " +
                m["by"].get<std::string>() + "\n";
    }
    for (const Json& a : ambiguous) {
        text += "  " + a["from"].get<std::string>() +
                format("  ambiguous (%zu candidates)\n", a["candidates"].get<std::size_t>());
    }
    for (const Json& p : json.at("patches")) {
        text += p["patch"].get<std::string>() + ": " + p["finding"].get<std::string>() + "\n";
    }
    print(text);
}

void run_find(const Options& options) {
    const Side before(options.before), after(options.after);
    const std::uint64_t address = parse_address(before.program, options.address);
    const elf::Function* f = before.program.function_at(address);
    if (f == nullptr) {
        fail("no function of " + options.before + " holds " + hex(address), elf_nothing);
    }
    const elf::FunctionDiff diff =
        elf::match_functions(before.program, before.references, after.program, after.references);
    if (const elf::Match* m = diff.find(f->start)) {
        const Json json{{"from", hex(m->from)}, {"to", hex(m->to)}, {"by", m->by}};
        options.json ? print(json) : print(hex(m->to) + "  (by " + m->by + ")\n");
        return;
    }
    for (const elf::Ambiguous& a : diff.ambiguous) {
        if (a.from == f->start && a.candidates != 0) {
            fail(format("ambiguous (%zu candidates)", a.candidates), elf_ambiguous);
        }
    }
    fail("not found again", elf_nothing);
}

}  // namespace

void add_elf_diff(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = elf.add_subcommand("diff", "Texts, exports, assertions and functions of two builds");
    command->add_option("OLD", options->before, "Older library")->required()->type_name("");
    command->add_option("NEW", options->after, "Newer library")->required()->type_name("");
    command->add_option("--patch", options->patches, "Also says where this patch would apply in NEW")->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run_diff(*options); });
}

void add_elf_find(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = elf.add_subcommand("find", "Where a function of another build went");
    command->add_option("LIB", options->after, "Library to look in")->required()->type_name("");
    command->add_option("--from", options->before, "Library that has the function")->required()->type_name("");
    command->add_option("--addr", options->address, "Its address or name there")->required()->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run_find(*options); });
}

}  // namespace npu::tools
