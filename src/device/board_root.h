// The files of a board under one folder: `/` for this machine, or a copy of another one's, which is how everything that reads
// a board is tested and how somebody else's board is examined from an archive. Every path that is asked for starts at the
// folder, and so does every symbolic link on the way: an absolute link in a copy leads into the copy, and nothing is read or
// written outside (openat2 with RESOLVE_IN_ROOT, Linux 5.6; a kernel or a container without it can only look at `/`).
//
// What cannot be read is not there: a fact that needs root rights, a file system that is not mounted and a driver that is not
// loaded all look the same to a reader, and the answer is "unknown".
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace npu::device {

// Owns a descriptor of the folder. All paths are absolute ("/proc/version"). Const members are thread-safe.
class BoardRoot {
  public:
    // Errors: not_found (no such folder), unsupported (no openat2 and another folder than `/`).
    static Result<BoardRoot> open(const std::string& folder);
    BoardRoot(BoardRoot&& other) noexcept;
    BoardRoot& operator=(BoardRoot&&) = delete;
    ~BoardRoot();

    [[nodiscard]] const std::string& folder() const { return folder_; }
    [[nodiscard]] bool is_this_machine() const { return folder_ == "/"; }

    // The first `most` bytes of a file as they are.
    [[nodiscard]] std::optional<std::string> bytes(const std::string& path, std::size_t most = 1 << 20) const;
    // The same without white space and zeros at the end: what files of sysfs and properties of a device tree say.
    [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
    // Big-endian 32-bit words, as a device tree holds numbers.
    [[nodiscard]] std::optional<std::vector<std::uint32_t>> words(const std::string& path) const;
    // Names in a folder without . and .., sorted. Empty when it cannot be read.
    [[nodiscard]] std::vector<std::string> names(const std::string& path) const;
    [[nodiscard]] bool readable_folder(const std::string& path) const;
    // What stands behind all links.
    [[nodiscard]] std::optional<struct stat> status(const std::string& path) const;
    [[nodiscard]] bool exists(const std::string& path) const { return status(path).has_value(); }
    // Where a symbolic link points to, unresolved.
    [[nodiscard]] std::optional<std::string> link(const std::string& path) const;
    // What follows the first occurrence of `marker` in a file of any size, up to a byte that is not printable; at most 200
    // bytes. How a library says its version. Reads the file in pieces.
    [[nodiscard]] std::optional<std::string> text_after(const std::string& path, std::string_view marker) const;

    // Writes into an existing file (`create`: or a new one, in an existing folder). Errors: device_failure with the reason.
    [[nodiscard]] Result<void> write(const std::string& path, const std::string& text, bool create = false) const;
    [[nodiscard]] Result<void> remove(const std::string& path) const;

  private:
    BoardRoot(std::string folder, int fd) : folder_(std::move(folder)), fd_(fd) {}
    [[nodiscard]] int open_inside(const std::string& path, int flags, unsigned mode = 0) const;

    std::string folder_;
    int fd_ = -1;
};

}  // namespace npu::device
