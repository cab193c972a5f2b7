// Calls that say something about a path: access(), readlink(), realpath(), chdir(), getcwd(), getxattr() and their
// relatives.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "sim/preload/library.h"
#include "sim/preload/next.h"
#include "sim/preload/own_calls.h"
#include "sim/preload/paths.h"

using namespace npu::sim::preload;  // NOLINT(google-build-using-namespace)

namespace {

constinit Next<int(const char*, int)> next_access("access");
constinit Next<int(const char*, int)> next_eaccess("eaccess");
constinit Next<int(const char*, int)> next_euidaccess("euidaccess");
constinit Next<int(int, const char*, int, int)> next_faccessat("faccessat");
constinit Next<ssize_t(const char*, char*, std::size_t)> next_readlink("readlink");
constinit Next<ssize_t(const char*, char*, std::size_t, std::size_t)> next_readlink_chk("__readlink_chk");
constinit Next<ssize_t(int, const char*, char*, std::size_t)> next_readlinkat("readlinkat");
constinit Next<ssize_t(int, const char*, char*, std::size_t, std::size_t)> next_readlinkat_chk("__readlinkat_chk");
constinit Next<char*(const char*, char*)> next_realpath("realpath");
constinit Next<char*(const char*, char*, std::size_t)> next_realpath_chk("__realpath_chk");
constinit Next<char*(const char*)> next_canonicalize("canonicalize_file_name");
constinit Next<int(const char*)> next_chdir("chdir");
constinit Next<char*(char*, std::size_t)> next_getcwd("getcwd");
constinit Next<char*(char*, std::size_t, std::size_t)> next_getcwd_chk("__getcwd_chk");
constinit Next<ssize_t(const char*, const char*, void*, std::size_t)> next_getxattr("getxattr");
constinit Next<ssize_t(const char*, const char*, void*, std::size_t)> next_lgetxattr("lgetxattr");
constinit Next<ssize_t(const char*, char*, std::size_t)> next_listxattr("listxattr");
constinit Next<ssize_t(const char*, char*, std::size_t)> next_llistxattr("llistxattr");

template <typename Answer, typename Call>
[[gnu::noinline]] Answer call_place(int directory, const char* path, bool follow, Call call) {
    Place place;
    find_place(directory, path, follow, place);
    return call(place.path_or(path));
}

template <typename Answer, typename Call>
Answer call_with(int directory, const char* path, bool follow, Call call) {
    return may_be_simulated(directory, path) ? call_place<Answer>(directory, path, follow, call) : call(path);
}

// What /proc/self/fd shows for a descriptor of the simulated NPU; nullptr for any other.
const char* name_of_descriptor(const char* path) {
    int fd = -1;
    Library* library = Library::get_if_made();
    if (library == nullptr || path == nullptr || !names_descriptor(path, fd)) {
        return nullptr;
    }
    const auto found = library->files().find(fd);
    if (!found) {
        return nullptr;
    }
    return found->node != nullptr ? found->node->path : "/dmabuf:";
}

template <typename Call>
[[gnu::noinline]] ssize_t read_link_place(int directory, const char* path, char* to, std::size_t bytes, Call call) {
    if (const char* name = name_of_descriptor(path); name != nullptr) {
        const std::size_t length = std::min(std::strlen(name), bytes);
        std::memcpy(to, name, length);
        return static_cast<ssize_t>(length);
    }
    Place place;
    find_place(directory, path, false, place);
    const ssize_t answer = call(place.path_or(path));
    return answer > 0 ? static_cast<ssize_t>(hide_root(to, static_cast<std::size_t>(answer))) : answer;
}

template <typename Call>
ssize_t read_link_with(int directory, const char* path, char* to, std::size_t bytes, Call call) {
    return may_be_simulated(directory, path) ? read_link_place(directory, path, to, bytes, call) : call(path);
}

char* without_root(char* path) {
    if (path != nullptr) {
        path[hide_root(path, std::strlen(path))] = '\0';
    }
    return path;
}

template <typename Call>
[[gnu::noinline]] char* real_path_place(const char* path, Call call) {
    Place place;
    find_place(AT_FDCWD, path, true, place);
    return without_root(call(place.path_or(path)));
}

template <typename Call>
char* real_path_with(const char* path, Call call) {
    return may_be_simulated(AT_FDCWD, path) ? real_path_place(path, call) : call(path);
}

}  // namespace

NPU_INTERPOSE int access(const char* path, int mode) {
    return call_with<int>(AT_FDCWD, path, true, [=](const char* found) { return next_access(found, mode); });
}

NPU_INTERPOSE int eaccess(const char* path, int mode) {
    return call_with<int>(AT_FDCWD, path, true, [=](const char* found) { return next_eaccess(found, mode); });
}

NPU_INTERPOSE int euidaccess(const char* path, int mode) {
    return call_with<int>(AT_FDCWD, path, true, [=](const char* found) { return next_euidaccess(found, mode); });
}

NPU_INTERPOSE int faccessat(int directory, const char* path, int mode, int flags) {
    return call_with<int>(directory, path, (flags & AT_SYMLINK_NOFOLLOW) == 0,
                          [=](const char* found) { return next_faccessat(directory, found, mode, flags); });
}

NPU_INTERPOSE ssize_t readlink(const char* path, char* to, std::size_t bytes) {
    return read_link_with(AT_FDCWD, path, to, bytes,
                          [=](const char* found) { return next_readlink(found, to, bytes); });
}

NPU_INTERPOSE ssize_t readlinkat(int directory, const char* path, char* to, std::size_t bytes) {
    return read_link_with(directory, path, to, bytes,
                          [=](const char* found) { return next_readlinkat(directory, found, to, bytes); });
}

// What the compiler calls instead when it knows the size of the buffer.
NPU_INTERPOSE ssize_t __readlink_chk(const char* path, char* to, std::size_t bytes, std::size_t buffer) {
    return read_link_with(AT_FDCWD, path, to, std::min(bytes, buffer),
                          [=](const char* found) { return next_readlink_chk(found, to, bytes, buffer); });
}

NPU_INTERPOSE ssize_t __readlinkat_chk(int directory, const char* path, char* to, std::size_t bytes,
                                       std::size_t buffer) {
    return read_link_with(directory, path, to, std::min(bytes, buffer),
                          [=](const char* found) { return next_readlinkat_chk(directory, found, to, bytes, buffer); });
}

NPU_INTERPOSE char* realpath(const char* path, char* to) {
    return real_path_with(path, [=](const char* found) { return next_realpath(found, to); });
}

NPU_INTERPOSE char* __realpath_chk(const char* path, char* to, std::size_t buffer) {
    return real_path_with(path, [=](const char* found) { return next_realpath_chk(found, to, buffer); });
}

NPU_INTERPOSE char* canonicalize_file_name(const char* path) {
    return real_path_with(path, [=](const char* found) { return next_canonicalize(found); });
}

NPU_INTERPOSE int chdir(const char* path) {
    return call_with<int>(AT_FDCWD, path, true, [=](const char* found) { return next_chdir(found); });
}

NPU_INTERPOSE char* getcwd(char* to, std::size_t bytes) { return without_root(next_getcwd(to, bytes)); }

NPU_INTERPOSE char* __getcwd_chk(char* to, std::size_t bytes, std::size_t buffer) {
    return without_root(next_getcwd_chk(to, bytes, buffer));
}

// Programs that list folders in detail ask for access control lists.
NPU_INTERPOSE ssize_t getxattr(const char* path, const char* name, void* value, std::size_t bytes) noexcept {
    return call_with<ssize_t>(AT_FDCWD, path, true,
                              [=](const char* found) { return next_getxattr(found, name, value, bytes); });
}

NPU_INTERPOSE ssize_t lgetxattr(const char* path, const char* name, void* value, std::size_t bytes) noexcept {
    return call_with<ssize_t>(AT_FDCWD, path, false,
                              [=](const char* found) { return next_lgetxattr(found, name, value, bytes); });
}

NPU_INTERPOSE ssize_t listxattr(const char* path, char* list, std::size_t bytes) noexcept {
    return call_with<ssize_t>(AT_FDCWD, path, true,
                              [=](const char* found) { return next_listxattr(found, list, bytes); });
}

NPU_INTERPOSE ssize_t llistxattr(const char* path, char* list, std::size_t bytes) noexcept {
    return call_with<ssize_t>(AT_FDCWD, path, false,
                              [=](const char* found) { return next_llistxattr(found, list, bytes); });
}
