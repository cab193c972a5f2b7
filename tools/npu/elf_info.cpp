// `npu elf info` and `npu elf strings`: what a library says of itself.
#include <map>
#include <memory>
#include <regex>

#include "elf/info.h"
#include "elf/references.h"
#include "elf_common.h"

namespace npu::tools {

namespace {

struct InfoOptions {
    std::string path;
    bool json = false;
};

Json names_of(const elf::Dynamic& dynamic, bool defined) {
    Json list = Json::array();
    for (const elf::Symbol& s : dynamic.symbols) {
        if (s.defined == defined && !s.name.empty()) {
            Json entry{{"name", s.name}};
            if (defined) {
                entry["address"] = hex(s.address);
                entry["size"] = s.size;
            } else if (!s.version.empty()) {
                entry["version"] = s.version;
            }
            list.push_back(std::move(entry));
        }
    }
    return list;
}

Json info_json(const elf::Image& image) {
    const elf::Dynamic dynamic = dynamic_of(image);
    const elf::Info info = elf::describe(image, dynamic, elf::Strings(image));
    Json segments = Json::array();
    for (const elf::Segment& s : image.segments()) {
        if (s.type == elf::segment_load) {
            segments.push_back({{"address", hex(s.address)},
                                {"offset", hex(s.offset)},
                                {"file_size", hex(s.file_size)},
                                {"memory_size", hex(s.memory_size)},
                                {"flags", std::string((s.flags & 4) != 0 ? "r" : "-") +
                                              ((s.flags & 2) != 0 ? "w" : "-") + ((s.flags & 1) != 0 ? "x" : "-")}});
        }
    }
    return {{"file", image.name()},
            {"kind", image.is_executable_file() ? "executable" : "shared object"},
            {"architecture", "aarch64"},
            {"size", image.bytes().size()},
            {"sha256", info.sha256},
            {"build_id", info.build_id},
            {"soname", dynamic.soname},
            {"banners", info.banners},
            {"runtime_version", info.runtime_version},
            {"compilers", info.compilers},
            {"stripped", info.stripped},
            {"frame_table", info.has_frame_table},
            {"sections", image.sections().size()},
            {"segments", std::move(segments)},
            {"needed", dynamic.needed},
            {"may_open", info.opened},
            {"hardening",
             {{"canary", info.hardening.canary},
              {"branch_target", info.hardening.branch_target},
              {"pointer_authentication", info.hardening.pointer_auth},
              {"relro", info.hardening.relro},
              {"bind_now", info.hardening.bind_now},
              {"executable_stack", info.hardening.stack_executable}}},
            {"exports", names_of(dynamic, true)},
            {"imports", names_of(dynamic, false)},
            {"warnings", image.warnings()}};
}

std::string listed(const Json& value) {
    if (value.is_array()) {
        std::string text;
        for (const Json& entry : value) {
            text += "\n    ";
            if (entry.is_object() && entry.contains("flags")) {
                text += entry["address"].get<std::string>() + " from offset " + entry["offset"].get<std::string>() +
                        ", " + entry["file_size"].get<std::string>() + " bytes, " + entry["flags"].get<std::string>();
            } else if (entry.is_object()) {
                text += demangled(entry["name"].get<std::string>());
                text += entry.contains("address") ? "  " + entry["address"].get<std::string>() : "";
                text += entry.contains("version") ? "  " + entry["version"].get<std::string>() : "";
            } else {
                text += one_line(entry.get<std::string>());
            }
        }
        return text.empty() ? " none" : text;
    }
    if (value.is_object()) {
        std::string text;
        for (const auto& [name, part] : value.items()) {
            text += part.get<bool>() ? " " + name : "";
        }
        return text.empty() ? " none" : text;
    }
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    return " " + (text.empty() ? "none" : text);
}

void run_info(const InfoOptions& options) {
    const elf::Image image = open_image(options.path);
    const Json json = info_json(image);
    if (options.json) {
        print(json);
        return;
    }
    std::string text;
    for (const auto& [name, value] : json.items()) {
        text += name + ":" + listed(value) + "\n";
    }
    print(text);
}

struct StringOptions {
    std::string path, section, pattern;
    bool referenced = false;
    bool json = false;
};

void run_strings(const StringOptions& options) {
    const elf::Program program = open_program(options.path);
    std::map<std::uint64_t, std::size_t> mentions;
    const elf::References references = elf::find_references(program);
    for (const elf::Reference& r : references.all) {
        if (const elf::Text* text = program.strings().find(r.target)) {
            ++mentions[text->address];
        }
    }
    std::regex pattern;
    try {
        pattern = std::regex(options.pattern);
    } catch (const std::regex_error& error) {
        fail("--grep " + options.pattern + ": " + error.what(), elf_usage);
    }
    Json list = Json::array();
    std::string lines;
    for (const elf::Text& text : program.strings().all()) {
        const elf::Section* section = program.image().section_at(text.address);
        const std::string name = section == nullptr ? "" : section->name;
        const std::size_t count = mentions.contains(text.address) ? mentions.at(text.address) : 0;
        // The pattern sees the beginning only: std::regex needs stack in proportion to the text.
        const std::string content(text.text);
        const bool kept = (options.section.empty() || options.section == name) && (!options.referenced || count != 0) &&
                          (options.pattern.empty() || std::regex_search(content.substr(0, 4096), pattern));
        if (!kept) {
            continue;
        }
        if (options.json) {
            list.push_back({{"address", hex(text.address)},
                            {"offset", hex(text.offset)},
                            {"section", name},
                            {"references", count},
                            {"terminated", text.terminated},
                            {"text", content}});
        } else {
            lines += format("%10llx %10llx %-12s %4zu  ", static_cast<unsigned long long>(text.address),
                            static_cast<unsigned long long>(text.offset), name.c_str(), count) +
                     one_line(content) + "\n";
        }
    }
    if (options.json) {
        print(list);
    } else {
        print(lines);
    }
    if (list.empty() && lines.empty()) {
        fail("no such string", elf_nothing);
    }
}

}  // namespace

void add_elf_info(CLI::App& elf) {
    auto options = std::make_shared<InfoOptions>();
    CLI::App* command =
        elf.add_subcommand("info", "Who made it, of what, what it exports and wants, how it is guarded");
    command->add_option("LIB", options->path, "Shared object or executable")->required()->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run_info(*options); });
}

void add_elf_strings(CLI::App& elf) {
    auto options = std::make_shared<StringOptions>();
    CLI::App* command =
        elf.add_subcommand("strings", "Texts with address, file offset, section and how often they are mentioned");
    command->add_option("LIB", options->path, "Shared object or executable")->required()->type_name("");
    command->add_option("--section", options->section, "Only of this section")->type_name("");
    command->add_flag("--referenced", options->referenced, "Only those that code or data mentions");
    command->add_option("--grep", options->pattern, "Only those that match a regular expression")->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run_strings(*options); });
}

}  // namespace npu::tools
