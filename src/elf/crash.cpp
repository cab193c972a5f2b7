#include "elf/crash.h"

#include <algorithm>
#include <cctype>

namespace npu::elf {

namespace {

struct Known {
    const char* text;
    const char* report;
};

// Issue numbers of airockchip/rknn-llm where users met it.
constexpr Known known[] = {
    {"view_src == NULL", "reported as #111, #119 and #129: a tensor that is already a view"},
    {"type count", "reported as #191: a model of another version than the runtime"},
    {"rope_scaling_type", "reported as #389: a model whose rope scaling the runtime does not know"},
    {"mask->ne[0] == a->ne[0]",
     "GET_LOGITS with keep_history gives an attention mask of another length; see "
     "tools/patches/rkllm-1.2.3-soft-max-mask.json and its caveat"},
    {"ggml_calloc: failed to allocate", "reported as #183"},
    {"failed to malloc npu memory", "reported as #14, #335, #232 and #62: errno 12 or 14, or 24 (too many open files)"},
    {"failed to submit", "reported as #85 and #289"},
};

std::optional<std::uint64_t> hexadecimal(std::string_view text) {
    std::uint64_t value = 0;
    std::size_t digits = 0;
    while (digits < text.size() && digits < 16 && std::isxdigit(static_cast<unsigned char>(text[digits])) != 0) {
        const char c = text[digits++];
        value = value << 4 | static_cast<unsigned>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return digits == 0 ? std::nullopt : std::optional(value);
}

// The module name that ends at `end`: file name characters backwards.
std::string module_before(std::string_view line, std::size_t end) {
    std::size_t begin = end;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) != 0 ||
                         std::string_view("._-+/").find(line[begin - 1]) != std::string_view::npos)) {
        --begin;
    }
    const std::string_view path = line.substr(begin, end - begin);
    return std::string(path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1));
}

std::optional<CrashFrame> read_line(std::string_view line) {
    const std::size_t plus = line.rfind("+0x");
    if (plus == std::string_view::npos) {
        return std::nullopt;
    }
    const auto offset = hexadecimal(line.substr(plus + 3));
    const std::size_t open = line.rfind('(', plus);
    const bool anonymous = open == std::string_view::npos || open + 1 == plus;
    // `lib.so(name+0x12)` counts from a symbol; the number alone would mislead.
    if (!offset || !anonymous) {
        return std::nullopt;
    }
    CrashFrame frame{std::string(line), module_before(line, open == std::string_view::npos ? plus : open), *offset};
    return frame.module.empty() ? std::nullopt : std::optional(frame);
}

}  // namespace

std::string known_report(std::string_view text) {
    for (const Known& k : known) {
        if (text.find(k.text) != std::string_view::npos) {
            return k.report;
        }
    }
    return {};
}

std::vector<CrashFrame> read_backtrace(std::string_view log) {
    std::vector<CrashFrame> frames;
    while (!log.empty()) {
        const std::size_t end = std::min(log.find('\n'), log.size());
        if (auto frame = read_line(log.substr(0, end))) {
            frames.push_back(std::move(*frame));
        }
        log.remove_prefix(std::min(end + 1, log.size()));
    }
    return frames;
}

std::vector<ExplainedFrame> explain(const Program& program, const References& references, std::string_view module,
                                    std::span<const CrashFrame> frames) {
    const auto sites = find_asserts(program, find_sinks(program, references));
    std::vector<ExplainedFrame> explained;
    for (const CrashFrame& frame : frames) {
        ExplainedFrame& e = explained.emplace_back();
        e.frame = frame;
        // A return address stands behind the call, which may be the last instruction of its function.
        const std::uint64_t call = frame.offset - 4;
        const Function* f = frame.module == module && frame.offset >= 4 ? program.function_at(call) : nullptr;
        if (f == nullptr) {
            continue;
        }
        e.function = program.name_of(f->start);
        for (const Reference& r : references.from(f->start, f->end)) {
            const auto text =
                program.strings().find(r.target) == nullptr ? std::nullopt : text_at(program.image(), r.target);
            if (text && text->size() >= 4 && e.texts.size() < 8) {
                e.texts.emplace_back(*text);
            }
        }
        for (const AssertSite& s : sites) {
            if (s.site == call) {
                e.assertions.push_back(s.expression.value_or(s.format.value_or("")));
                e.report = e.report.empty() ? known_report(e.assertions.back()) : e.report;
            }
        }
    }
    return explained;
}

}  // namespace npu::elf
