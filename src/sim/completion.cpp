#include "sim/completion.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace npu::sim {

Completion::Completion() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Completion::~Completion() { ::close(descriptor_); }

void Completion::signal() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(descriptor_, &one, sizeof one);
}

bool Completion::signalled() const {
    pollfd entry{.fd = descriptor_, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
}

WaitResult Completion::wait(std::optional<Clock::time_point> deadline) const {
    for (;;) {
        timespec limit{};
        if (deadline) {
            const auto left = std::max(Clock::duration::zero(), *deadline - Clock::now());
            const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
            limit.tv_sec = static_cast<time_t>(std::min<std::int64_t>(seconds.count(), 1'000'000));
            limit.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(left - seconds).count();
        }
        pollfd entry{.fd = descriptor_, .events = POLLIN, .revents = 0};
        const int ready = ::ppoll(&entry, 1, deadline ? &limit : nullptr, nullptr);
        if (ready == 1) {
            return WaitResult::done;
        }
        if (ready < 0) {
            return WaitResult::interrupted;
        }
        if (deadline && Clock::now() >= *deadline) {
            return WaitResult::timed_out;
        }
    }
}

int Completion::duplicate_descriptor() const { return ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0); }

}  // namespace npu::sim
