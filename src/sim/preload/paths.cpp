#include "sim/preload/paths.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>

#include "sim/preload/library.h"
#include "sim/preload/own_calls.h"

namespace npu::sim::preload {

namespace {

using Buffer = char[PATH_MAX];

bool in_board_folder(std::string_view path) {
    return is_below(path, "/dev") || is_below(path, "/sys") || is_below(path, "/proc");
}

bool in_root(std::string_view path) {
    const std::string_view root = Library::get().root_if_made();
    return !root.empty() && is_below(path, root);
}

// Whether a relative path without ".." can lead to the board's files.
bool works_near_board_folder() {
    std::array<char, 128> folder{};
    const int bytes = raw::getcwd(folder.data(), folder.size());
    if (bytes < 0) {
        return bytes == -ERANGE;
    }
    const std::string_view path = folder.data();
    return path == "/" || in_board_folder(path) || in_root(path);
}

// Copies a path without empty and "." components. With `lexically`, ".." removes the component before it.
void copy_clean(const char* path, bool lexically, Buffer& to) {
    std::size_t size = 0;
    bool slash_at_end = false;
    while (*path != '\0') {
        while (*path == '/') {
            ++path;
        }
        const std::size_t length = std::strcspn(path, "/");
        const std::string_view part(path, length);
        path += length;
        slash_at_end = part.empty() || part == "." || part == "..";
        if (part.empty() || part == ".") {
            continue;
        }
        if (lexically && part == "..") {
            while (size > 0 && to[--size] != '/') {
            }
            continue;
        }
        if (size + length + 2 > sizeof to) {
            break;
        }
        to[size++] = '/';
        std::memcpy(to + size, part.data(), length);
        size += length;
    }
    // A slash at the end asks for the folder that a link leads to.
    if (size == 0 || (slash_at_end && size + 1 < sizeof to)) {
        to[size++] = '/';
    }
    to[size] = '\0';
}

// Where relative paths count from, as the program would see it; false if that cannot be known.
bool base_of(int directory, Buffer& base) {
    if (directory == AT_FDCWD) {
        return raw::getcwd(base, PATH_MAX) > 0;
    }
    std::array<char, 32> link{};
    std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", directory);
    const int bytes = raw::readlink(link.data(), base, PATH_MAX - 1);
    if (bytes <= 0 || base[0] != '/') {
        return false;
    }
    base[bytes] = '\0';
    return true;
}

// The path as if the tree were the root, clean and absolute. `inside` says that it was reached through the tree. Returns
// false for paths that cannot concern the board. `joined` is room for a path.
bool absolute_path(int directory, const char* path, Buffer& to, bool& inside, Buffer& joined) {
    std::size_t base = 0;
    if (path[0] != '/') {
        if (!base_of(directory, joined)) {
            return false;
        }
        base = std::strlen(joined);
        // From a folder elsewhere only ".." leads to the board's files, or "dev" from "/".
        if (base > 1 && std::strstr(path, "..") == nullptr && !in_board_folder(joined) && !in_root(joined)) {
            return false;
        }
        joined[base++] = '/';
    }
    const std::size_t length = std::strlen(path);
    if (base + length >= sizeof joined) {
        return false;
    }
    std::memcpy(joined + base, path, length + 1);
    const std::size_t visible = hide_root(joined, base + length);
    inside = visible != base + length;
    joined[visible] = '\0';
    copy_clean(joined, false, to);
    if (!in_board_folder(to) && std::strstr(to, "/..") != nullptr) {
        copy_clean(joined, true, to);
    }
    return in_board_folder(to) || inside;
}

// True, and `to` is the path in the tree, if the board has something there.
bool in_tree(const char* path, bool follow, Buffer& to, struct stat& status) {
    if (!Library::get().may_have(path)) {
        return false;
    }
    const std::string& root = Library::get().root();
    if (root.size() + std::strlen(path) >= sizeof to) {
        return false;
    }
    std::memcpy(to, root.data(), root.size());
    std::strcpy(to + root.size(), path);
    return raw::stat(AT_FDCWD, to, &status, follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
}

void find(int directory, const char* path, bool follow, Place& place) {
    if (path == nullptr || path[0] == '\0') {
        return;
    }
    int fd = -1;
    if (follow && names_descriptor(path, fd)) {
        const auto found = Library::get().files().find(fd);
        struct stat status {};
        place.node = found                          ? found->node
                     : raw::fstat(fd, &status) == 0 ? Library::get().node_of(status)  // opened with O_PATH
                                                    : nullptr;
        if (place.node != nullptr) {
            place.where = Where::node;
            std::snprintf(place.path, sizeof place.path, "%s%s", Library::get().root().c_str(), place.node->path);
        }
        return;
    }
    Buffer absolute;
    bool inside = false;
    if (!absolute_path(directory, path, absolute, inside, place.path)) {
        place.path[0] = '\0';
        return;
    }
    struct stat status {};
    if (in_tree(absolute, follow, place.path, status)) {
        struct stat machine {};
        if (!S_ISDIR(status.st_mode) || hides_machine(absolute) || raw::stat(AT_FDCWD, absolute, &machine, 0) != 0) {
            place.node = Library::get().node_of(status);
            place.where = place.node != nullptr ? Where::node : Where::tree;
            return;
        }
    } else if (hides_machine(absolute)) {
        place.where = Where::tree;  // where there is nothing
        return;
    }
    // The machine's. If the way led through the tree, the original path would not reach it.
    if (inside) {
        copy_clean(absolute, true, place.path);
    } else {
        place.path[0] = '\0';
    }
}

}  // namespace

std::size_t hide_root(char* path, std::size_t bytes) {
    const std::size_t root_bytes = Library::get().root_if_made().size();
    if (!in_root({path, bytes}) || !in_board_folder({path + root_bytes, bytes - root_bytes})) {
        return bytes;
    }
    std::memmove(path, path + root_bytes, bytes - root_bytes);
    return bytes - root_bytes;
}

bool names_descriptor(const char* path, int& fd) {
    std::string_view rest = path;
    const auto skip = [&rest](std::string_view prefix) {
        const bool there = rest.starts_with(prefix);
        rest.remove_prefix(there ? prefix.size() : 0);
        return there;
    };
    const auto number = [&rest](int& value) {
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        return error == std::errc();
    };
    int process = 0;
    if (!skip("/dev/fd/")) {
        if (!skip("/proc/") ||
            !(skip("self") || skip("thread-self") || (number(process) && process == raw::getpid())) || !skip("/fd/")) {
            return false;
        }
    }
    return number(fd) && rest.empty();
}

bool is_in_tree(int fd) {
    Buffer path;
    return base_of(fd, path) && in_root(path);
}

bool may_be_simulated(int directory, const char* path) {
    if (path == nullptr || path[0] == '\0') {
        return false;
    }
    if (path[0] != '/') {
        return directory != AT_FDCWD || std::strstr(path, "..") != nullptr || works_near_board_folder();
    }
    return in_board_folder(path) || path[1] == '/' || path[1] == '.' || std::strstr(path, "/..") != nullptr ||
           in_root(path);
}

void find_place(int directory, const char* path, bool follow, Place& place) {
    const int error = errno;
    place.where = Where::machine;
    place.path[0] = '\0';
    find(directory, path, follow, place);
    errno = error;
}

bool find_tree_folder(int directory, const char* path, char (&tree_folder)[PATH_MAX]) {
    Buffer absolute;
    bool inside = false;
    struct stat status {};
    return absolute_path(directory, path, absolute, inside, tree_folder) && !inside &&
           in_tree(absolute, true, tree_folder, status) && S_ISDIR(status.st_mode);
}

}  // namespace npu::sim::preload
