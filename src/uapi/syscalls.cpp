#include "uapi/syscalls.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace npu::uapi {

namespace {

class LibcSyscalls final : public Syscalls {
  public:
    int open(const char* path, int flags) override { return ::open(path, flags | O_CLOEXEC); }
    int ioctl(int fd, unsigned long request, void* argument) override { return ::ioctl(fd, request, argument); }
    void* mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) override {
        return ::mmap(address, length, protection, flags, fd, offset);
    }
    int munmap(void* address, std::size_t length) override { return ::munmap(address, length); }
    int close(int fd) override { return ::close(fd); }
};

}  // namespace

Syscalls& libc_syscalls() {
    static LibcSyscalls calls;
    return calls;
}

}  // namespace npu::uapi
