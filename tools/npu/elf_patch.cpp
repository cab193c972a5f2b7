// `npu elf patch`: making, checking, applying and taking back patches that are data (elf/patch.h).
#include "elf/patch.h"

#include <filesystem>
#include <memory>
#include <regex>

#include "base/sha256.h"
#include "elf/file.h"
#include "elf/info.h"
#include "elf_common.h"

namespace npu::tools {

namespace {

struct Options {
    std::string patch, path, output, pattern, branch, sink, name, caveat;
    bool all_guards = false, dry_run = false, in_place = false, accept = false, follow = false, json = false;
};

int status_of(elf::PatchState state) {
    switch (state) {
        case elf::PatchState::applies: return 0;
        case elf::PatchState::applied: return elf_patched_already;
        case elf::PatchState::moved: return elf_differs;
        case elf::PatchState::ambiguous: return elf_ambiguous;
        case elf::PatchState::differs: return elf_differs;
        case elf::PatchState::wrong_target: return elf_differs;
        case elf::PatchState::unsafe: return elf_unsafe;
    }
    return elf_usage;
}

const char* state_name(elf::PatchState state) {
    switch (state) {
        case elf::PatchState::applies: return "applies";
        case elf::PatchState::applied: return "applied already";
        case elf::PatchState::moved: return "moved";
        case elf::PatchState::ambiguous: return "ambiguous";
        case elf::PatchState::differs: return "differs";
        case elf::PatchState::wrong_target: return "wrong target";
        case elf::PatchState::unsafe: return "unsafe";
    }
    return "";
}

elf::Patch open_patch(const std::string& path) {
    const auto bytes = elf::read_file(path);
    if (!bytes) {
        fail(bytes.error().message, elf_io);
    }
    auto patch = elf::read_patch({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path);
    if (!patch) {
        fail(patch.error().message, elf_malformed);
    }
    return std::move(*patch);
}

void write(const std::string& path, elf::Bytes bytes, unsigned mode) {
    if (const auto written = elf::write_file_whole(path, bytes, mode); !written) {
        fail(written.error().message, elf_io);
    }
}

std::string hex_bytes(const std::vector<std::uint8_t>& bytes) {
    std::string text;
    for (const std::uint8_t b : bytes) {
        text += format("%02x", b);
    }
    return text;
}

void show(const elf::Patch& patch, bool forward) {
    std::string text = patch.name + "\n";
    for (const elf::PatchPlace& p : patch.places) {
        text += format("  %10llx (offset %llx): ", static_cast<unsigned long long>(p.address),
                       static_cast<unsigned long long>(p.offset)) +
                hex_bytes(forward ? p.old_bytes : p.new_bytes) + " -> " +
                hex_bytes(forward ? p.new_bytes : p.old_bytes) + "  " + p.reason + "\n";
    }
    if (!patch.caveat.empty()) {
        text += "  caveat: " + patch.caveat + "\n";
    }
    print(text);
}

// A branch that somebody named by its address, disabled as the failing side of an assertion would be: by a NOP.
elf::NewPatch patch_branch(const elf::Program& program, const Options& options) {
    const std::uint64_t address = parse_address(program, options.branch);
    const elf::Instruction i = program.instruction(address);
    if (!program.image().executable(address) || !i.is_conditional()) {
        fail(hex(address) + " is no conditional branch", elf_usage);
    }
    if (const std::string reason = elf::forbidden_branch(program, address); !reason.empty()) {
        return {elf::PatchState::unsafe, reason, {}};
    }
    elf::Guards guards;
    guards.all.push_back({.kind = elf::GuardClass::taken,
                          .site = address,
                          .target = i.target,
                          .word = program.image().load_at<std::uint32_t>(address).value_or(0),
                          .patched = elf::nop_word,
                          .through_jump = false});
    return elf::make_patch(program, {}, guards, options.name, false);
}

elf::NewPatch patch_assertion(const elf::Program& program, const Options& options) {
    const elf::References references = elf::find_references(program);
    std::regex pattern;
    try {
        pattern = std::regex(options.pattern);
    } catch (const std::regex_error& error) {
        fail(options.pattern + ": " + error.what(), elf_usage);
    }
    std::vector<elf::AssertSite> sites;
    for (elf::AssertSite& s : elf::find_asserts(program, elf::find_sinks(program, references, options.sink))) {
        const bool named = options.pattern == hex(s.site);
        if (named || (s.expression && std::regex_search(s.expression->substr(0, 4096), pattern))) {
            sites.push_back(std::move(s));
        }
    }
    if (sites.empty()) {
        fail("no assertion matches " + options.pattern, elf_nothing);
    }
    if (sites.size() > 1) {
        std::string list = format("%zu assertions match; name one by its address:", sites.size());
        for (std::size_t i = 0; i < std::min<std::size_t>(sites.size(), 20); ++i) {
            list += "\n  --assert " + hex(sites[i].site) + "  " + sites[i].expression.value_or("") + "  in " +
                    program.name_of(sites[i].function);
        }
        fail(list, elf_ambiguous);
    }
    return elf::make_patch(program, sites[0], elf::find_guards(program, sites[0]), options.name, options.all_guards);
}

void run_new(const Options& options) {
    if (options.pattern.empty() == options.branch.empty()) {
        fail("give either --assert or --branch", elf_usage);
    }
    const elf::Program program = open_program(options.path);
    elf::NewPatch made = options.branch.empty() ? patch_assertion(program, options) : patch_branch(program, options);
    if (made.state != elf::PatchState::applies) {
        fail(made.message, status_of(made.state));
    }
    const elf::Info info = elf::describe(program.image(), program.dynamic(), program.strings());
    made.patch.banner = info.banners.empty() ? "" : info.banners.front();
    made.patch.caveat = options.caveat;
    const std::string text = elf::write_patch(made.patch);
    if (options.output.empty() || options.output == "-") {
        print(text);
        return;
    }
    write(options.output, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, 0644);
    show(made.patch, true);
}

void run_verify(const Options& options) {
    const elf::Patch patch = open_patch(options.patch);
    const elf::Program program = open_program(options.path);
    const elf::PatchCheck check = elf::check_patch(program, patch);
    if (options.json) {
        print(Json{{"state", state_name(check.state)}, {"message", check.message}});
    } else {
        print(std::string(state_name(check.state)) + ": " + check.message + "\n");
    }
    if (check.state != elf::PatchState::applies) {
        fail("", status_of(check.state));
    }
}

// Writes the changed library, to the place that was asked for.
void store(const Options& options, const elf::Image& image, const std::vector<std::uint8_t>& bytes) {
    const unsigned mode = elf::mode_of(options.path);
    std::string output = options.output;
    std::error_code ignored;
    if (!options.in_place && std::filesystem::equivalent(output, options.path, ignored)) {
        fail("-o names the library itself; --in-place replaces it and keeps the original beside it", elf_usage);
    }
    if (options.in_place) {
        // Through a link the file itself is replaced, not the link.
        output = options.follow ? std::filesystem::canonical(options.path).string() : options.path;
        const std::string backup = output + ".orig";
        if (elf::exists(backup)) {
            fail(backup + " exists already, and is not overwritten; move it away or write to another file with -o",
                 elf_io);
        }
        write(backup, image.bytes(), mode);
    }
    write(output, bytes, mode);
    if (!options.json) {
        print(output + ": written\n");
    }
}

void run_change(const Options& options, bool forward) {
    if (options.output.empty() != options.in_place) {
        fail("give either -o FILE or --in-place", elf_usage);
    }
    if (elf::is_symlink(options.path) && !options.follow) {
        fail(options.path + " is a link; name the file itself or give --follow", elf_usage);
    }
    elf::Patch patch = open_patch(options.patch);
    const elf::Program program = open_program(options.path);
    const elf::PatchCheck check = elf::check_patch(program, patch);
    if (!forward) {
        if (check.state != elf::PatchState::applied) {
            fail(std::string("not patched with this: ") + check.message, elf_nothing);
        }
    } else if (check.state == elf::PatchState::moved && options.accept) {
        patch = check.found;
    } else if (check.state != elf::PatchState::applies) {
        const bool moved = check.state == elf::PatchState::moved;
        fail(std::string(state_name(check.state)) + ": " + check.message +
                 (moved ? "; to patch it there give --accept-reanchor" : ""),
             status_of(check.state));
    }
    const auto bytes = elf::apply_patch(program.image(), patch, forward);
    if (!bytes) {
        fail(bytes.error().message, elf_differs);
    }
    if (!options.json) {
        show(patch, forward);
    }
    if (!options.dry_run) {
        store(options, program.image(), *bytes);
    }
    if (options.json) {
        print(Json{{"patch", patch.name},
                   {"direction", forward ? "apply" : "revert"},
                   {"written", !options.dry_run},
                   {"sha256", npu::sha256(*bytes)},
                   {"caveat", patch.caveat},
                   {"places", Json::parse(elf::write_patch(patch)).at("places")}});
    }
}

void add_change(CLI::App& patch, const char* name, const char* help, bool forward) {
    auto options = std::make_shared<Options>();
    CLI::App* command = patch.add_subcommand(name, help);
    command->add_option("PATCH", options->patch, "Patch file")->required()->type_name("");
    command->add_option("LIB", options->path, "Library")->required()->type_name("");
    command->add_option("-o,--output", options->output, "File to write")->type_name("");
    command->add_flag("--in-place", options->in_place, "Replaces LIB and keeps it as LIB.orig");
    command->add_flag("--follow", options->follow, "LIB may be a link");
    command->add_flag("--dry-run", options->dry_run, "Writes nothing");
    command->add_flag("--json", options->json, "Prints JSON");
    if (forward) {
        command->add_flag("--accept-reanchor", options->accept,
                          "Patches the place that was found again in another build");
    }
    command->callback([options, forward] { run_change(*options, forward); });
}

}  // namespace

void add_elf_patch(CLI::App& elf) {
    CLI::App* patch = elf.add_subcommand("patch", "Patches as data: new, verify, apply, revert");
    patch->require_subcommand(1);
    auto options = std::make_shared<Options>();
    CLI::App* make = patch->add_subcommand("new", "Makes the patch that disables one assertion");
    make->add_option("LIB", options->path, "Library")->required()->type_name("");
    make->add_option("--assert", options->pattern, "Regular expression for its text, or address of its site (0x...)")
        ->type_name("");
    make->add_option("--branch", options->branch, "Address of a conditional branch never to be taken")->type_name("");
    make->add_option("--sink", options->sink, "Function that failed assertions call")->type_name("");
    make->add_option("--name", options->name, "Name of the patch")->required()->type_name("");
    make->add_option("--caveat", options->caveat, "What whoever applies it must know")->type_name("");
    make->add_option("-o,--output", options->output, "Patch file to write; - is standard output")->type_name("");
    make->add_flag("--all-guards", options->all_guards, "Changes all branches of a shared tail");
    make->callback([options] { run_new(*options); });

    auto verify_options = std::make_shared<Options>();
    CLI::App* verify = patch->add_subcommand("verify", "Whether it applies, or is applied");
    verify->add_option("PATCH", verify_options->patch, "Patch file")->required()->type_name("");
    verify->add_option("LIB", verify_options->path, "Library")->required()->type_name("");
    verify->add_flag("--json", verify_options->json, "Prints JSON");
    verify->callback([verify_options] { run_verify(*verify_options); });

    add_change(*patch, "apply", "Applies it, to a new file or in place", true);
    add_change(*patch, "revert", "Takes it back", false);
}

}  // namespace npu::tools
