// What `npu doctor` examines: a table of checks, each of them data (a name, why it matters, with the figure that was published)
// and one function from facts to a finding. A finding is a verdict with its evidence, that is, which file said what, and the
// exact command that helps. A check never touches the board; what it does not know it calls unknown.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/board_facts.h"

namespace npu::tools {

enum class Verdict {
    ok,
    warning,  // works, but slower or riskier than need be
    problem,  // does not work, or costs a multiple
    unknown,  // the board does not say
};

const char* verdict_name(Verdict verdict);

struct Evidence {
    std::string file, said;
};

// A harmless remedy that `--fix` can apply: a file and what to write into it. Forgotten by the kernel at the next start.
struct Setting {
    std::string file, value;
};

struct Finding {
    Verdict verdict = Verdict::unknown;
    std::string summary;
    std::vector<Evidence> evidence;
    std::string remedy;  // a command or an instruction; empty when nothing is to be done
    std::vector<Setting> settings;
};

struct Check {
    const char* name;  // "ddr"
    const char* question;
    const char* why;
    const char* remedy;  // what it advises when it is not content, in general
    Finding (*examine)(const device::BoardFacts& facts);
};

// In the order in which they matter.
std::span<const Check> doctor_checks();

// doctor_driver.cpp
Finding examine_chip(const device::BoardFacts& facts);
Finding examine_driver(const device::BoardFacts& facts);
Finding examine_driver_version(const device::BoardFacts& facts);
Finding examine_nodes(const device::BoardFacts& facts);
Finding examine_iommu(const device::BoardFacts& facts);
Finding examine_other_process(const device::BoardFacts& facts);

// doctor_clocks.cpp
Finding examine_npu_clock(const device::BoardFacts& facts);
Finding examine_npu_power(const device::BoardFacts& facts);
Finding examine_ddr(const device::BoardFacts& facts);
Finding examine_cpu_governors(const device::BoardFacts& facts);
Finding examine_big_cores(const device::BoardFacts& facts);
Finding examine_clock_limits(const device::BoardFacts& facts);
Finding examine_thermal(const device::BoardFacts& facts);

// doctor_system.cpp
Finding examine_open_files(const device::BoardFacts& facts);
Finding examine_cma(const device::BoardFacts& facts);
Finding examine_ggml(const device::BoardFacts& facts);
Finding examine_librknnrt(const device::BoardFacts& facts);
Finding examine_axcl(const device::BoardFacts& facts);

// Evidence of a fact: what its file said, or that it said nothing.
Evidence evidence(const device::Text& fact);
Evidence evidence(const device::Number& fact);

// The first library of this name, or nullptr.
const device::Software* find_software(const device::BoardFacts& facts, const std::string& name);

// "2112 MHz"
std::string megahertz(std::int64_t hertz);

}  // namespace npu::tools
