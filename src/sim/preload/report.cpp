#include "sim/preload/report.h"

#include "base/result.h"

namespace npu::sim {

namespace {

// A JSON string. Bytes outside ASCII become '?': names of programs may be in any encoding.
std::string quoted(const std::string& text) {
    std::string json = "\"";
    for (const char character : text) {
        const auto byte = static_cast<unsigned char>(character);
        if (character == '"' || character == '\\') {
            json += '\\';
            json += character;
        } else if (byte < 0x20) {
            json += format("\\u%04x", static_cast<unsigned>(byte));
        } else {
            json += byte < 0x7f ? character : '?';
        }
    }
    return json + '"';
}

std::string number(std::uint64_t value) { return format("%llu", static_cast<unsigned long long>(value)); }

}  // namespace

std::string to_json(const ProcessReport& report) {
    const KernelStatistics& statistics = report.statistics;
    std::string json = format("{\"process\": %d, \"program\": %s, \"complete\": %s, \"statistics\": {", report.process,
                              quoted(report.program).c_str(), report.complete ? "true" : "false");
    const std::pair<const char*, std::uint64_t> counts[] = {
        {"submissions", statistics.submissions},
        {"failed_submissions", statistics.failed_submissions},
        {"tasks", statistics.tasks},
        {"macs", statistics.macs},
        {"feature_bytes", statistics.feature_bytes},
        {"weight_bytes", statistics.weight_bytes},
        {"output_bytes", statistics.output_bytes},
        {"command_words", statistics.command_words},
        {"memory_in_use", report.memory_in_use},
    };
    for (const auto& [name, value] : counts) {
        json += format("\"%s\": ", name) + number(value) + ", ";
    }
    // Not %g: its decimal point is that of the program's locale.
    json += "\"device_nanoseconds\": " + number(static_cast<std::uint64_t>(statistics.device_seconds * 1e9));
    json += "}, \"findings\": [";
    const char* separator = "";
    for (const Finding& finding : report.findings) {
        json += format("%s\n{\"severity\": \"%s\", \"core\": %u, \"task\": %u, \"count\": ", separator,
                       severity_name(finding.severity), finding.core, finding.task);
        json += number(finding.count) + ", \"message\": " + quoted(finding.message) + "}";
        separator = ",";
    }
    return json + "], \"faults\": " + quoted(report.faults) + "}\n";
}

}  // namespace npu::sim
