// The files that stand for a board: complete, linked as the kernel links them, and not overwritten.
#include "sim/preload/board_tree.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>

namespace npu::sim {

// For the names of the tests.
void PrintTo(Driver driver, std::ostream* out) { *out << (driver == Driver::rknpu ? "rknpu" : "rocket"); }

namespace {

namespace fs = std::filesystem;

class BoardTree : public testing::TestWithParam<Driver> {
  protected:
    void SetUp() override {
        std::string folder = (fs::temp_directory_path() / "npu-board-XXXXXX").string();
        ASSERT_NE(::mkdtemp(folder.data()), nullptr);
        root_ = folder;
    }
    void TearDown() override { remove_board_tree(root_); }

    [[nodiscard]] std::string text(const std::string& path) const {
        std::ifstream file(root_ + path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    std::string root_;
};

TEST_P(BoardTree, every_link_leads_to_something_inside_the_tree) {
    ASSERT_TRUE(write_board_tree(root_, GetParam(), "rk3588").ok());
    int links = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
        if (!entry.is_symlink()) {
            continue;
        }
        ++links;
        ASSERT_TRUE(fs::exists(entry.path())) << entry.path();
        const std::string target = fs::canonical(entry.path());
        EXPECT_TRUE(target.starts_with(fs::canonical(root_).string() + "/")) << entry.path() << " -> " << target;
    }
    EXPECT_GT(links, 10);
}

TEST_P(BoardTree, every_node_has_its_class_and_number_folders_and_a_driver) {
    ASSERT_TRUE(write_board_tree(root_, GetParam(), "rk3588").ok());
    const std::string driver = GetParam() == Driver::rknpu ? "rknpu" : "rocket";
    const std::string subsystem = GetParam() == Driver::rknpu ? "drm" : "accel";
    ASSERT_FALSE(device_nodes(GetParam()).empty());
    for (const DeviceNode& node : device_nodes(GetParam())) {
        const std::string number = std::to_string(node.major) + ":" + std::to_string(node.minor);
        const std::string name = fs::path(node.path).filename();
        EXPECT_TRUE(fs::exists(root_ + node.path));
        EXPECT_EQ(text("/sys/class/" + subsystem + "/" + name + "/dev"), number + "\n");
        EXPECT_TRUE(fs::equivalent(root_ + "/sys/class/" + subsystem + "/" + name, root_ + "/sys/dev/char/" + number));
        EXPECT_EQ(fs::canonical(root_ + "/sys/dev/char/" + number + "/device/driver").filename(), driver);
        EXPECT_EQ(fs::canonical(root_ + "/sys/dev/char/" + number + "/device/subsystem").filename(), "platform");
        EXPECT_EQ(fs::canonical(root_ + "/sys/dev/char/" + number + "/subsystem").filename(), subsystem);
    }
}

TEST_P(BoardTree, what_is_there_already_stays) {
    fs::create_directories(root_ + "/proc/rknpu");
    fs::create_directories(root_ + "/sys/module/rocket");
    const std::string path = GetParam() == Driver::rknpu ? "/proc/rknpu/version" : "/sys/module/rocket/refcnt";
    std::ofstream(root_ + path) << "mine";
    ASSERT_TRUE(write_board_tree(root_, GetParam(), "rk3588").ok());
    ASSERT_TRUE(write_board_tree(root_, GetParam(), "rk3588").ok());
    EXPECT_EQ(text(path), "mine");
}

TEST_P(BoardTree, the_device_tree_names_the_chip) {
    ASSERT_TRUE(write_board_tree(root_, GetParam(), "rv1106").ok());
    EXPECT_NE(text("/proc/device-tree/compatible").find(std::string("rockchip,rv1106\0", 16)), std::string::npos);
    EXPECT_EQ(text("/proc/device-tree/compatible").find("rk3588"), std::string::npos);
}

TEST_P(BoardTree, a_folder_that_cannot_be_written_is_named) {
    std::ofstream(root_ + "/file") << "no folder";
    const Result<void> written = write_board_tree(root_ + "/file/below", GetParam(), "rk3588");
    ASSERT_FALSE(written.ok());
    EXPECT_NE(written.error().message.find(root_ + "/file"), std::string::npos) << written.error().message;
}

TEST_P(BoardTree, the_table_knows_what_it_writes) {
    ASSERT_TRUE(write_board_tree(root_, GetParam(), "rk3588").ok());
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
        const std::string path = entry.path().string().substr(root_.size());
        EXPECT_TRUE(is_in_board_table(path, GetParam()) || path.starts_with("/sys/devices/platform/")) << path;
    }
    for (const char* path : {"/dev/null", "/dev/shm/file", "/proc/self/maps", "/sys/class/net", "/etc", "/device"}) {
        EXPECT_FALSE(is_in_board_table(path, GetParam())) << path;
    }
}

TEST(BoardFolders, are_hidden_by_whole_names_only) {
    for (const char* path :
         {"/dev/dri", "/dev/dri/card7", "/dev/accel/accel0", "/sys/class/drm", "/proc/device-tree/model"}) {
        EXPECT_TRUE(hides_machine(path)) << path;
    }
    for (const char* path : {"/dev", "/dev/drip", "/dev/null", "/sys/class/drmx", "/sys/class", "/proc/self", ""}) {
        EXPECT_FALSE(hides_machine(path)) << path;
    }
    EXPECT_TRUE(is_below("/dev/dri", "/dev/"));
    EXPECT_FALSE(is_below("/device", "/dev"));
}

INSTANTIATE_TEST_SUITE_P(Drivers, BoardTree, testing::Values(Driver::rknpu, Driver::rocket));

}  // namespace
}  // namespace npu::sim
