// Reading a board's files: what stays inside a folder, and what a text says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "device/board_facts.h"

namespace npu::device {

namespace {

namespace fs = std::filesystem;

class BoardFiles : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "npu-root-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
    }
    void TearDown() override { fs::remove_all(folder_); }
    void write(const std::string& path, const std::string& content) const {
        fs::create_directories((folder_ / path).parent_path());
        std::ofstream(folder_ / path, std::ios::binary) << content;
    }
    [[nodiscard]] BoardRoot root() const { return std::move(BoardRoot::open(folder_.string())).value(); }

    fs::path folder_;
};

TEST_F(BoardFiles, AreFoundThroughLinksInsideTheFolderOnly) {
    write("real", "inside\n");
    fs::create_symlink("/real", folder_ / "absolute");
    fs::create_symlink("../../../../../../../../etc/passwd", folder_ / "climbing");
    const BoardRoot board = root();
    EXPECT_EQ(board.text("/absolute"), "inside");
    EXPECT_EQ(board.text("/climbing"), std::nullopt);
    EXPECT_EQ(board.text("/../../../../../../etc/passwd"), std::nullopt);
    write("etc/passwd", "of the copy");
    EXPECT_EQ(board.text("/climbing"), "of the copy") << "positive control: the link leads to the copy's file";
    EXPECT_EQ(board.link("/absolute"), "/real");
}

TEST_F(BoardFiles, AreWrittenOnlyWhereTheyExist) {
    write("governor", "powersave");
    const BoardRoot board = root();
    EXPECT_TRUE(board.write("/governor", "performance"));
    EXPECT_EQ(board.text("/governor"), "performance");
    const Result<void> missing = board.write("/no-governor", "performance");
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().message.find("/no-governor"), std::string::npos);
    EXPECT_TRUE(board.write("/new", "x", true));
    EXPECT_TRUE(board.remove("/new"));
    EXPECT_FALSE(board.exists("/new"));
}

TEST_F(BoardFiles, SayTheirVersionWhereverItStands) {
    const std::string banner = "librknnrt version: ";
    // Across the borders of what is read at once, and at the very end of a file.
    for (const std::size_t before : {0UL, 1UL, 65530UL, 65536UL, 131060UL, 200000UL}) {
        write("lib.so", std::string(before, '\1') + banner + "2.3.2 (x)" + std::string(before % 7, '\0'));
        EXPECT_EQ(root().text_after("/lib.so", banner), "2.3.2 (x)") << before;
    }
    write("lib.so", std::string(100000, '\1'));
    EXPECT_EQ(root().text_after("/lib.so", banner), std::nullopt);
}

TEST_F(BoardFiles, AnswerNothingWhenTheyAreMissing) {
    const BoardFacts facts = read_board(root());
    EXPECT_FALSE(facts.kernel);
    EXPECT_FALSE(facts.ddr);
    EXPECT_FALSE(facts.npu.vendor || facts.npu.rocket);
    EXPECT_FALSE(facts.npu.iommu);
    write("proc/sys/kernel/osrelease", "6.1.115\n");
    EXPECT_EQ(read_board(root()).kernel.value, "6.1.115");
}

TEST_F(BoardFiles, AreRefusedWhenTheFolderIsMissing) {
    const Result<BoardRoot> missing = BoardRoot::open((folder_ / "nothing").string());
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::not_found);
}

TEST_F(BoardFiles, GiveTheWordsOfADeviceTreeMostSignificantByteFirst) {
    write("rates", std::string("\x0b\xeb\xc2\x00\xff\xff\xff\xff", 8));
    write("odd", "abcde");
    const auto words = root().words("/rates");
    ASSERT_TRUE(words && words->size() == 2);
    EXPECT_EQ(words->at(0), 200'000'000U);
    EXPECT_EQ(words->at(1), 0xffffffffU);
    EXPECT_FALSE(root().words("/odd"));
}

TEST(VersionNumber, IsTheFirstVersionInAText) {
    EXPECT_EQ(version_number("RKNPU driver: v0.9.8\n"), 908);
    EXPECT_EQ(version_number("6.1.115-vendor-rk35xx"), 60199) << "of two digits";
    EXPECT_EQ(version_number("2.3.2 (429f97ae6b@2025-04-09)"), 20302);
    EXPECT_EQ(version_number("6.18"), 61800);
    EXPECT_EQ(version_number("no digits"), std::nullopt);
    EXPECT_EQ(version_number("2024 v1.2"), 10200);
    EXPECT_NE(version_number("0.9.7"), version_number("0.9.8"));
}

}  // namespace

}  // namespace npu::device
