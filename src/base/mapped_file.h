// The file behind memory that somebody mapped. A program that maps a model and hands us pointers into the mapping need not
// keep the mapping, and we need not keep a copy of the bytes: they lie in the file. Linux lists in /proc/self/maps which part
// of which file each mapping shows. We open that file ourselves, so that its bytes stay readable when the mapping is gone,
// and even when the file is deleted.
//
// Only mappings that are shared and read-only count: what a private mapping shows may have been written over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace npu {

class OpenFile;

// A range of an open file. Copies share the descriptor, which the last one closes.
class FileBytes {
  public:
    FileBytes(std::shared_ptr<const OpenFile> file, std::uint64_t offset, std::size_t size)
        : file_(std::move(file)), offset_(offset), size_(size) {}

    [[nodiscard]] std::size_t size() const { return size_; }

    // The bytes from `first` on; the range must lie inside. Error device_failure when they cannot be read, or when the file was
    // written since it was opened: then the destination holds what it now has.
    Result<void> read(std::size_t first, std::span<std::byte> destination) const;

  private:
    std::shared_ptr<const OpenFile> file_;
    std::uint64_t offset_ = 0;
    std::size_t size_ = 0;
};

// Opens each file once. Not thread-safe.
class MappedFiles {
  public:
    // The file's bytes that this memory shows; nothing when it is no shared read-only mapping of a file, or the file cannot
    // be opened by the name it had, or has another content there.
    std::optional<FileBytes> behind(std::span<const std::byte> memory);

  private:
    std::vector<std::shared_ptr<const OpenFile>> files_;
};

// Gives back the memory of pages that lie wholly in this range, which behind() found: touched again, they come from the file.
void release_pages(std::span<const std::byte> memory);

}  // namespace npu
