// stat() and its relatives, old and new: a node and everything that was opened through it is a character device with the
// numbers of a board.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sim/preload/library.h"
#include "sim/preload/next.h"
#include "sim/preload/own_calls.h"
#include "sim/preload/paths.h"

using namespace npu::sim;           // NOLINT(google-build-using-namespace)
using namespace npu::sim::preload;  // NOLINT(google-build-using-namespace)

namespace {

static_assert(sizeof(struct stat) == sizeof(struct stat64));

constinit Next<int(const char*, struct stat*)> next_stat("stat");
constinit Next<int(const char*, struct stat64*)> next_stat64("stat64");
constinit Next<int(const char*, struct stat*)> next_lstat("lstat");
constinit Next<int(const char*, struct stat64*)> next_lstat64("lstat64");
constinit Next<int(int, struct stat*)> next_fstat("fstat");
constinit Next<int(int, struct stat64*)> next_fstat64("fstat64");
constinit Next<int(int, const char*, struct stat*, int)> next_fstatat("fstatat");
constinit Next<int(int, const char*, struct stat64*, int)> next_fstatat64("fstatat64");
constinit Next<int(int, const char*, int, unsigned, struct statx*)> next_statx("statx");
constinit Next<int(int, const char*, struct stat*)> next_xstat("__xstat");
constinit Next<int(int, const char*, struct stat64*)> next_xstat64("__xstat64");
constinit Next<int(int, const char*, struct stat*)> next_lxstat("__lxstat");
constinit Next<int(int, const char*, struct stat64*)> next_lxstat64("__lxstat64");
constinit Next<int(int, int, struct stat*)> next_fxstat("__fxstat");
constinit Next<int(int, int, struct stat64*)> next_fxstat64("__fxstat64");
constinit Next<int(int, int, const char*, struct stat*, int)> next_fxstatat("__fxstatat");
constinit Next<int(int, int, const char*, struct stat64*, int)> next_fxstatat64("__fxstatat64");

constexpr unsigned device_mode = S_IFCHR | 0666;

template <typename Status>
void show_device(Status& status, const DeviceNode& node) {
    status.st_mode = device_mode;
    status.st_rdev = makedev(node.major, node.minor);
    status.st_size = 0;
    status.st_blocks = 0;
}

void show_device(struct statx& status, const DeviceNode& node) {
    status.stx_mode = device_mode;
    status.stx_rdev_major = node.major;
    status.stx_rdev_minor = node.minor;
    status.stx_size = 0;
    status.stx_blocks = 0;
}

template <typename Status, typename Call>
[[gnu::noinline]] int stat_place(int directory, const char* path, bool follow, Status* status, Call call) {
    Place place;
    find_place(directory, path, follow, place);
    const int answer = call(place.path_or(path));
    if (answer == 0 && place.where == Where::node) {
        show_device(*status, *place.node);
    }
    return answer;
}

// The node behind a descriptor: opened as a device, or only as a name (O_PATH).
const DeviceNode* node_behind(int fd, bool& opened) {
    Library* library = Library::get_if_made();
    if (library == nullptr) {
        return nullptr;
    }
    if (const auto found = library->files().find(fd)) {
        opened = true;
        return found->node;
    }
    struct stat status {};
    return !library->root_if_made().empty() && raw::fstat(fd, &status) == 0 ? library->node_of(status) : nullptr;
}

// `by_path` asks about a path, `by_descriptor` about the descriptor.
template <typename Status, typename ByPath, typename ByDescriptor>
int stat_descriptor(int fd, Status* status, ByPath by_path, ByDescriptor by_descriptor) {
    bool opened = false;
    const DeviceNode* node = node_behind(fd, opened);
    if (node == nullptr) {
        return by_descriptor();
    }
    const int answer = opened ? by_path((Library::get().root() + node->path).c_str()) : by_descriptor();
    if (answer == 0) {
        show_device(*status, *node);
    }
    return answer;
}

template <typename Status, typename Call>
int stat_with(int directory, const char* path, bool follow, Status* status, Call call) {
    return may_be_simulated(directory, path) ? stat_place(directory, path, follow, status, call) : call(path);
}

template <typename Status, typename Call>
int stat_at(int directory, const char* path, int flags, Status* status, Call call) {
    if (path != nullptr && path[0] == '\0' && (flags & AT_EMPTY_PATH) != 0 && directory != AT_FDCWD) {
        return stat_descriptor(directory, status, call, [&] { return call(path); });
    }
    return stat_with(directory, path, (flags & AT_SYMLINK_NOFOLLOW) == 0, status, call);
}

}  // namespace

NPU_INTERPOSE int stat(const char* path, struct stat* status) {
    return stat_with(AT_FDCWD, path, true, status, [=](const char* found) { return next_stat(found, status); });
}

NPU_INTERPOSE int stat64(const char* path, struct stat64* status) {
    return stat_with(AT_FDCWD, path, true, status, [=](const char* found) { return next_stat64(found, status); });
}

NPU_INTERPOSE int lstat(const char* path, struct stat* status) {
    return stat_with(AT_FDCWD, path, false, status, [=](const char* found) { return next_lstat(found, status); });
}

NPU_INTERPOSE int lstat64(const char* path, struct stat64* status) {
    return stat_with(AT_FDCWD, path, false, status, [=](const char* found) { return next_lstat64(found, status); });
}

NPU_INTERPOSE int fstat(int fd, struct stat* status) {
    return stat_descriptor(
        fd, status, [=](const char* path) { return next_stat(path, status); }, [=] { return next_fstat(fd, status); });
}

NPU_INTERPOSE int fstat64(int fd, struct stat64* status) {
    return stat_descriptor(
        fd, status, [=](const char* path) { return next_stat64(path, status); },
        [=] { return next_fstat64(fd, status); });
}

NPU_INTERPOSE int fstatat(int directory, const char* path, struct stat* status, int flags) {
    return stat_at(directory, path, flags, status,
                   [=](const char* found) { return next_fstatat(directory, found, status, flags); });
}

NPU_INTERPOSE int fstatat64(int directory, const char* path, struct stat64* status, int flags) {
    return stat_at(directory, path, flags, status,
                   [=](const char* found) { return next_fstatat64(directory, found, status, flags); });
}

NPU_INTERPOSE int statx(int directory, const char* path, int flags, unsigned mask, struct statx* status) {
    return stat_at(directory, path, flags, status,
                   [=](const char* found) { return next_statx(directory, found, flags, mask, status); });
}

// Programs that were built against a C library before 2.33 call these; the first argument is the struct's version.
NPU_INTERPOSE int __xstat(int version, const char* path, struct stat* status) {
    return stat_with(AT_FDCWD, path, true, status,
                     [=](const char* found) { return next_xstat(version, found, status); });
}

NPU_INTERPOSE int __xstat64(int version, const char* path, struct stat64* status) {
    return stat_with(AT_FDCWD, path, true, status,
                     [=](const char* found) { return next_xstat64(version, found, status); });
}

NPU_INTERPOSE int __lxstat(int version, const char* path, struct stat* status) {
    return stat_with(AT_FDCWD, path, false, status,
                     [=](const char* found) { return next_lxstat(version, found, status); });
}

NPU_INTERPOSE int __lxstat64(int version, const char* path, struct stat64* status) {
    return stat_with(AT_FDCWD, path, false, status,
                     [=](const char* found) { return next_lxstat64(version, found, status); });
}

NPU_INTERPOSE int __fxstat(int version, int fd, struct stat* status) {
    return stat_descriptor(
        fd, status, [=](const char* path) { return next_xstat(version, path, status); },
        [=] { return next_fxstat(version, fd, status); });
}

NPU_INTERPOSE int __fxstat64(int version, int fd, struct stat64* status) {
    return stat_descriptor(
        fd, status, [=](const char* path) { return next_xstat64(version, path, status); },
        [=] { return next_fxstat64(version, fd, status); });
}

NPU_INTERPOSE int __fxstatat(int version, int directory, const char* path, struct stat* status, int flags) {
    return stat_at(directory, path, flags, status,
                   [=](const char* found) { return next_fxstatat(version, directory, found, status, flags); });
}

NPU_INTERPOSE int __fxstatat64(int version, int directory, const char* path, struct stat64* status, int flags) {
    return stat_at(directory, path, flags, status,
                   [=](const char* found) { return next_fxstatat64(version, directory, found, status, flags); });
}
