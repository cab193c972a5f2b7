#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace npu {

class OpenFile {
  public:
    OpenFile(int descriptor, std::string path, const struct stat& state)
        : descriptor_(descriptor), path_(std::move(path)), state_(state) {}
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    ~OpenFile() { close(descriptor_); }

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] bool is(dev_t device, std::uint64_t inode) const {
        return state_.st_dev == device && state_.st_ino == inode;
    }

    [[nodiscard]] bool was_written() const {
        struct stat now = {};
        return fstat(descriptor_, &now) != 0 || now.st_size != state_.st_size ||
               now.st_mtim.tv_sec != state_.st_mtim.tv_sec || now.st_mtim.tv_nsec != state_.st_mtim.tv_nsec;
    }

    // False: the file ends early or cannot be read; errno says which, 0 is the former.
    bool read(std::uint64_t offset, std::span<std::byte> destination) const {
        while (!destination.empty()) {
            const ssize_t count =
                pread(descriptor_, destination.data(), destination.size(), static_cast<off_t>(offset));
            if (count < 0 && errno == EINTR) {
                continue;
            }
            if (count <= 0) {
                errno = count == 0 ? 0 : errno;
                return false;
            }
            offset += static_cast<std::uint64_t>(count);
            destination = destination.subspan(static_cast<std::size_t>(count));
        }
        return true;
    }

  private:
    int descriptor_;
    std::string path_;
    struct stat state_;
};

namespace {

// One line of /proc/self/maps.
struct Mapping {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::uint64_t offset = 0;  // in the file, of the first byte
    dev_t device = 0;
    std::uint64_t inode = 0;
    bool shared_and_read_only = false;
    std::string path;
};

std::optional<Mapping> parse(const std::string& line) {
    Mapping mapping;
    char permissions[5] = {};
    unsigned major = 0;
    unsigned minor = 0;
    int path_begin = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &mapping.begin,
                    &mapping.end, permissions, &mapping.offset, &major, &minor, &mapping.inode, &path_begin) != 7) {
        return std::nullopt;
    }
    mapping.device = makedev(major, minor);
    mapping.shared_and_read_only = std::strcmp(permissions, "r--s") == 0;
    mapping.path = line.substr(static_cast<std::size_t>(path_begin));
    return mapping;
}

// The mapping that shows all of this range; the pieces into which the kernel splits one count as one.
std::optional<Mapping> mapping_of(std::uintptr_t begin, std::uintptr_t end) {
    std::ifstream lines("/proc/self/maps");
    std::optional<Mapping> found;
    for (std::string line; std::getline(lines, line);) {
        const auto mapping = parse(line);
        if (!mapping || mapping->end <= begin) {
            continue;
        }
        const bool continues = found ? mapping->begin == found->end && mapping->path == found->path &&
                                           mapping->offset == found->offset + (found->end - found->begin)
                                     : mapping->begin <= begin;
        if (!continues || !mapping->shared_and_read_only || mapping->path.empty() || mapping->path[0] != '/') {
            return std::nullopt;
        }
        if (!found) {
            found = mapping;
        }
        found->end = mapping->end;
        if (found->end >= end) {
            return found;
        }
    }
    return std::nullopt;
}

bool shows(const OpenFile& file, std::uint64_t offset, std::span<const std::byte> memory) {
    std::vector<std::byte> piece(std::min<std::size_t>(memory.size(), 1U << 20U));
    while (!memory.empty()) {
        const std::span<std::byte> read = std::span(piece).first(std::min(piece.size(), memory.size()));
        if (!file.read(offset, read) || std::memcmp(read.data(), memory.data(), read.size()) != 0) {
            return false;
        }
        offset += read.size();
        memory = memory.subspan(read.size());
    }
    return true;
}

}  // namespace

Result<void> FileBytes::read(std::size_t first, std::span<std::byte> destination) const {
    if (!file_->read(offset_ + first, destination)) {
        return make_error(ErrorCode::device_failure, "%s cannot be read at byte %" PRIu64 " (%s); restore the file",
                          file_->path().c_str(), offset_ + first,
                          errno == 0 ? "it has become shorter" : std::strerror(errno));
    }
    if (file_->was_written()) {
        return make_error(ErrorCode::device_failure,
                          "%s was written after it was loaded; replace a model under a new name, or load it again",
                          file_->path().c_str());
    }
    return {};
}

std::optional<FileBytes> MappedFiles::behind(std::span<const std::byte> memory) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    const auto mapping = memory.empty() ? std::nullopt : mapping_of(address, address + memory.size());
    if (!mapping) {
        return std::nullopt;
    }
    const std::uint64_t offset = mapping->offset + (address - mapping->begin);
    auto file =
        std::find_if(files_.begin(), files_.end(), [&](const auto& open) { return open->path() == mapping->path; });
    if (file == files_.end()) {
        const int descriptor = open(mapping->path.c_str(), O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) {
            return std::nullopt;
        }
        struct stat state = {};
        if (fstat(descriptor, &state) != 0) {
            close(descriptor);
            return std::nullopt;
        }
        file = files_.insert(files_.end(), std::make_shared<const OpenFile>(descriptor, mapping->path, state));
    }
    // Another number may be another file of that name, or the same one as an overlay file system shows it.
    if ((*file)->was_written() || (!(*file)->is(mapping->device, mapping->inode) && !shows(**file, offset, memory))) {
        return std::nullopt;
    }
    return FileBytes(*file, offset, memory.size());
}

void release_pages(std::span<const std::byte> memory) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    const std::uintptr_t begin = (address + page - 1) / page * page;
    const std::uintptr_t end = (address + memory.size()) / page * page;
    if (begin < end) {
        // Refused for locked pages: their owner wants them kept.
        (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    }
}

}  // namespace npu
