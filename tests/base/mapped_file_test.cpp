#include "base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace npu {
namespace {

constexpr std::size_t file_size = 300'000;  // several pages, and a part of one

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(count);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
    return bytes;
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

class MappedFile : public testing::Test {
  protected:
    MappedFile() : content_(random_bytes(file_size, 1)) {
        folder_ = std::filesystem::temp_directory_path() / ("npu-mapped-" + std::to_string(getpid()));
        std::filesystem::create_directory(folder_);
        path_ = (folder_ / "a model.gguf").string();  // a name with a space
        write_file(path_, content_);
    }
    ~MappedFile() override {
        unmap();
        std::filesystem::remove_all(folder_);
    }

    std::span<const std::byte> map(int protection, int flags) {
        const int descriptor = open(path_.c_str(), (protection & PROT_WRITE) != 0 ? O_RDWR : O_RDONLY);
        base_ = mmap(nullptr, file_size, protection, flags, descriptor, 0);
        close(descriptor);
        EXPECT_NE(base_, MAP_FAILED);
        return {static_cast<const std::byte*>(base_), file_size};
    }
    void unmap() {
        if (base_ != nullptr) {
            munmap(base_, file_size);
            base_ = nullptr;
        }
    }

    static std::vector<std::byte> read(const FileBytes& bytes, std::size_t first, std::size_t count) {
        std::vector<std::byte> read(count);
        const auto result = bytes.read(first, read);
        EXPECT_TRUE(result) << result.error().message;
        return read;
    }
    [[nodiscard]] std::vector<std::byte> expected(std::size_t first, std::size_t count) const {
        const auto begin = content_.begin() + static_cast<std::ptrdiff_t>(first);
        return {begin, begin + static_cast<std::ptrdiff_t>(count)};
    }

    std::filesystem::path folder_;
    std::string path_;
    std::vector<std::byte> content_;
    void* base_ = nullptr;
};

TEST_F(MappedFile, BytesStayReadableWithoutTheMappingAndWithoutTheName) {
    MappedFiles files;
    const auto bytes = files.behind(map(PROT_READ, MAP_SHARED).subspan(4097, 200'001));
    ASSERT_TRUE(bytes);
    EXPECT_EQ(bytes->size(), 200'001U);
    unmap();
    std::filesystem::remove(path_);
    EXPECT_EQ(read(*bytes, 0, 200'001), expected(4097, 200'001));
    EXPECT_EQ(read(*bytes, 199'000, 1001), expected(4097 + 199'000, 1001));
    EXPECT_NE(read(*bytes, 0, 1000), expected(4098, 1000));  // the comparison can fail
}

TEST_F(MappedFile, AMappingThatTheKernelSplitIsStillOne) {
    MappedFiles files;
    const auto memory = map(PROT_READ, MAP_SHARED);
    ASSERT_EQ(madvise(base_, 8 * 4096, MADV_RANDOM), 0);  // gives the first pages a list entry of their own
    const auto bytes = files.behind(memory);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(read(*bytes, 0, file_size), content_);
}

TEST_F(MappedFile, WhatMayHaveBeenWrittenOverDoesNotCount) {
    MappedFiles files;
    EXPECT_FALSE(files.behind(map(PROT_READ, MAP_PRIVATE)));
    unmap();
    EXPECT_FALSE(files.behind(map(PROT_READ | PROT_WRITE, MAP_SHARED)));
    EXPECT_FALSE(files.behind(content_));  // the heap
    EXPECT_FALSE(files.behind({}));
}

TEST_F(MappedFile, ARangeThatLeavesTheMappingDoesNotCount) {
    MappedFiles files;
    const auto memory = map(PROT_READ, MAP_SHARED);
    munmap(const_cast<std::byte*>(memory.data()) + 40 * 4096, file_size - 40 * 4096);
    EXPECT_FALSE(files.behind(memory));
    EXPECT_TRUE(files.behind(memory.first(std::size_t{40} * 4096)));
}

TEST_F(MappedFile, AFileThatIsGoneOrAnotherDoesNotCount) {
    const auto memory = map(PROT_READ, MAP_SHARED);
    std::filesystem::remove(path_);
    EXPECT_FALSE(MappedFiles().behind(memory));
    write_file(path_, random_bytes(file_size, 2));  // another file of the same name
    EXPECT_FALSE(MappedFiles().behind(memory));
}

TEST_F(MappedFile, WritingTheFileLaterIsNoticed) {
    MappedFiles files;
    const auto bytes = files.behind(map(PROT_READ, MAP_SHARED));
    ASSERT_TRUE(bytes);
    std::filesystem::resize_file(path_, 1000);
    std::array<std::byte, 16> destination = {};
    const auto shorter = bytes->read(2000, destination);
    ASSERT_FALSE(shorter);
    EXPECT_NE(shorter.error().message.find("shorter"), std::string::npos) << shorter.error().message;
    const auto written = bytes->read(0, destination);
    ASSERT_FALSE(written);
    EXPECT_NE(written.error().message.find(path_), std::string::npos) << written.error().message;
}

TEST_F(MappedFile, ReleasedPagesComeBackFromTheFile) {
    const auto memory = map(PROT_READ, MAP_SHARED);
    EXPECT_TRUE(std::equal(memory.begin(), memory.end(), content_.begin()));
    const int page_map = open("/proc/self/pagemap", O_RDONLY);
    const auto resident = [&](std::size_t page) {
        // Of this process, not of the page cache: bit 63 of the page's entry.
        std::uint64_t entry = 0;
        const auto index = reinterpret_cast<std::uintptr_t>(memory.data()) / 4096 + page;
        EXPECT_EQ(pread(page_map, &entry, sizeof(entry), static_cast<off_t>(index * sizeof(entry))), sizeof(entry));
        return (entry >> 63U) != 0;
    };
    ASSERT_TRUE(resident(0) && resident(3));
    release_pages(memory.subspan(100, std::size_t{8} * 4096));  // page 0 lies only in part in it
    EXPECT_TRUE(resident(0));
    EXPECT_FALSE(resident(3));
    close(page_map);
    EXPECT_TRUE(std::equal(memory.begin(), memory.end(), content_.begin()));
}

}  // namespace
}  // namespace npu
