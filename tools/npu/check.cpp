// `npu check`: whether a command program may be submitted, and if not, which register of which task stands against it.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "commands.h"
#include "program_file.h"
#include "program_option.h"
#include "rockchip/checker.h"
#include "rockchip/disassembler.h"

namespace npu::tools {

namespace {

struct Options {
    std::string path = "-";
    std::string format;
    std::string chip;
    std::string kernel = "rknpu";
    std::string base;
    std::uint32_t first_body = 0;
    std::uint32_t tasks = 0;
    std::string interrupt_mask;
    std::vector<std::string> buffers;
    bool batched = false;
    bool json = false;
};

std::uint64_t number_or_fail(std::string_view text, const char* what) {
    std::string_view digits = text;
    const bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
    digits.remove_prefix(hexadecimal ? 2 : 0);
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 10);
    if (error != std::errc{} || end != digits.data() + digits.size()) {
        fail(format("%s: '%.*s' is no number", what, static_cast<int>(text.size()), text.data()));
    }
    return value;
}

// "IOVA:SIZE", read by the device, or "IOVA:SIZE:w", written too.
rockchip::CheckBuffer buffer_or_fail(const std::string& text) {
    const std::size_t first = text.find(':');
    const std::size_t second = text.find(':', first == std::string::npos ? first : first + 1);
    const bool writable = second != std::string::npos && text.substr(second) == ":w";
    if (first == std::string::npos || (second != std::string::npos && !writable)) {
        fail(format("--buffer %s: expected IOVA:SIZE, or IOVA:SIZE:w for a buffer that the NPU may write",
                    text.c_str()));
    }
    return {number_or_fail(std::string_view(text).substr(0, first), "--buffer"),
            number_or_fail(std::string_view(text).substr(first + 1, second - first - 1), "--buffer"), writable};
}

// The chip that the command line names, or else the one that the file names.
const rockchip::ChipProfile& chip_or_fail(const Options& options, const Program& program) {
    std::string name = options.chip.empty() ? "rk3588" : options.chip;
    if (options.chip.empty() && !program.chip.empty()) {
        name = program.chip.substr(0, program.chip.find_first_of(" ,("));
    }
    const Result<const rockchip::ChipProfile*> chip = rockchip::find_chip(name);
    if (!chip) {
        fail(chip.error().message);
    }
    if ((*chip)->registers != rockchip::RegisterMap::rk3588) {
        fail(format(
            "%s is for the %s; the checker knows the register map of the RK3588 only. Missing: what the fields of "
            "this chip's registers mean, beyond the few that its published programs use",
            program.name.c_str(), name.c_str()));
    }
    return **chip;
}

// One submission: tasks of the program that follow each other.
struct Submission {
    std::size_t first = 0;  // index of its first task
    std::size_t count = 1;
};

// Whether a task computes with what the task before it left in the on-chip buffer.
bool reuses(const rockchip::TaskView& task) {
    namespace con0 = rockchip::reg::CNA::CBUF_CON0;
    bool result = false;
    for (const std::uint64_t word : task.words) {
        if (const rockchip::Command command = rockchip::decode(word); command.offset == con0::offset) {
            result = con0::WEIGHT_REUSE.of(command.value) != 0 || con0::DATA_REUSE.of(command.value) != 0;
        }
    }
    return result;
}

// Tasks whose tails lead to the next one belong together. The mainline driver starts every task by itself, and one that
// reuses the on-chip buffer in the same job as the task before.
std::vector<Submission> submissions_of(const std::vector<rockchip::TaskView>& tasks, const Options& options) {
    std::vector<Submission> submissions;
    if (options.tasks != 0) {
        return {{0, options.tasks}};
    }
    const bool chains = options.kernel != "rocket" || options.batched;
    for (std::size_t i = 0; i < tasks.size();) {
        std::size_t end = i + 1;
        while (end < tasks.size() && (chains ? tasks[end - 1].chained : reuses(tasks[end]))) {
            ++end;
        }
        submissions.push_back({i, end - i});
        i = end;
    }
    return submissions;
}

// Where word 0 has to lie for the first tail to lead to the second task; empty when no tail says so.
std::optional<std::uint64_t> base_of(const std::vector<rockchip::TaskView>& tasks) {
    for (std::size_t i = 0; i + 1 < tasks.size(); ++i) {
        if (tasks[i].chained && tasks[i].next_address >= 8 * tasks[i + 1].first) {
            return tasks[i].next_address - 8 * tasks[i + 1].first;
        }
    }
    return std::nullopt;
}

// Files often keep tasks without the padding that lay between them in memory. The tails say where it was: from the
// second task on, the distance to the next one is the difference of two addresses.
std::vector<std::uint64_t> with_gaps(const std::vector<std::uint64_t>& words) {
    constexpr std::uint64_t most = 64;  // words; more is no alignment
    const std::vector<rockchip::TaskView> tasks = rockchip::split_tasks(words);
    std::vector<std::uint64_t> result;
    std::size_t copied = 0;
    for (std::size_t i = 1; i + 1 < tasks.size(); ++i) {
        if (!tasks[i - 1].chained || !tasks[i].chained) {
            continue;
        }
        const std::uint64_t distance = tasks[i].next_address - tasks[i - 1].next_address;
        const std::uint64_t present = 8 * (tasks[i + 1].first - tasks[i].first);
        const auto end = words.begin() + static_cast<std::ptrdiff_t>(tasks[i + 1].first);
        result.insert(result.end(), words.begin() + static_cast<std::ptrdiff_t>(copied), end);
        copied = tasks[i + 1].first;
        if (distance > present && distance - present < 8 * most) {
            result.resize(result.size() + (distance - present) / 8);
        }
    }
    result.insert(result.end(), words.begin() + static_cast<std::ptrdiff_t>(copied), words.end());
    return result;
}

struct Report {
    rockchip::CheckInput input;
    std::size_t tasks = 0;
    std::vector<rockchip::Violation> violations;
};

class Check {
  public:
    explicit Check(const Options& options)
        : options_(options),
          program_(read_or_fail(options.path, options.format)),
          chip_(chip_or_fail(options, program_)) {
        if (options.base.empty()) {
            program_.words = with_gaps(program_.words);
        }
        tasks_ = rockchip::split_tasks(program_.words);
        for (const std::string& text : options.buffers) {
            buffers_.push_back(buffer_or_fail(text));
        }
        if (tasks_.empty()) {
            fail(format("%s: nothing but padding; expected at least one task", program_.name.c_str()));
        }
        for (const Submission& submission : submissions_of(tasks_, options)) {
            std::vector<rockchip::CheckTask> more;
            const rockchip::CheckInput input = input_of(submission, more);
            reports_.push_back({input, submission.count, rockchip::check_program(input, chip_)});
        }
    }

    [[nodiscard]] bool sound() const {
        return std::ranges::all_of(
            reports_, [](const Report& report) { return rockchip::first_refusal(report.violations) == nullptr; });
    }

    [[nodiscard]] std::string text() const;
    [[nodiscard]] std::string json() const;

  private:
    // `more` holds what the result points to.
    [[nodiscard]] rockchip::CheckInput input_of(const Submission& submission,
                                                std::vector<rockchip::CheckTask>& more) const;

    const Options& options_;
    Program program_;
    const rockchip::ChipProfile& chip_;
    std::vector<rockchip::TaskView> tasks_;
    std::vector<rockchip::CheckBuffer> buffers_;
    std::vector<Report> reports_;
};

rockchip::CheckInput Check::input_of(const Submission& submission, std::vector<rockchip::CheckTask>& more) const {
    const std::optional<std::uint64_t> base =
        options_.base.empty() ? base_of(tasks_) : std::optional(number_or_fail(options_.base, "--base"));
    const rockchip::TaskView& first = tasks_[submission.first];
    const std::size_t last = std::min(submission.first + submission.count, tasks_.size()) - 1;
    rockchip::CheckInput input;
    input.words = program_.words;
    input.words_iova = base.value_or(0);
    input.words_iova_known = base.has_value();
    input.first_word = first.first;
    input.body_words = static_cast<std::uint32_t>(first.body_words);
    if (options_.first_body != 0 && submission.first == 0) {
        input.body_words = options_.first_body;
    }
    const bool alone = options_.kernel == "rocket" && !options_.batched && options_.tasks == 0;
    input.task_number = alone ? 1 : static_cast<std::uint32_t>(submission.count);
    for (std::size_t i = submission.first + 1; alone && i < submission.first + submission.count; ++i) {
        more.push_back({tasks_[i].first, static_cast<std::uint32_t>(tasks_[i].body_words)});
    }
    input.more_tasks = more;
    input.buffers = buffers_;
    input.mainline_driver = options_.kernel == "rocket";
    input.batched = options_.batched;
    if (!options_.interrupt_mask.empty()) {
        input.interrupt_mask = static_cast<std::uint32_t>(number_or_fail(options_.interrupt_mask, "--interrupt-mask"));
    } else if (tasks_[last].enable == rockchip::enable_pooling && !input.mainline_driver) {
        input.interrupt_mask = rockchip::interrupt_ppu;
    }
    return input;
}

std::string plural(std::size_t count, const char* noun) {
    return format("%zu %s%s", count, noun, count == 1 ? "" : "s");
}

std::string Check::text() const {
    std::string text;
    std::size_t refusals = 0;
    std::size_t warnings = 0;
    for (std::size_t i = 0; i < reports_.size(); ++i) {
        const Report& report = reports_[i];
        if (reports_.size() > 1 && !report.violations.empty()) {
            text += format("submission %zu, from word %zu:\n", i, report.input.first_word);
        }
        for (const rockchip::Violation& violation : report.violations) {
            const bool refused = violation.severity == rockchip::Severity::refuse;
            (refused ? refusals : warnings) += 1;
            text += (refused ? "refuse  " : "warn    ") + violation.message + "\n";
        }
    }
    const std::string where = program_.name + ": " + plural(tasks_.size(), "task") + " in " +
                              plural(reports_.size(), "submission") + " for " + std::string(chip_.name) + " under " +
                              options_.kernel;
    return text + where + (refusals != 0 ? ": refused, " + plural(refusals, "reason") : std::string(": sound")) +
           (warnings != 0 ? ", " + plural(warnings, "warning") : std::string()) + "\n";
}

std::string Check::json() const {
    nlohmann::ordered_json submissions = nlohmann::ordered_json::array();
    for (const Report& report : reports_) {
        nlohmann::ordered_json violations = nlohmann::ordered_json::array();
        for (const rockchip::Violation& violation : report.violations) {
            violations.push_back({{"severity", violation.severity == rockchip::Severity::refuse ? "refuse" : "warn"},
                                  {"task", violation.task},
                                  {"register", rockchip::register_label(violation.offset)},
                                  {"offset", format("0x%04x", violation.offset)},
                                  {"value", format("0x%08x", violation.value)},
                                  {"consequence", violation.consequence},
                                  {"source", violation.source},
                                  {"message", violation.message}});
        }
        submissions.push_back({{"first_word", report.input.first_word},
                               {"body_words", report.input.body_words},
                               {"tasks", report.tasks},
                               {"interrupt_mask", format("0x%x", report.input.interrupt_mask)},
                               {"violations", std::move(violations)}});
    }
    nlohmann::ordered_json file{{"file", program_.name}, {"chip", chip_.name}, {"kernel", options_.kernel}};
    const rockchip::CheckInput& input = reports_.front().input;
    file["words_iova"] =
        input.words_iova_known
            ? nlohmann::ordered_json(format("0x%llx", static_cast<unsigned long long>(input.words_iova)))
            : nlohmann::ordered_json();
    file["sound"] = sound();
    file["submissions"] = std::move(submissions);
    return file.dump(1) + "\n";
}

void run(const Options& options) {
    const Check check(options);
    if (const Result<void> written = write_file("-", options.json ? check.json() : check.text()); !written) {
        fail(written.error().message);
    }
    if (!check.sound()) {
        fail("", 1);
    }
}

}  // namespace

void add_check(CLI::App& program) {
    auto options = std::make_shared<Options>();
    CLI::App* command = program.add_subcommand("check", "Says whether a command program may be submitted, and why not");
    command->add_option("FILE", options->path, "Program; - is standard input")->type_name("");
    add_format_option(*command, "--format", options->format,
                      "What FILE is: raw, hex, hex32, dump, json or asm (default: by its content)");
    command->add_option("--chip", options->chip, "Chip that runs it (default: the one FILE names, or rk3588)")
        ->type_name("NAME");
    command->add_option("--kernel", options->kernel, "Driver that submits it")
        ->check(CLI::IsMember({"rknpu", "rocket"}))
        ->type_name("NAME")
        ->capture_default_str();
    command->add_flag("--batched", options->batched,
                      "With --kernel rocket: chains are submitted whole, as patched kernels do; else each task alone");
    command
        ->add_option("--base", options->base,
                     "Device address of the first word (default: where the first tail leads to the next task)")
        ->type_name("IOVA");
    command
        ->add_option("--first-body", options->first_body, "Words of the first task, tail not counted (default: found)")
        ->type_name("N");
    command->add_option("--tasks", options->tasks, "Tasks in the one submission (default: as the tails say)")
        ->type_name("N");
    command
        ->add_option("--interrupt-mask", options->interrupt_mask,
                     "Interrupts that end a submission (default: 0x300; 0xc00 when pooling is last, under rknpu)")
        ->type_name("MASK");
    command
        ->add_option("--buffer", options->buffers,
                     "A buffer of the job, :w if the NPU may write it; may be repeated. Without any, addresses are "
                     "not compared with buffers")
        ->allow_extra_args(false)
        ->type_name("IOVA:SIZE[:w]");
    command->add_flag("--json", options->json, "Prints JSON");
    command->footer("Exit status: 0 sound (warnings or not), 1 refused, 2 not readable. Details: docs/programs.md");
    command->callback([options] { run(*options); });
}

}  // namespace npu::tools
