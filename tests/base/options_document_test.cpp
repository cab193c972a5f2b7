// docs/options.md says what the table says, row by row.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/options.h"

namespace npu {
namespace {

std::vector<std::string> document_rows() {
    std::ifstream file(NPU_SOURCE_DIR "/docs/options.md");
    std::vector<std::string> rows;
    for (std::string line; std::getline(file, line);) {
        if (line.rfind("| `", 0) == 0) {
            rows.push_back(line);
        }
    }
    return rows;
}

std::string row_of(const OptionInfo& option) {
    std::string accepted = option.choices != nullptr ? option.choices : "text";
    for (std::size_t bar = accepted.find('|'); bar != std::string::npos; bar = accepted.find('|', bar + 2)) {
        accepted.replace(bar, 1, "\\|");
    }
    const std::string fallback = *option.default_value != '\0' ? format("`%s`", option.default_value) : "(none)";
    return format("| `%s` | %s | %s | %s |", option.name, accepted.c_str(), fallback.c_str(), option.help);
}

TEST(OptionDocument, EveryRowIsThatOfTheTable) {
    const std::vector<std::string> rows = document_rows();
    const auto table = option_table();
    ASSERT_EQ(rows.size(), table.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i], row_of(table[i]));
    }
}

}  // namespace
}  // namespace npu
