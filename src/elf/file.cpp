#include "elf/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

namespace npu::elf {

namespace {

Error refused(const std::string& path, const char* what, int number) {
    return make_error(ErrorCode::device_failure, "%s: %s: %s; nothing was changed", path.c_str(), what,
                      std::strerror(number));
}

bool write_all(int fd, Bytes bytes) {
    while (!bytes.empty()) {
        const ssize_t done = ::write(fd, bytes.data(), bytes.size());
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return true;
}

}  // namespace

Result<std::vector<std::uint8_t>> read_file(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) {
        return make_error(ErrorCode::not_found, "%s: %s", path.c_str(), std::strerror(errno));
    }
    struct stat status {};
    if (::fstat(file.get(), &status) == 0 && S_ISDIR(status.st_mode)) {
        return make_error(ErrorCode::not_found, "%s: this is a folder; name the file", path.c_str());
    }
    std::vector<std::uint8_t> bytes;
    bytes.reserve(status.st_size > 0 ? static_cast<std::size_t>(status.st_size) : 0);
    std::uint8_t block[1 << 16];
    for (;;) {
        const ssize_t count = ::read(file.get(), block, sizeof block);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return make_error(ErrorCode::not_found, "%s: %s", path.c_str(), std::strerror(errno));
        }
        if (count == 0) {
            return bytes;
        }
        bytes.insert(bytes.end(), block, block + count);
    }
}

Result<void> write_file_whole(const std::string& path, Bytes bytes, unsigned mode) {
    const std::string temporary = path + format(".%d.tmp", static_cast<int>(::getpid()));
    {
        const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (file.get() < 0) {
            return refused(path, "cannot write beside it", errno);
        }
        if (!write_all(file.get(), bytes) || ::fsync(file.get()) != 0 || ::fchmod(file.get(), mode) != 0) {
            const int number = errno;
            ::unlink(temporary.c_str());
            return refused(path, "cannot write", number);
        }
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        const int number = errno;
        ::unlink(temporary.c_str());
        return refused(path, "cannot replace", number);
    }
    return {};
}

Result<MappedFile> MappedFile::open(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
        return make_error(ErrorCode::not_found, "%s: %s", path.c_str(), std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return make_error(ErrorCode::not_found, "%s: this is no file", path.c_str());
    }
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size == 0) {
        return MappedFile(Bytes{});
    }
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (start == MAP_FAILED) {
        return make_error(ErrorCode::not_found, "%s: %s", path.c_str(), std::strerror(errno));
    }
    return MappedFile(Bytes(static_cast<const std::uint8_t*>(start), size));
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(other.bytes_) { other.bytes_ = {}; }

MappedFile::~MappedFile() {
    if (!bytes_.empty()) {
        ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
    }
}

unsigned mode_of(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0644U;
}

bool is_symlink(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

bool exists(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace npu::elf
