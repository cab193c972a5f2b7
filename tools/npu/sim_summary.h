// Adds up the reports of all processes of one `npu sim` run, and prints them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/result.h"

namespace npu::tools {

struct SimSummary {
    struct Violation {
        std::string severity;  // "hang", "corrupt", "warning"
        std::string message;
        std::uint64_t count = 0;
        std::vector<unsigned> cores;  // that met it, in order
    };

    bool library_loaded = false;   // in any process
    std::uint64_t processes = 0;   // that opened the device
    std::uint64_t incomplete = 0;  // of these: ended before they could write their last report
    std::uint64_t jobs = 0;
    std::uint64_t failed_jobs = 0;
    std::uint64_t tasks = 0;
    std::uint64_t macs = 0;
    std::uint64_t feature_bytes = 0;
    std::uint64_t weight_bytes = 0;
    std::uint64_t command_bytes = 0;
    std::uint64_t output_bytes = 0;
    double predicted_seconds = 0;
    std::vector<Violation> violations;  // hangs first, then corruption, then warnings; each distinct one once
    std::vector<std::string> faults;    // of each process, lines

    [[nodiscard]] std::uint64_t bytes_read() const { return feature_bytes + weight_bytes + command_bytes; }
};

// Reads the reports in a folder. Files that are no reports are left out.
SimSummary read_summary(const std::string& folder);

// As text for people, as lines (one a violation), and as JSON.
std::string summary_text(const SimSummary& summary, const SimulationOptions& options);
std::string violation_lines(const SimSummary& summary);
nlohmann::json summary_json(const SimSummary& summary, const SimulationOptions& options);

}  // namespace npu::tools
