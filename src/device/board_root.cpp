#include "device/board_root.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/descriptor.h"

namespace npu::device {

namespace {

constexpr std::size_t most_of_a_version = 200;

// -1 and errno. Interrupted reads are made again.
ssize_t read_some(int fd, char* to, std::size_t bytes) {
    ssize_t got = 0;
    do {
        got = ::read(fd, to, bytes);
    } while (got < 0 && errno == EINTR);
    return got;
}

bool printable(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

int BoardRoot::open_inside(const std::string& path, int flags, unsigned mode) const {
    // Files of a driver may be fifos or devices elsewhere: never wait for a partner.
    flags |= O_CLOEXEC | ((flags & O_PATH) != 0 ? 0 : O_NONBLOCK | O_NOCTTY);
    if (is_this_machine()) {
        return ::open(path.c_str(), flags, mode);
    }
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags);
    how.mode = (flags & O_CREAT) != 0 ? mode : 0;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    return static_cast<int>(::syscall(SYS_openat2, fd_, path.c_str(), &how, sizeof how));
}

Result<BoardRoot> BoardRoot::open(const std::string& folder) {
    const int fd = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return make_error(ErrorCode::not_found, "cannot open the folder %s: %s", folder.c_str(), std::strerror(errno));
    }
    std::unique_ptr<char, decltype(&std::free)> real(::realpath(folder.c_str(), nullptr), &std::free);
    BoardRoot root(real != nullptr && std::strcmp(real.get(), "/") == 0 ? "/" : folder, fd);
    const Descriptor probe(root.open_inside("/", O_PATH | O_DIRECTORY));
    if (!probe.ok()) {
        return make_error(
            ErrorCode::unsupported,
            "cannot stay inside %s: openat2 says %s (it needs Linux 5.6, and a container that allows it); "
            "only / can be examined here",
            folder.c_str(), std::strerror(errno));
    }
    return root;
}

BoardRoot::BoardRoot(BoardRoot&& other) noexcept
    : folder_(std::move(other.folder_)), fd_(std::exchange(other.fd_, -1)) {}

BoardRoot::~BoardRoot() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

std::optional<std::string> BoardRoot::bytes(const std::string& path, std::size_t most) const {
    const Descriptor file(open_inside(path, O_RDONLY));
    if (!file.ok()) {
        return std::nullopt;
    }
    std::string content;
    std::array<char, 4096> piece;
    while (content.size() < most) {
        const ssize_t got = read_some(file.get(), piece.data(), std::min(piece.size(), most - content.size()));
        if (got < 0) {
            return std::nullopt;  // a file of sysfs may open and refuse to be read
        }
        if (got == 0) {
            break;
        }
        content.append(piece.data(), static_cast<std::size_t>(got));
    }
    return content;
}

std::optional<std::string> BoardRoot::text(const std::string& path) const {
    std::optional<std::string> content = bytes(path);
    if (content) {
        const std::size_t last = content->find_last_not_of(std::string_view(" \t\r\n\0", 5));
        content->resize(last == std::string::npos ? 0 : last + 1);
    }
    return content;
}

std::optional<std::vector<std::uint32_t>> BoardRoot::words(const std::string& path) const {
    const std::optional<std::string> content = bytes(path);
    if (!content || content->size() % 4 != 0) {
        return std::nullopt;
    }
    std::vector<std::uint32_t> numbers;
    for (std::size_t i = 0; i < content->size(); i += 4) {
        std::uint32_t number = 0;
        for (std::size_t byte = 0; byte < 4; ++byte) {
            number = number << 8 | static_cast<unsigned char>((*content)[i + byte]);
        }
        numbers.push_back(number);
    }
    return numbers;
}

std::vector<std::string> BoardRoot::names(const std::string& path) const {
    Descriptor folder(open_inside(path, O_RDONLY | O_DIRECTORY));
    if (!folder.ok()) {
        return {};
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(folder.get()), &::closedir);
    if (stream == nullptr) {
        return {};
    }
    folder.release();  // the stream closes it
    std::vector<std::string> found;
    while (const dirent* entry = ::readdir(stream.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") {
            found.push_back(name);
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

bool BoardRoot::readable_folder(const std::string& path) const {
    return Descriptor(open_inside(path, O_RDONLY | O_DIRECTORY)).ok();
}

std::optional<struct stat> BoardRoot::status(const std::string& path) const {
    const Descriptor file(open_inside(path, O_PATH));
    struct stat result {};
    if (!file.ok() || ::fstat(file.get(), &result) != 0) {
        return std::nullopt;
    }
    return result;
}

std::optional<std::string> BoardRoot::link(const std::string& path) const {
    const Descriptor file(open_inside(path, O_PATH | O_NOFOLLOW));
    std::array<char, 4096> target;
    const ssize_t length = file.ok() ? ::readlinkat(file.get(), "", target.data(), target.size()) : -1;
    if (length < 0) {
        return std::nullopt;
    }
    return std::string(target.data(), static_cast<std::size_t>(length));
}

std::optional<std::string> BoardRoot::text_after(const std::string& path, std::string_view marker) const {
    const Descriptor file(open_inside(path, O_RDONLY));
    if (!file.ok()) {
        return std::nullopt;
    }
    // A window that overlaps the piece before it by more than a marker and what follows it.
    const std::size_t overlap = marker.size() + most_of_a_version;
    std::string window;
    std::vector<char> piece(1 << 16);
    for (bool more = true; more;) {
        const ssize_t got = read_some(file.get(), piece.data(), piece.size());
        more = got > 0;
        window.append(piece.data(), more ? static_cast<std::size_t>(got) : 0);
        const std::size_t at = window.find(marker);
        if (at != std::string::npos && (!more || at + overlap <= window.size())) {
            const auto begin = window.begin() + static_cast<std::ptrdiff_t>(at + marker.size());
            auto end = std::find_if_not(begin, window.end(), printable);
            end = std::min(end, begin + std::min<std::ptrdiff_t>(end - begin, most_of_a_version));
            return std::string(begin, end);
        }
        if (at == std::string::npos && window.size() > overlap) {
            window.erase(0, window.size() - overlap);
        }
    }
    return std::nullopt;
}

Result<void> BoardRoot::write(const std::string& path, const std::string& text, bool create) const {
    const Descriptor file(open_inside(path, O_WRONLY | O_TRUNC | (create ? O_CREAT : 0), create ? 0644 : 0));
    const ssize_t written = file.ok() ? ::write(file.get(), text.data(), text.size()) : -1;
    if (written != static_cast<ssize_t>(text.size())) {
        return make_error(ErrorCode::device_failure, "cannot write '%s' to %s: %s", text.c_str(), path.c_str(),
                          written < 0 ? std::strerror(errno) : "only a part was taken");
    }
    return {};
}

Result<void> BoardRoot::remove(const std::string& path) const {
    const std::size_t slash = path.rfind('/');
    const Descriptor folder(open_inside(slash == 0 ? "/" : path.substr(0, slash), O_PATH | O_DIRECTORY));
    if (!folder.ok() || ::unlinkat(folder.get(), path.c_str() + slash + 1, 0) != 0) {
        return make_error(ErrorCode::device_failure, "cannot remove %s: %s", path.c_str(), std::strerror(errno));
    }
    return {};
}

}  // namespace npu::device
