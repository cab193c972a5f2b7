// A file descriptor that is closed at the end of a scope.
#pragma once

#include <unistd.h>

#include <utility>

namespace npu {

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}  // below zero: none
    ~Descriptor() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] bool ok() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

}  // namespace npu
