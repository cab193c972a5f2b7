// The library runs a kernel inside the program's process, and that kernel opens files, maps memory and starts threads
// like any other code. Two things keep the two apart:
//
// - Calls by the library's own code must not come back into it. The linker option --wrap sends every call of, say,
//   `open` that is compiled into the library to `__wrap_open` in own_calls.cpp, which makes the system call; only the
//   program's calls reach the exported `open`. No flag per thread is needed, so the kernel's own threads are covered.
// - Descriptors of the library must not get in the way of the program's: it may rely on getting the lowest free number, it
//   may open as many as its limit allows, and it may close every number that it did not open. So they are moved beyond
//   its limit, remembered, and hidden from close().
//
// The functions in `raw` are system calls without anything around them: safe in signal handlers, and before the C
// library is ready. They return what the system call returns: a negative errno on failure.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstddef>

namespace npu::sim::preload {

namespace raw {

int close(int fd);
int fstat(int fd, struct stat* status);
int stat(int directory, const char* path, struct stat* status, int flags);
int open(int directory, const char* path, int flags, unsigned mode = 0);
int poll(pollfd* entries, std::size_t count);         // returns at once
int readlink(const char* path, char* to, int bytes);  // bytes written, without a zero
int getcwd(char* to, std::size_t bytes);
int getpid();
// A copy of `fd` with a number of at least `lowest`, close-on-exec.
int duplicate(int fd, int lowest);

}  // namespace raw

// Blocks all signals of this thread while it exists.
class SignalsBlocked {
  public:
    SignalsBlocked();
    ~SignalsBlocked();
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

// pthread_cancel() does not end this thread while it exists. Calls that are no cancellation points stay that way, whatever
// the library does inside them.
class NotCancelled {
  public:
    NotCancelled();
    ~NotCancelled();
    NotCancelled(const NotCancelled&) = delete;
    NotCancelled& operator=(const NotCancelled&) = delete;

  private:
    int before_ = 0;
};

// Descriptors from this number on are not remembered.
inline constexpr int most_descriptors = 65536;

// True for a descriptor that the library holds for itself. Thread-safe, safe in signal handlers; so are the others.
bool is_own_descriptor(int fd);
// Moves `fd` to a high number and remembers it; keeps the number when there is no high one left. Passes errors through.
int keep_descriptor(int fd);
// Remembers `fd` under its number.
void adopt_descriptor(int fd);
// Closes everything that is_own_descriptor. For a forked child, which can do nothing with the parent's kernel.
void close_own_descriptors();

}  // namespace npu::sim::preload
