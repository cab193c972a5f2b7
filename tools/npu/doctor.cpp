// `npu doctor`: what is wrong with a board, how one knows, and the command that helps.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "doctor_check.h"
#include "doctor_fix.h"
#include "doctor_selftest.h"
#include "printable.h"
#include "program_file.h"

namespace npu::tools {

namespace {

struct Arguments {
    std::string root = "/";
    std::string plugin;
    std::string self_test;  // which device; empty: none
    bool json = false;
    bool all = false;
    bool list = false;
    bool fix = false;
    bool undo = false;
};

struct Examined {
    const Check* check;
    Finding finding;
};

struct Report {
    device::BoardFacts facts;
    std::vector<Examined> findings;
    std::vector<Change> changes;
};

Report examine(const device::BoardRoot& root, const Arguments& arguments) {
    Report report;
    report.facts =
        device::read_board(root, arguments.plugin.empty() ? std::vector<std::string>{} : std::vector{arguments.plugin});
    for (const Check& check : doctor_checks()) {
        const bool test = !arguments.self_test.empty() && std::string(check.name) == "self-test";
        report.findings.push_back(
            {&check, test ? self_test(arguments.self_test, report.facts) : check.examine(report.facts)});
    }
    return report;
}

std::size_t count(const Report& report, Verdict verdict) {
    return static_cast<std::size_t>(std::count_if(report.findings.begin(), report.findings.end(),
                                                  [&](const Examined& e) { return e.finding.verdict == verdict; }));
}

// A verdict in its colour, padded.
std::string label(Verdict verdict, bool colours) {
    const std::string text = format("%-8s", verdict_name(verdict));
    if (!colours) {
        return text;
    }
    const char* colour = verdict == Verdict::ok        ? "32"
                         : verdict == Verdict::warning ? "33"
                         : verdict == Verdict::problem ? "31"
                                                       : "36";
    return format("\033[%sm%s\033[0m", colour, text.c_str());
}

std::string text_of(const Report& report, bool all, bool colours) {
    const device::BoardFacts& facts = report.facts;
    std::string text = format("Board under %s: %s, kernel %s\n\n", facts.root.c_str(),
                              printable(facts.model.value.value_or("unknown model")).c_str(),
                              printable(facts.kernel.value.value_or("unknown")).c_str());
    for (const Change& change : report.changes) {
        text += format("changed  %s: %s, was %s\n", printable(change.file).c_str(), change.to.c_str(),
                       printable(change.from).c_str());
    }
    text += report.changes.empty() ? "" : "\n";
    for (const auto& [check, finding] : report.findings) {
        text += format("%s %-15s %s\n", label(finding.verdict, colours).c_str(), check->name,
                       printable(finding.summary).c_str());
        if (finding.verdict == Verdict::ok && !all) {
            continue;
        }
        for (const Evidence& evidence : finding.evidence) {
            text += format("%25s%s: %s\n", "", printable(evidence.file).c_str(), printable(evidence.said).c_str());
        }
        if (!finding.remedy.empty()) {
            text += format("%25sremedy: %s\n", "", printable(finding.remedy).c_str());
        }
    }
    return text + format("\n%zu ok, %zu warnings, %zu problems, %zu unknown\n", count(report, Verdict::ok),
                         count(report, Verdict::warning), count(report, Verdict::problem),
                         count(report, Verdict::unknown));
}

nlohmann::ordered_json json_of(const std::vector<Change>& changes) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Change& change : changes) {
        list.push_back({{"file", change.file}, {"from", change.from}, {"to", change.to}});
    }
    return list;
}

nlohmann::ordered_json json_of(const Report& report) {
    nlohmann::ordered_json checks = nlohmann::ordered_json::array();
    for (const auto& [check, finding] : report.findings) {
        nlohmann::ordered_json entry{
            {"check", check->name}, {"verdict", verdict_name(finding.verdict)}, {"summary", finding.summary}};
        entry["evidence"] = nlohmann::ordered_json::array();
        for (const Evidence& evidence : finding.evidence) {
            entry["evidence"].push_back({{"file", evidence.file}, {"said", evidence.said}});
        }
        entry["remedy"] = finding.remedy;
        entry["settings"] = nlohmann::ordered_json::array();
        for (const Setting& setting : finding.settings) {
            entry["settings"].push_back({{"file", setting.file}, {"value", setting.value}});
        }
        checks.push_back(std::move(entry));
    }
    nlohmann::ordered_json json{{"root", report.facts.root}};
    json["changes"] = json_of(report.changes);
    json["checks"] = std::move(checks);
    for (const Verdict verdict : {Verdict::ok, Verdict::warning, Verdict::problem, Verdict::unknown}) {
        json["counts"][verdict_name(verdict)] = count(report, verdict);
    }
    return json;
}

std::string table() {
    std::string text = "| check | question | why | remedy |\n|---|---|---|---|\n";
    for (const Check& check : doctor_checks()) {
        text += format("| `%s` | %s | %s | %s |\n", check.name, check.question, check.why, check.remedy);
    }
    return text;
}

// The memory controller first: nothing else costs as much.
std::vector<Setting> settings_of(const Report& report) {
    std::vector<Setting> settings;
    for (const Examined& examined : report.findings) {
        settings.insert(settings.end(), examined.finding.settings.begin(), examined.finding.settings.end());
    }
    std::stable_partition(settings.begin(), settings.end(),
                          [](const Setting& setting) { return setting.file.find("dmc") != std::string::npos; });
    return settings;
}

void run_undo(const device::BoardRoot& root, bool json) {
    const Result<Undone> undone = undo(root);
    if (!undone) {
        fail(undone.error().message);
    }
    if (json) {
        print(nlohmann::ordered_json{{"taken_back", json_of(undone->taken_back)}, {"left", json_of(undone->left)}}.dump(
                  1) +
              "\n");
        return;
    }
    std::string text;
    for (const Change& change : undone->taken_back) {
        text += format("%s: %s again\n", printable(change.file).c_str(), printable(change.to).c_str());
    }
    for (const Change& change : undone->left) {
        text += format("%s: left at %s, which somebody else wrote; it was %s\n", printable(change.file).c_str(),
                       printable(change.from).c_str(), printable(change.to).c_str());
    }
    print(text);
}

void run(const Arguments& arguments) {
    if (arguments.list) {
        print(table());
        return;
    }
    Result<device::BoardRoot> root = device::BoardRoot::open(arguments.root);
    if (!root) {
        fail(root.error().message);
    }
    if (arguments.self_test == "real" && !root->is_this_machine()) {
        fail("--self-test uses the NPU of this machine; with --root only simulated or simulated-rocket make sense");
    }
    if (arguments.undo) {
        run_undo(*root, arguments.json);
        return;
    }
    Report report = examine(*root, arguments);
    if (arguments.fix) {
        const Result<std::vector<Change>> changes = apply_settings(*root, settings_of(report));
        if (!changes) {
            fail(changes.error().message + "; governors belong to root: run this command with sudo");
        }
        report = examine(*root, arguments);
        report.changes = *changes;
    }
    print(arguments.json ? json_of(report).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                         : text_of(report, arguments.all, ::isatty(STDOUT_FILENO) == 1));
    if (count(report, Verdict::problem) > 0) {
        fail("", 1);
    }
}

}  // namespace

void add_doctor(CLI::App& program) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command =
        program.add_subcommand("doctor", "Says what keeps this board's NPU from working well, and what helps");
    command->add_option("--root", arguments->root, "Folder that holds the files of the board (default: /)");
    command->add_option("--plugin", arguments->plugin, "Another folder to look for libggml-npu.so and ggml in");
    CLI::Option* json = command->add_flag("--json", arguments->json, "Prints JSON");
    CLI::Option* all = command->add_flag("--all", arguments->all, "Shows the evidence of what is well, too");
    CLI::Option* list = command->add_flag("--list", arguments->list, "Prints the checks instead of making them");
    CLI::Option* test =
        command
            ->add_option("--self-test", arguments->self_test,
                         "Multiplies on the NPU, too, and compares; real (default), simulated or simulated-rocket")
            ->expected(0, 1)
            ->default_str("real")
            ->check(CLI::IsMember({"real", "simulated", "simulated-rocket"}));
    CLI::Option* fix =
        command->add_flag("--fix", arguments->fix, "Sets governors to performance, until --undo or a restart");
    CLI::Option* undo = command->add_flag("--undo", arguments->undo, "Takes back what --fix has set");
    list->excludes(json)->excludes(fix)->excludes(undo)->excludes(all)->excludes(test);
    undo->excludes(fix)->excludes(all)->excludes(test);
    command->footer(
        "Exit status: 0 no problem found (there may be warnings), 1 problems, 2 it could not look or write.\n"
        "Examples:\n"
        "  npu doctor\n"
        "  sudo npu doctor --fix         as root it sees the driver's version, clocks and other processes, too\n"
        "  npu doctor --root ./rock5b    a copy of another board's /proc, /sys, /dev and /etc\n"
        "The checks: docs/doctor.md");
    command->callback([arguments] { run(*arguments); });
}

}  // namespace npu::tools
