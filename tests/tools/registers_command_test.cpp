#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tools/run_command.h"

namespace npu::tools::test {
namespace {

TEST(RegistersCommand, prints_what_the_document_holds) {
    const Output output = run("registers");
    ASSERT_EQ(output.status, 0) << output.error;
    std::ifstream stream(NPU_SOURCE_DIR "/docs/registers.md");
    std::ostringstream document;
    document << stream.rdbuf();
    EXPECT_TRUE(output.out == document.str())
        << "docs/registers.md is not what `npu registers` prints; make it again: npu registers > docs/registers.md";
}

TEST(RegistersCommand, names_every_register_and_what_is_unknown) {
    const std::string page = run("registers").out;
    for (const char* text : {"**CBUF_CON0**", "`0x1140` … `0x117c`", "UNKNOWN_3030", "UNKNOWN_31_28", "**PAD_CFG**",
                             "## PPU_RDMA: `0x7000`, target `0x8001`", "The registers are those of DDMA"}) {
        EXPECT_NE(page.find(text), std::string::npos) << text;
    }
    EXPECT_EQ(page.find("| |\n"), std::string::npos) << "a line without a meaning";
}

}  // namespace
}  // namespace npu::tools::test
