// open() and its relatives, fopen() and its relatives, and close() and its relatives, of which dup2() is one.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>

#include "sim/preload/library.h"
#include "sim/preload/next.h"
#include "sim/preload/own_calls.h"
#include "sim/preload/paths.h"

using namespace npu::sim;           // NOLINT(google-build-using-namespace)
using namespace npu::sim::preload;  // NOLINT(google-build-using-namespace)

namespace {

constinit Next<int(const char*, int, ...)> next_open("open");
constinit Next<int(const char*, int, ...)> next_open64("open64");
constinit Next<int(int, const char*, int, ...)> next_openat("openat");
constinit Next<int(int, const char*, int, ...)> next_openat64("openat64");
constinit Next<int(const char*, int)> next_open_2("__open_2");
constinit Next<int(const char*, int)> next_open64_2("__open64_2");
constinit Next<int(int, const char*, int)> next_openat_2("__openat_2");
constinit Next<int(int, const char*, int)> next_openat64_2("__openat64_2");
constinit Next<FILE*(const char*, const char*)> next_fopen("fopen");
constinit Next<FILE*(const char*, const char*)> next_fopen64("fopen64");
constinit Next<FILE*(const char*, const char*, FILE*)> next_freopen("freopen");
constinit Next<FILE*(const char*, const char*, FILE*)> next_freopen64("freopen64");
constinit Next<int(int)> next_close("close");
constinit Next<int(unsigned, unsigned, int)> next_close_range("close_range");
constinit Next<int(int, int)> next_dup2("dup2");
constinit Next<int(int, int, int)> next_dup3("dup3");

int open_node(const DeviceNode& node, int flags) {
    if ((flags & O_DIRECTORY) != 0) {
        errno = ENOTDIR;
        return -1;
    }
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
        errno = EEXIST;
        return -1;
    }
    return Library::get().open_device(node, flags);
}

// Apart, so that most calls do not pay for the stack.
template <typename Call>
[[gnu::noinline]] int open_place(int directory, const char* path, int flags, Call call) {
    Place place;
    find_place(directory, path, (flags & O_NOFOLLOW) == 0, place);
    if (place.where == Where::node && (flags & O_PATH) == 0) {
        return open_node(*place.node, flags);
    }
    return call(place.path_or(path));
}

template <typename Call>
int open_with(int directory, const char* path, int flags, Call call) {
    return may_be_simulated(directory, path) ? open_place(directory, path, flags, call) : call(path);
}

// The third argument is there only if the flags say so; zero is as good otherwise.
unsigned mode_from(int flags, va_list arguments) {
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, unsigned) : 0;
}

#define NPU_READ_MODE(flags)                     \
    va_list arguments;                           \
    va_start(arguments, flags);                  \
    unsigned mode = mode_from(flags, arguments); \
    va_end(arguments)

FILE* open_stream(const DeviceNode& node, const char* mode) {
    int flags = mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    for (const char* letter = mode; *letter != '\0' && *letter != ','; ++letter) {
        flags = *letter == '+' ? (flags & ~O_ACCMODE) | O_RDWR : flags;
        flags |= *letter == 'e' ? O_CLOEXEC : 0;
    }
    const int fd = open_node(node, flags);
    return fd >= 0 ? ::fdopen(fd, mode) : nullptr;
}

template <typename Call>
[[gnu::noinline]] FILE* open_stream_place(const char* path, const char* mode, Call call) {
    Place place;
    find_place(AT_FDCWD, path, true, place);
    return place.where == Where::node ? open_stream(*place.node, mode) : call(place.path_or(path));
}

template <typename Call>
FILE* open_stream_with(const char* path, const char* mode, Call call) {
    return may_be_simulated(AT_FDCWD, path) ? open_stream_place(path, mode, call) : call(path);
}

// A stream that is opened anew stays a file; a node in its place has no use.
template <typename Call>
[[gnu::noinline]] FILE* reopen_place(const char* path, Call call) {
    Place place;
    find_place(AT_FDCWD, path, true, place);
    return call(place.path_or(path));
}

// Notes what a descriptor was before it is closed, and lets go of that afterwards. A descriptor of something else is of no
// interest: so close() stays safe in signal handlers.
class Closing {
  public:
    explicit Closing(int fd) {
        Library* library = Library::get_if_made();
        if (library != nullptr && !library->files().empty()) {
            const auto found = library->files().find(fd);
            was_device_ = found && found->node != nullptr;
            was_buffer_ = found && found->node == nullptr;
        }
    }
    ~Closing() {
        if (was_device_) {
            Library::get().files().release_closed_devices();
        }
        if (was_buffer_ && Library::get().is_this_process()) {
            Library::get().files().release_closed_buffers();
        }
    }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;

  private:
    bool was_device_ = false;
    bool was_buffer_ = false;
};

}  // namespace

NPU_INTERPOSE int open(const char* path, int flags, ...) {
    NPU_READ_MODE(flags);
    return open_with(AT_FDCWD, path, flags, [=](const char* found) { return next_open(found, flags, mode); });
}

NPU_INTERPOSE int open64(const char* path, int flags, ...) {
    NPU_READ_MODE(flags);
    return open_with(AT_FDCWD, path, flags, [=](const char* found) { return next_open64(found, flags, mode); });
}

NPU_INTERPOSE int openat(int directory, const char* path, int flags, ...) {
    NPU_READ_MODE(flags);
    return open_with(directory, path, flags,
                     [=](const char* found) { return next_openat(directory, found, flags, mode); });
}

NPU_INTERPOSE int openat64(int directory, const char* path, int flags, ...) {
    NPU_READ_MODE(flags);
    return open_with(directory, path, flags,
                     [=](const char* found) { return next_openat64(directory, found, flags, mode); });
}

// What the compiler calls instead when it checks that no mode is missing.
NPU_INTERPOSE int __open_2(const char* path, int flags) {
    return open_with(AT_FDCWD, path, flags, [=](const char* found) { return next_open_2(found, flags); });
}

NPU_INTERPOSE int __open64_2(const char* path, int flags) {
    return open_with(AT_FDCWD, path, flags, [=](const char* found) { return next_open64_2(found, flags); });
}

NPU_INTERPOSE int __openat_2(int directory, const char* path, int flags) {
    return open_with(directory, path, flags, [=](const char* found) { return next_openat_2(directory, found, flags); });
}

NPU_INTERPOSE int __openat64_2(int directory, const char* path, int flags) {
    return open_with(directory, path, flags,
                     [=](const char* found) { return next_openat64_2(directory, found, flags); });
}

NPU_INTERPOSE FILE* fopen(const char* path, const char* mode) {
    return open_stream_with(path, mode, [=](const char* found) { return next_fopen(found, mode); });
}

NPU_INTERPOSE FILE* fopen64(const char* path, const char* mode) {
    return open_stream_with(path, mode, [=](const char* found) { return next_fopen64(found, mode); });
}

NPU_INTERPOSE FILE* freopen(const char* path, const char* mode, FILE* stream) {
    return reopen_place(path, [=](const char* found) { return next_freopen(found, mode, stream); });
}

NPU_INTERPOSE FILE* freopen64(const char* path, const char* mode, FILE* stream) {
    return reopen_place(path, [=](const char* found) { return next_freopen64(found, mode, stream); });
}

NPU_INTERPOSE int close(int fd) {
    if (is_own_descriptor(fd)) {  // the program closes numbers that it never got
        errno = EBADF;
        return -1;
    }
    const Closing closing(fd);
    return next_close(fd);
}

NPU_INTERPOSE int dup2(int fd, int number) noexcept {
    const Closing closing(fd != number ? number : -1);
    return next_dup2(fd, number);
}

NPU_INTERPOSE int dup3(int fd, int number, int flags) noexcept {
    const Closing closing(fd != number ? number : -1);
    return next_dup3(fd, number, flags);
}

// Goes around the library's own descriptors.
NPU_INTERPOSE int close_range(unsigned first, unsigned last, int flags) {
    int answer = 0;
    unsigned begin = first;
    for (unsigned fd = first; fd <= last && fd < most_descriptors; ++fd) {
        if (is_own_descriptor(static_cast<int>(fd))) {
            if (begin < fd) {
                answer = next_close_range(begin, fd - 1, flags);
            }
            begin = fd + 1;
        }
    }
    if (begin <= last) {
        answer = next_close_range(begin, last, flags);
    }
    Library* library = Library::get_if_made();
    if (library != nullptr && !library->files().empty() && library->is_this_process()) {
        library->files().release_closed_devices();
        library->files().release_closed_buffers();
    }
    return answer;
}

NPU_INTERPOSE void closefrom(int first) { close_range(static_cast<unsigned>(first < 0 ? 0 : first), UINT_MAX, 0); }
