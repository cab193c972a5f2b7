// Reading a file whole and writing one so that nobody ever sees half of it: into a temporary beside it, flushed to the
// disk, then renamed. A full disk or a read-only folder is an error before the old file is touched.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "elf/bytes.h"

namespace npu::elf {

// Errors: `not_found` with the system's reason; `unsupported` for a folder.
Result<std::vector<std::uint8_t>> read_file(const std::string& path);

// A file's bytes as the system pages them in: for model files of many gigabytes. Moved, not copied.
class MappedFile {
  public:
    // Errors: `not_found` with the system's reason.
    static Result<MappedFile> open(const std::string& path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&&) = delete;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();
    [[nodiscard]] Bytes bytes() const { return bytes_; }

  private:
    explicit MappedFile(Bytes bytes) : bytes_(bytes) {}
    Bytes bytes_;
};

// Writes `bytes` to `path` with the permissions `mode`, all or nothing. Errors: `device_failure` with the reason.
Result<void> write_file_whole(const std::string& path, Bytes bytes, unsigned mode);

// Permission bits of a file, or 0644 when it cannot be asked.
unsigned mode_of(const std::string& path);
bool is_symlink(const std::string& path);
bool exists(const std::string& path);

}  // namespace npu::elf
