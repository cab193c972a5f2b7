#include "sim/faults.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <optional>
#include <vector>

namespace npu::sim {

namespace {

constexpr std::array kinds = {
    FaultKind::job_never_starts, FaultKind::time_out,    FaultKind::lost_interrupt, FaultKind::dma_error,
    FaultKind::no_memory,        FaultKind::iova_full,   FaultKind::bad_address,    FaultKind::stale_output,
    FaultKind::core_gone,        FaultKind::reset_fails,
};
constexpr std::uint64_t highest_core = 2;  // no supported chip has more than three
constexpr const char* example = "job-never-starts@at=3,stale-output@rate=0.01@times=2,seed=7";

bool concerns_a_core(FaultKind kind) {
    switch (kind) {
        case FaultKind::job_never_starts:
        case FaultKind::time_out:
        case FaultKind::lost_interrupt:
        case FaultKind::dma_error:
        case FaultKind::core_gone: return true;
        default: return false;
    }
}

struct Rule {
    FaultKind kind = FaultKind::time_out;
    std::string text;
    std::optional<std::uint64_t> at, every, from, times, core;
    std::optional<double> rate;
    std::uint64_t opportunities = 0;
    std::uint64_t hits = 0;
};

// A number in [0, 1) that depends on nothing but its arguments (the mixing steps of splitmix64).
double chance(std::uint64_t seed, std::uint64_t rule, std::uint64_t opportunity) {
    std::uint64_t mixed = seed;
    for (const std::uint64_t part : {rule, opportunity}) {
        mixed += part + 0x9e3779b97f4a7c15U;
        mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
        mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
        mixed ^= mixed >> 31;
    }
    return static_cast<double>(mixed >> 11) * 0x1p-53;
}

std::string_view trim(std::string_view text) {
    constexpr const char* blanks = " \t\r\n";
    const auto first = text.find_first_not_of(blanks);
    return first == std::string_view::npos ? std::string_view{}
                                           : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const auto end = text.find(separator);
        parts.push_back(trim(text.substr(0, end)));
        if (end == std::string_view::npos) {
            return parts;
        }
        text.remove_prefix(end + 1);
    }
}

Error refusal(std::string_view part, const std::string& accepted) {
    return make_error(ErrorCode::invalid_argument, "fault specification: \"%.*s\": %s; for example \"%s\"",
                      static_cast<int>(part.size()), part.data(), accepted.c_str(), example);
}

template <typename T>
Result<T> number(std::string_view condition, std::string_view value, T low, T high, const std::string& accepted) {
    T result{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    // Written so that a value that is not a number is refused too.
    if (error != std::errc{} || end != value.data() + value.size() || !(result >= low && result <= high)) {
        return refusal(condition, accepted);
    }
    return result;
}

Result<std::uint64_t> count(std::string_view condition, std::string_view value, std::uint64_t low) {
    return number<std::uint64_t>(
        condition, value, low, UINT64_MAX,
        format("a whole number of at least %llu is expected after \"=\"", static_cast<unsigned long long>(low)));
}

Result<void> add_condition(Rule& rule, std::string_view condition) {
    const auto equals = condition.find('=');
    const std::string_view name = trim(condition.substr(0, equals));
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : trim(condition.substr(equals + 1));
    if (name == "rate") {
        if (rule.rate) {
            return refusal(condition, "a rule has each condition at most once");
        }
        NPU_ASSIGN(rule.rate, number<double>(condition, value, 0, 1, "a probability from 0 to 1 is expected"));
        return {};
    }
    std::optional<std::uint64_t>* slot = name == "at"      ? &rule.at
                                         : name == "every" ? &rule.every
                                         : name == "from"  ? &rule.from
                                         : name == "times" ? &rule.times
                                         : name == "core"  ? &rule.core
                                                           : nullptr;
    if (slot == nullptr) {
        return refusal(condition, "conditions are at=N, every=N, rate=P, from=N, times=N and core=N");
    }
    if (*slot) {
        return refusal(condition, "a rule has each condition at most once");
    }
    if (slot != &rule.core) {
        NPU_ASSIGN(*slot, count(condition, value, 1));
        return {};
    }
    if (!concerns_a_core(rule.kind)) {
        return refusal(condition, std::string(fault_name(rule.kind)) + " does not concern a core");
    }
    NPU_ASSIGN(*slot, number<std::uint64_t>(condition, value, 0, highest_core, "a core is 0, 1 or 2"));
    return {};
}

Result<Rule> read_rule(std::string_view text) {
    const std::vector<std::string_view> parts = split(text, '@');
    const auto* kind = std::ranges::find_if(kinds, [&](FaultKind one) { return parts[0] == fault_name(one); });
    if (kind == kinds.end()) {
        std::string names = "a kind or seed=N is expected; kinds are";
        for (const FaultKind one : kinds) {
            names += std::string(one == kinds.front() ? " " : ", ") + fault_name(one);
        }
        return refusal(text, names);
    }
    Rule rule;
    rule.kind = *kind;
    rule.text = text;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        NPU_TRY(add_condition(rule, parts[i]));
    }
    if ((rule.at ? 1 : 0) + (rule.every ? 1 : 0) + (rule.rate ? 1 : 0) > 1) {
        return refusal(text, "a rule has at most one of at, every and rate");
    }
    return rule;
}

}  // namespace

struct Faults::Plan {
    std::mutex mutex;
    std::vector<Rule> rules;
    std::uint64_t seed = 1;
};

const char* fault_name(FaultKind kind) {
    switch (kind) {
        case FaultKind::job_never_starts: return "job-never-starts";
        case FaultKind::time_out: return "time-out";
        case FaultKind::lost_interrupt: return "lost-interrupt";
        case FaultKind::dma_error: return "dma-error";
        case FaultKind::no_memory: return "no-memory";
        case FaultKind::iova_full: return "iova-full";
        case FaultKind::bad_address: return "bad-address";
        case FaultKind::stale_output: return "stale-output";
        case FaultKind::core_gone: return "core-gone";
        case FaultKind::reset_fails: return "reset-fails";
    }
    return "?";
}

Result<Faults> Faults::parse(std::string_view specification) {
    Faults faults;
    if (trim(specification).empty()) {
        return faults;
    }
    faults.plan_ = std::make_shared<Plan>();
    for (const std::string_view text : split(specification, ',')) {
        if (text.starts_with("seed=")) {
            NPU_ASSIGN(faults.plan_->seed, count(text, text.substr(5), 0));
            continue;
        }
        NPU_ASSIGN(Rule rule, read_rule(text));
        faults.plan_->rules.push_back(std::move(rule));
    }
    return faults;
}

bool Faults::hits(FaultKind kind, unsigned core) const {
    if (!plan_) {
        return false;
    }
    const std::lock_guard lock(plan_->mutex);
    bool any = false;
    for (std::size_t i = 0; i < plan_->rules.size(); ++i) {
        Rule& rule = plan_->rules[i];
        if (rule.kind != kind || (rule.core && *rule.core != core)) {
            continue;
        }
        const std::uint64_t n = ++rule.opportunities;
        const bool now = (!rule.at || n == *rule.at) && (!rule.every || n % *rule.every == 0) &&
                         (!rule.from || n >= *rule.from) && (!rule.times || rule.hits < *rule.times) &&
                         (!rule.rate || chance(plan_->seed, i, n) < *rule.rate);
        rule.hits += now ? 1 : 0;
        any = any || now;
    }
    return any;
}

std::string Faults::report() const {
    std::string lines;
    if (plan_) {
        const std::lock_guard lock(plan_->mutex);
        for (const Rule& rule : plan_->rules) {
            lines +=
                format("%s: %llu of %llu opportunities\n", rule.text.c_str(),
                       static_cast<unsigned long long>(rule.hits), static_cast<unsigned long long>(rule.opportunities));
        }
    }
    return lines;
}

}  // namespace npu::sim
