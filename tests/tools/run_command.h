// Runs the built `npu` program as a user would, and gives its output and exit status to a test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace npu::tools::test {

struct Output {
    int status = -1;
    std::string out, error;
};

// `arguments` is a piece of shell; `input` goes to standard input. Runs in the test's own empty folder.
Output run(const std::string& arguments, const std::string& input = {});

// Writes a file into that folder and gives its name.
std::string write(const std::string& name, const std::string& content);
std::string read(const std::string& name);

// What raw words look like in a file, least significant byte first.
std::string raw(const std::vector<std::uint64_t>& words);

// The files of $NPU_TEST_DATA/golden and golden/rv1106, with the words that they hold.
struct GoldenFile {
    std::string path;
    std::vector<std::uint64_t> words;
    bool other_chip = false;
};
std::optional<std::vector<GoldenFile>> golden_files();

}  // namespace npu::tools::test

// Skips a test, and says why where nobody can miss it.
#define NPU_REQUIRE_GOLDEN(variable)                                                                        \
    const auto variable = ::npu::tools::test::golden_files();                                               \
    if (!variable) {                                                                                        \
        GTEST_SKIP() << "\n*** NOT TESTED: set NPU_TEST_DATA to the folder that holds golden/*.json ***\n"; \
    }
