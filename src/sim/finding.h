// What the machine found wrong, as values. Silicon answers a bad program with a timeout or with wrong numbers and
// says nothing; the machine refuses it and says which register holds which value and why that cannot work. Tests
// and hosts read the list; nothing has to be parsed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace npu::sim {

enum class Severity {
    hang,        // silicon would not complete the task
    corrupt,     // silicon would complete and the numbers would be wrong
    unmodelled,  // no source says what silicon does, or this machine does not know it: it does not guess
    warning,     // the task runs; a published report says that some boards or shapes fail here
};

// What happens to a task that silicon would hang on, or whose results would be wrong.
enum class Mode {
    strict,   // it does not run: the core hangs there
    lenient,  // it runs as its registers say, as if nothing were wrong; the findings are recorded
};

// Short stable name ("hang"), for logs.
const char* severity_name(Severity severity);

struct Finding {
    Severity severity = Severity::warning;
    unsigned core = 0;
    std::uint32_t task = 0;  // index in the chain that ran; 0 where no task is involved
    std::string message;
    std::uint64_t count = 1;  // identical findings that were merged into this one
};

// "CNA.CBUF_CON0 (0x1040) = 0x000000d3".
std::string register_text(std::uint16_t offset, std::uint32_t value);

// Collects the findings of one task and decides whether it may run. In lenient mode only what is unmodelled stops it,
// and what stop() says; a reader must therefore leave a task that can be run safely even when it has refused a value.
class Judge {
  public:
    Judge(unsigned core, std::uint32_t task, Mode mode = Mode::strict) : core_(core), task_(task), mode_(mode) {}

    // Refuses the task. `severity` is hang, corrupt or unmodelled; the text says what is wrong and what the bound is.
    [[gnu::format(printf, 3, 4)]] void refuse(Severity severity, const char* pattern, ...);

    // Refuses the task because of what a register holds; the text continues the register and its value.
    [[gnu::format(printf, 5, 6)]] void refuse_register(Severity severity, std::uint16_t offset, std::uint32_t value,
                                                       const char* pattern, ...);

    // Refuses the task in both modes: there is nothing to run, or it would touch memory that is not there.
    [[gnu::format(printf, 3, 4)]] void stop(Severity severity, const char* pattern, ...);

    // Notes a hazard; the task runs.
    [[gnu::format(printf, 2, 3)]] void warn(const char* pattern, ...);

    // True when the task must not run.
    [[nodiscard]] bool refused() const { return refused_; }
    [[nodiscard]] Mode mode() const { return mode_; }
    [[nodiscard]] std::vector<Finding>& findings() { return findings_; }

  private:
    void add(Severity severity, std::string message);

    unsigned core_;
    std::uint32_t task_;
    Mode mode_;
    bool refused_ = false;
    std::vector<Finding> findings_;
};

}  // namespace npu::sim
