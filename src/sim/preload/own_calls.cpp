#include "sim/preload/own_calls.h"

#include <linux/memfd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>

#include "sim/preload/next.h"

namespace npu::sim::preload {

namespace {

// One bit per descriptor.
constinit std::array<std::atomic<std::uint64_t>, most_descriptors / 64> own{};

bool in_range(int fd) { return fd >= 0 && fd < most_descriptors; }

void forget_descriptor(int fd) {
    if (in_range(fd)) {
        own[static_cast<std::size_t>(fd / 64)].fetch_and(~(std::uint64_t{1} << (fd % 64)));
    }
}

// The limit on descriptors is one on their numbers, looked at when a descriptor is made. So while it is raised, one can be
// made beyond the program's limit, and takes nothing from what the program may open.
int duplicate_beyond_limit(int fd) {
    constexpr rlim_t most = most_descriptors / 2;  // every fork copies a table of this size
    static constinit std::atomic_flag busy{};
    if (busy.test_and_set()) {
        return -EBUSY;
    }
    rlimit limit{};
    int high = -EMFILE;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        const bool changed = limit.rlim_cur < most && setrlimit(RLIMIT_NOFILE, &raised) == 0;
        high = raw::duplicate(fd, static_cast<int>(std::min(limit.rlim_cur, most)));
        if (changed) {
            setrlimit(RLIMIT_NOFILE, &limit);
        }
    }
    busy.clear();
    return high;
}

// The same where the limit cannot be raised: in the upper half.
int duplicate_below_limit(int fd) {
    rlimit limit{};
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? raw::duplicate(fd, static_cast<int>(limit.rlim_cur / 2)) : -EMFILE;
}

long result(long answer) { return answer < 0 ? -errno : answer; }

int with_errno(int answer) {
    if (answer >= 0) {
        return answer;
    }
    errno = -answer;
    return -1;
}

}  // namespace

namespace raw {

int close(int fd) { return static_cast<int>(result(syscall(SYS_close, fd))); }

int fstat(int fd, struct stat* status) { return stat(fd, "", status, AT_EMPTY_PATH); }

int stat(int directory, const char* path, struct stat* status, int flags) {
    return static_cast<int>(result(syscall(SYS_newfstatat, directory, path, status, flags)));
}

int open(int directory, const char* path, int flags, unsigned mode) {
    return static_cast<int>(result(syscall(SYS_openat, directory, path, flags, mode)));
}

int poll(pollfd* entries, std::size_t count) {
    timespec none{};
    return static_cast<int>(result(syscall(SYS_ppoll, entries, count, &none, nullptr, 0)));
}

int readlink(const char* path, char* to, int bytes) {
    return static_cast<int>(result(syscall(SYS_readlinkat, AT_FDCWD, path, to, bytes)));
}

int getcwd(char* to, std::size_t bytes) { return static_cast<int>(result(syscall(SYS_getcwd, to, bytes))); }

int getpid() { return static_cast<int>(syscall(SYS_getpid)); }

int duplicate(int fd, int lowest) { return static_cast<int>(result(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest))); }

}  // namespace raw

SignalsBlocked::SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

NotCancelled::NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }

NotCancelled::~NotCancelled() { pthread_setcancelstate(before_, nullptr); }

bool is_own_descriptor(int fd) {
    return in_range(fd) && (own[static_cast<std::size_t>(fd / 64)].load() >> (fd % 64) & 1) != 0;
}

void adopt_descriptor(int fd) {
    if (in_range(fd)) {
        own[static_cast<std::size_t>(fd / 64)].fetch_or(std::uint64_t{1} << (fd % 64));
    }
}

int keep_descriptor(int fd) {
    if (fd < 0) {
        return fd;
    }
    int high = duplicate_beyond_limit(fd);
    if (high < 0) {
        high = duplicate_below_limit(fd);
    }
    if (high >= 0) {
        raw::close(fd);
        fd = high;
    }
    adopt_descriptor(fd);
    return fd;
}

void close_own_descriptors() {
    for (std::size_t word = 0; word < own.size(); ++word) {
        const std::uint64_t bits = own[word].exchange(0);
        for (int bit = 0; bits >> bit != 0; ++bit) {
            if ((bits >> bit & 1) != 0) {
                raw::close(static_cast<int>(word) * 64 + bit);
            }
            if (bit == 63) {
                break;
            }
        }
    }
}

}  // namespace npu::sim::preload

// What the linker gives to the library's own code under these names. Only those stand here that some of it calls; a
// missing one is an error when the library is linked.
using namespace npu::sim::preload;  // NOLINT(google-build-using-namespace)

extern "C" {

int __wrap_open(const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const unsigned mode = va_arg(arguments, unsigned);  // read by the system call only if a file is created
    va_end(arguments);
    return with_errno(keep_descriptor(raw::open(AT_FDCWD, path, flags, mode)));
}

int __wrap_close(int fd) {
    forget_descriptor(fd);
    return with_errno(raw::close(fd));
}

void* __wrap_mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) {
    return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}

int __wrap_munmap(void* address, std::size_t length) { return static_cast<int>(syscall(SYS_munmap, address, length)); }

int __wrap_ioctl(int fd, unsigned long request, void* argument) {
    return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
}

ssize_t __wrap_readlink(const char* path, char* to, std::size_t bytes) {
    return with_errno(raw::readlink(path, to, static_cast<int>(bytes)));
}

int __wrap_fstat(int fd, struct stat* status) { return with_errno(raw::fstat(fd, status)); }

int __wrap_stat(const char* path, struct stat* status) { return with_errno(raw::stat(AT_FDCWD, path, status, 0)); }

int __wrap_lstat(const char* path, struct stat* status) {
    return with_errno(raw::stat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW));
}

// The following are not interposed; they are here because their descriptors are the library's.
int __wrap_memfd_create(const char* name, unsigned flags) {
    return with_errno(keep_descriptor(static_cast<int>(result(syscall(SYS_memfd_create, name, flags)))));
}

int __wrap_eventfd(unsigned value, int flags) {
    return with_errno(keep_descriptor(static_cast<int>(result(syscall(SYS_eventfd2, value, flags)))));
}

int __wrap_timerfd_create(int clock, int flags) {
    return with_errno(keep_descriptor(static_cast<int>(result(syscall(SYS_timerfd_create, clock, flags)))));
}

// Objects of the library are not destroyed at exit: threads of the program and cores of the simulated NPU may still use
// them then. What has to happen at the end is in library.cpp.
int __wrap___cxa_atexit(void (*)(void*), void*, void*) { return 0; }

// Threads of the library take no signals: a handler of the program would interrupt a core, and signals that the
// program waits for in a certain thread would be lost. Faults stay where they happen.
int __real_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
        sigdelset(&all, fault);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int answer = __real_pthread_create(thread, attributes, start, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return answer;
}

}  // extern "C"
