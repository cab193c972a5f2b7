#include "sim_summary.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

namespace npu::tools {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array severities{"hang", "corrupt", "warning"};

std::size_t rank(const std::string& severity) {
    return static_cast<std::size_t>(std::find(severities.begin(), severities.end(), severity) - severities.begin());
}

void add_violation(SimSummary& summary, const json& finding) {
    const auto severity = finding.at("severity").get<std::string>();
    const auto message = finding.at("message").get<std::string>();
    auto known = std::ranges::find_if(summary.violations, [&](const SimSummary::Violation& violation) {
        return violation.severity == severity && violation.message == message;
    });
    if (known == summary.violations.end()) {
        summary.violations.push_back({severity, message, 0, {}});
        known = summary.violations.end() - 1;
    }
    known->count += finding.at("count").get<std::uint64_t>();
    const auto core = finding.at("core").get<unsigned>();
    if (std::ranges::find(known->cores, core) == known->cores.end()) {
        known->cores.push_back(core);
        std::ranges::sort(known->cores);
    }
}

void add_report(SimSummary& summary, const json& report) {
    const json& statistics = report.at("statistics");
    const auto number = [&](const char* name) { return statistics.at(name).get<std::uint64_t>(); };
    ++summary.processes;
    summary.incomplete += report.at("complete").get<bool>() ? 0 : 1;
    summary.jobs += number("submissions");
    summary.failed_jobs += number("failed_submissions");
    summary.tasks += number("tasks");
    summary.macs += number("macs");
    summary.feature_bytes += number("feature_bytes");
    summary.weight_bytes += number("weight_bytes");
    summary.command_bytes += 8 * number("command_words");
    summary.output_bytes += number("output_bytes");
    summary.predicted_seconds += static_cast<double>(number("device_nanoseconds")) * 1e-9;
    for (const json& finding : report.at("findings")) {
        add_violation(summary, finding);
    }
    const auto faults = report.at("faults").get<std::string>();
    for (std::size_t begin = 0; begin < faults.size();) {
        const std::size_t end = std::min(faults.find('\n', begin), faults.size());
        if (end != begin) {
            summary.faults.push_back(faults.substr(begin, end - begin));
        }
        begin = end + 1;
    }
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < units.size(); ++unit) {
        value /= 1024;
    }
    return unit == 0 ? format("%llu B", static_cast<unsigned long long>(bytes)) : format("%.1f %s", value, units[unit]);
}

std::string seconds_text(double seconds) {
    if (seconds >= 1) {
        return format("%.3f s", seconds);
    }
    return seconds >= 1e-3 ? format("%.3f ms", seconds * 1e3) : format("%.1f us", seconds * 1e6);
}

std::string cores_text(const std::vector<unsigned>& cores) {
    std::string text = cores.size() == 1 ? "core" : "cores";
    for (std::size_t i = 0; i < cores.size(); ++i) {
        text += format("%s%u", i == 0 ? " " : ",", cores[i]);
    }
    return text;
}

std::string row(const char* name, const std::string& value) { return format("  %-16s %s\n", name, value.c_str()); }

std::string count_text(std::uint64_t count) { return format("%llu", static_cast<unsigned long long>(count)); }

}  // namespace

SimSummary read_summary(const std::string& folder) {
    SimSummary summary;
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        files.push_back(entry.path());
    }
    std::ranges::sort(files);
    for (const fs::path& path : files) {
        summary.library_loaded |= path.filename() == "loaded";
        if (path.extension() != ".json") {
            continue;
        }
        std::ifstream file(path);
        try {
            add_report(summary, json::parse(file));
        } catch (const json::exception&) {
            continue;  // somebody else's file
        }
    }
    std::ranges::stable_sort(summary.violations, {},
                             [](const SimSummary::Violation& violation) { return rank(violation.severity); });
    return summary;
}

std::string violation_lines(const SimSummary& summary) {
    std::string text;
    for (const SimSummary::Violation& violation : summary.violations) {
        text += format("%s %llux %s: ", violation.severity.c_str(), static_cast<unsigned long long>(violation.count),
                       cores_text(violation.cores).c_str()) +
                violation.message + "\n";
    }
    return text;
}

std::string summary_text(const SimSummary& summary, const SimulationOptions& options) {
    std::string text = format("simulated %s, driver %s%s%s, %s:\n", options.chip.c_str(), options.kernel.c_str(),
                              options.kernel == "rocket" ? " " : "",
                              options.kernel == "rocket" ? options.rocket_interface.c_str() : "", options.mode.c_str());
    text += row("processes", count_text(summary.processes) +
                                 (summary.incomplete != 0 ? format(" (%llu killed; what they did last may be missing)",
                                                                   static_cast<unsigned long long>(summary.incomplete))
                                                          : ""));
    text += row("jobs", count_text(summary.jobs) +
                            (summary.failed_jobs != 0 ? " (" + count_text(summary.failed_jobs) + " failed)" : ""));
    text += row("tasks", count_text(summary.tasks));
    text += row("MACs", count_text(summary.macs));
    text += row("bytes read", bytes_text(summary.bytes_read()) + " (features " + bytes_text(summary.feature_bytes) +
                                  ", weights " + bytes_text(summary.weight_bytes) + ", commands " +
                                  bytes_text(summary.command_bytes) + ")");
    text += row("bytes written", bytes_text(summary.output_bytes));
    text += row("predicted time", seconds_text(summary.predicted_seconds));
    text += row("violations", summary.violations.empty() ? "none" : count_text(summary.violations.size()));
    for (const SimSummary::Violation& violation : summary.violations) {
        text += format("    %-8s %llux, %s: ", violation.severity.c_str(),
                       static_cast<unsigned long long>(violation.count), cores_text(violation.cores).c_str()) +
                violation.message + "\n";
    }
    for (std::size_t i = 0; i < summary.faults.size(); ++i) {
        text += row(i == 0 ? "injected faults" : "", summary.faults[i]);
    }
    return text;
}

json summary_json(const SimSummary& summary, const SimulationOptions& options) {
    json violations = json::array();
    for (const SimSummary::Violation& violation : summary.violations) {
        violations.push_back({{"severity", violation.severity},
                              {"message", violation.message},
                              {"count", violation.count},
                              {"cores", violation.cores}});
    }
    return {{"kernel", options.kernel},
            {"chip", options.chip},
            {"mode", options.mode},
            {"rocket_interface", options.kernel == "rocket" ? json(options.rocket_interface) : json()},
            {"intercepted", summary.library_loaded},
            {"processes", summary.processes},
            {"incomplete_processes", summary.incomplete},
            {"jobs", summary.jobs},
            {"failed_jobs", summary.failed_jobs},
            {"tasks", summary.tasks},
            {"macs", summary.macs},
            {"bytes_read", summary.bytes_read()},
            {"feature_bytes", summary.feature_bytes},
            {"weight_bytes", summary.weight_bytes},
            {"command_bytes", summary.command_bytes},
            {"bytes_written", summary.output_bytes},
            {"predicted_seconds", summary.predicted_seconds},
            {"violations", violations},
            {"faults", summary.faults}};
}

}  // namespace npu::tools
