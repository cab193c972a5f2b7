// The fixture libraries (tests/elf/CMakeLists.txt), and binutils as the oracle that knows what stripping removed.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "elf/program.h"

namespace npu::elf::testing {

// Path of a fixture, e.g. "shapes.so".
std::string fixture(const std::string& name);
bool have(const std::string& name);

// Reads and analyses; a failure is a failure of the test.
Program analysed(const std::string& name);

// Output of a shell command, and its exit status.
struct Output {
    int status = -1;
    std::string text;
};
Output shell(const std::string& command);
std::vector<std::string> lines(const std::string& text);

// Every function of a twin by address: size and name (nm).
struct TrueFunction {
    std::uint64_t size = 0;
    std::string name;
};
std::map<std::uint64_t, TrueFunction> true_functions(const std::string& twin);

// Every call (BL) of a twin to a symbol whose name begins so: address of the call (objdump).
std::vector<std::uint64_t> true_calls(const std::string& twin, const std::string& symbol);

// file:line of addresses by DWARF (addr2line): base name of the file, line.
struct Line {
    std::string file;
    unsigned line = 0;
};
std::map<std::uint64_t, Line> true_lines(const std::string& twin, const std::vector<std::uint64_t>& addresses);

}  // namespace npu::elf::testing

#define NPU_REQUIRE_FIXTURE(name)                                                                              \
    if (!::npu::elf::testing::have(name)) {                                                                    \
        GTEST_SKIP() << "\n*** NOT TESTED: no fixture " << (name) << " (package g++-aarch64-linux-gnu) ***\n"; \
    }
