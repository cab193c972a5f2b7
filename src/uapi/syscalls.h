// The seam between our driver clients and a kernel: five system calls and nothing else. The clients above it
// are the same whether a real driver answers (LibcSyscalls) or the simulated kernel does. Like the calls they
// stand for, these return -1 (or MAP_FAILED) and set errno on failure.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace npu::uapi {

class Syscalls {
  public:
    virtual ~Syscalls() = default;
    virtual int open(const char* path, int flags) = 0;
    virtual int ioctl(int fd, unsigned long request, void* argument) = 0;
    virtual void* mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) = 0;
    virtual int munmap(void* address, std::size_t length) = 0;
    virtual int close(int fd) = 0;
};

// The calls of the C library. Stateless; shared by the whole process.
Syscalls& libc_syscalls();

}  // namespace npu::uapi
