// `npu disasm`: what the words of a command program say.
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "program_file.h"
#include "program_option.h"
#include "rockchip/assembler.h"
#include "rockchip/command.h"
#include "rockchip/disassembler.h"

namespace npu::tools {

namespace {

struct Options {
    std::string path = "-";
    std::string format;
    bool json = false;
    bool meaning = false;
    bool assembly = false;
};

std::string heading(std::size_t number, const rockchip::TaskView& task) {
    std::string text = format("# task %zu: %zu word%s", number, task.words.size(), task.words.size() == 1 ? "" : "s");
    if (!task.has_tail) {
        return text + ", no tail\n";
    }
    text += format(", %zu of them its tail; fires %s", task.words.size() - task.body_words,
                   rockchip::enabled_blocks(task.enable).c_str());
    return text + (task.chained ? format("; next task at 0x%08x, amount %u\n", task.next_address, task.next_amount)
                                : std::string("; last of its chain\n"));
}

// Lines of all words, with a comment before each task. `line` prints the word at an index.
template <typename Line>
std::string listing(const Program& program, Line line) {
    std::string text;
    if (!program.chip.empty()) {
        text += "# The file says that these words are for " + program.chip +
                ".\n# Names and fields are those of the RK3588 register map; another chip's may differ.\n";
    }
    const std::vector<rockchip::TaskView> tasks = rockchip::split_tasks(program.words);
    std::size_t next = 0;
    for (std::size_t i = 0; i < program.words.size(); ++i) {
        if (next < tasks.size() && tasks[next].first == i) {
            text += heading(next, tasks[next]);
            ++next;
        }
        text += line(i);
    }
    return text;
}

nlohmann::ordered_json json_of(std::uint64_t word, std::size_t index, bool with_meaning) {
    const rockchip::Command command = rockchip::decode(word);
    nlohmann::ordered_json entry{{"index", index},
                                 {"word", format("0x%016llx", static_cast<unsigned long long>(word))},
                                 {"target", format("0x%04x", command.target)},
                                 {"offset", format("0x%04x", command.offset)},
                                 {"value", format("0x%08x", command.value)}};
    const rockchip::RegisterInfo* info = rockchip::find_register(command.offset);
    const bool reaches = info != nullptr && command.target == rockchip::block_target(info->block) &&
                         command.target != rockchip::target::none;
    if (!reaches) {
        entry["text"] = rockchip::disassemble_word(word);
        return entry;
    }
    entry["block"] = rockchip::block_name(info->block);
    entry["register"] = info->name;
    if (with_meaning) {
        entry["meaning"] = info->meaning;
    }
    nlohmann::ordered_json fields = nlohmann::ordered_json::object();
    for (const rockchip::FieldInfo& field : info->fields) {
        fields[field.name] = rockchip::field_of(*info, field).of(command.value);
    }
    entry["fields"] = std::move(fields);
    return entry;
}

std::string json_listing(const Program& program, bool with_meaning) {
    nlohmann::ordered_json words = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < program.words.size(); ++i) {
        words.push_back(json_of(program.words[i], i, with_meaning));
    }
    nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
    for (const rockchip::TaskView& task : rockchip::split_tasks(program.words)) {
        nlohmann::ordered_json entry{{"first_word", task.first},
                                     {"words", task.words.size()},
                                     {"body_words", task.body_words},
                                     {"enable", format("0x%02x", task.enable)},
                                     {"blocks", rockchip::enabled_blocks(task.enable)}};
        if (task.chained) {
            entry["next_address"] = format("0x%08x", task.next_address);
            entry["next_amount"] = task.next_amount;
        }
        tasks.push_back(std::move(entry));
    }
    nlohmann::ordered_json file{{"file", program.name}, {"format", format_name(program.format)}};
    if (!program.chip.empty()) {
        file["soc"] = program.chip;
    }
    file["task_list"] = std::move(tasks);
    file["words"] = std::move(words);
    return file.dump(1) + "\n";
}

std::string text_listing(const Program& program, const Options& options) {
    if (options.assembly) {
        return listing(program, [&](std::size_t i) { return rockchip::assembly_text(program.words[i]) + "\n"; });
    }
    return listing(program, [&](std::size_t i) {
        return rockchip::disassemble(std::span(program.words).subspan(i, 1), options.meaning, i);
    });
}

void run(const Options& options) {
    const Program program = read_or_fail(options.path, options.format);
    const std::string text = options.json ? json_listing(program, options.meaning) : text_listing(program, options);
    if (const Result<void> written = write_file("-", text); !written) {
        fail(written.error().message);
    }
}

}  // namespace

void add_disasm(CLI::App& program) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        program.add_subcommand("disasm", "Prints a command program word by word: register, value, fields");
    command->add_option("FILE", options->path, "Program; - is standard input")->type_name("");
    add_format_option(*command, "--format", options->format,
                      "What FILE is: raw, hex, hex32, dump, json or asm (default: by its content)");
    CLI::Option* json = command->add_flag("--json", options->json, "Prints JSON: block, register, value and fields");
    command->add_flag("--meaning", options->meaning, "Adds what each register is for");
    command->add_flag("--asm", options->assembly, "Prints instructions only, to be edited and assembled again")
        ->excludes(json);
    command->footer("npu asm reads all of these back into the same words. The formats: docs/programs.md");
    command->callback([options] { run(*options); });
}

}  // namespace npu::tools
