#include "sim/completion.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace npu::sim {

namespace {

constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;

// Expires at once; a zero time would disarm the timer.
void expire(int timer) {
    itimerspec now{};
    now.it_value.tv_nsec = 1;
    timerfd_settime(timer, 0, &now, nullptr);
}

void expire_at(int timer, Completion::Clock::time_point deadline) {
    const std::int64_t left = std::chrono::nanoseconds(deadline.time_since_epoch()).count();
    itimerspec then{};
    then.it_value.tv_sec = static_cast<time_t>(left / nanoseconds_per_second);
    then.it_value.tv_nsec = left % nanoseconds_per_second;
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &then, nullptr);
}

void write_event(int descriptor) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(descriptor, &one, sizeof one);
}

}  // namespace

// The timer of one waiting thread. Made and destroyed without the lock, known to signal() in between.
class Completion::Waiter {
  public:
    explicit Waiter(const Completion& completion)
        : completion_(completion), timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {}
    ~Waiter() {
        {
            const std::lock_guard lock(completion_.mutex_);
            std::erase(completion_.timers_, timer_);
        }
        if (timer_ >= 0) {
            ::close(timer_);
        }
    }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    WaitResult wait(std::optional<Clock::time_point> deadline) {
        if (timer_ < 0) {
            return wait_uninterrupted(deadline);
        }
        if (deadline) {
            expire_at(timer_, *deadline);
        }
        {
            const std::lock_guard lock(completion_.mutex_);
            if (completion_.signalled_) {
                return WaitResult::done;
            }
            completion_.timers_.push_back(timer_);
        }
        std::uint64_t expirations = 0;
        const bool interrupted = ::read(timer_, &expirations, sizeof expirations) < 0 && errno == EINTR;
        if (completion_.signalled()) {
            return WaitResult::done;
        }
        if (interrupted) {
            return WaitResult::interrupted;
        }
        return wait_uninterrupted(deadline);  // over at once, unless somebody else closed the descriptor
    }

  private:
    WaitResult wait_uninterrupted(std::optional<Clock::time_point> deadline) const {
        std::unique_lock lock(completion_.mutex_);
        const auto happened = [this] { return completion_.signalled_; };
        if (!deadline) {
            completion_.happened_.wait(lock, happened);
            return WaitResult::done;
        }
        return completion_.happened_.wait_until(lock, *deadline, happened) ? WaitResult::done : WaitResult::timed_out;
    }

    const Completion& completion_;
    const int timer_;
};

Completion::~Completion() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
}

void Completion::signal() {
    const std::lock_guard lock(mutex_);
    signalled_ = true;
    std::ranges::for_each(timers_, expire);
    happened_.notify_all();
    if (descriptor_ >= 0) {
        write_event(descriptor_);
    }
}

bool Completion::signalled() const {
    const std::lock_guard lock(mutex_);
    return signalled_;
}

WaitResult Completion::wait(std::optional<Clock::time_point> deadline) const {
    if (signalled()) {
        return WaitResult::done;
    }
    if (deadline && *deadline <= Clock::now()) {
        return WaitResult::timed_out;
    }
    return Waiter(*this).wait(deadline);
}

int Completion::duplicate_descriptor() const {
    const std::lock_guard lock(mutex_);
    if (descriptor_ < 0) {
        descriptor_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (descriptor_ >= 0 && signalled_) {
            write_event(descriptor_);
        }
    }
    return descriptor_ < 0 ? -1 : ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
}

}  // namespace npu::sim
