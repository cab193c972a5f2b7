// What threads and poll() wait for: ends, deadlines, signals, fence files.
#include "sim/completion.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace npu::sim {
namespace {

using Clock = Completion::Clock;
using namespace std::chrono_literals;

bool readable(int fd) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1 && entry.revents == POLLIN;
}

TEST(Completion, IsSeenByEverybodyOnceItHappened) {
    Completion completion;
    EXPECT_FALSE(completion.signalled());
    completion.signal();
    completion.signal();
    EXPECT_TRUE(completion.signalled());
    EXPECT_EQ(completion.wait(), WaitResult::done);
    EXPECT_EQ(completion.wait(Clock::time_point::min()), WaitResult::done) << "also after the deadline";
}

TEST(Completion, IsOnlyLookedAtWhenTheDeadlineHasPassed) {
    const Completion completion;
    EXPECT_EQ(completion.wait(Clock::time_point::min()), WaitResult::timed_out);
    EXPECT_EQ(completion.wait(Clock::time_point{}), WaitResult::timed_out);
    EXPECT_EQ(completion.wait(Clock::now() - 1ns), WaitResult::timed_out);
    const auto deadline = Clock::now() + 5ms;
    EXPECT_EQ(completion.wait(deadline), WaitResult::timed_out);
    EXPECT_GE(Clock::now(), deadline);
}

TEST(Completion, WakesEveryThreadThatWaits) {
    for (const auto deadline : {std::optional<Clock::time_point>{}, std::optional(Clock::time_point::max())}) {
        Completion completion;
        std::atomic<int> done{0};
        std::atomic<int> about_to_wait{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&] {
                ++about_to_wait;
                done += completion.wait(deadline) == WaitResult::done ? 1 : 0;
            });
        }
        while (about_to_wait != 4) {
            std::this_thread::yield();
        }
        EXPECT_EQ(done, 0);
        completion.signal();
        for (std::thread& thread : threads) {
            thread.join();
        }
        EXPECT_EQ(done, 4);
    }
}

TEST(Completion, IsNeverMissedBetweenLookAndWait) {
    for (int round = 0; round < 500; ++round) {
        Completion completion;
        std::thread thread([&] { EXPECT_EQ(completion.wait(), WaitResult::done); });
        completion.signal();
        thread.join();
    }
}

std::atomic<int> handled{0};

// Sends signals to a waiting thread until it returns, at most `enough`; then calls `release`.
WaitResult wait_under_signals(const Completion& completion, std::optional<Clock::time_point> deadline, int flags,
                              int enough, const std::function<void()>& release) {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) { ++handled; };
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, &before);
    handled = 0;
    std::atomic<bool> returned{false};
    WaitResult result{};
    std::thread waiter([&] {
        result = completion.wait(deadline);
        returned = true;
    });
    for (int sent = 0; !returned && sent < enough; ++sent) {
        pthread_kill(waiter.native_handle(), SIGUSR1);
        std::this_thread::yield();
    }
    release();
    waiter.join();
    sigaction(SIGUSR1, &before, nullptr);
    return result;
}

TEST(Completion, EndsAWaitOnASignalUnlessItsHandlerAsksToGoOn) {
    for (const auto deadline : {std::optional<Clock::time_point>{}, std::optional(Clock::now() + 24h)}) {
        Completion completion;
        EXPECT_EQ(wait_under_signals(completion, deadline, 0, std::numeric_limits<int>::max(), [] {}),
                  WaitResult::interrupted);
        EXPECT_EQ(wait_under_signals(completion, deadline, SA_RESTART, 2000, [&] { completion.signal(); }),
                  WaitResult::done);
        EXPECT_GT(handled, 0);
    }
}

TEST(Completion, MakesFenceFilesThatBecomeReadable) {
    Completion completion;
    const int early = completion.duplicate_descriptor();
    const int second = completion.duplicate_descriptor();
    ASSERT_GE(early, 0);
    EXPECT_NE(early, second);
    EXPECT_NE(::fcntl(early, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_FALSE(readable(early));
    completion.signal();
    EXPECT_TRUE(readable(early));
    EXPECT_TRUE(readable(second)) << "reading one is not needed";
    const int late = completion.duplicate_descriptor();
    EXPECT_TRUE(readable(late));
    ::close(early);
    EXPECT_TRUE(readable(late));
    ::close(second);
    ::close(late);

    Completion happened;
    happened.signal();
    const int after = happened.duplicate_descriptor();
    EXPECT_TRUE(readable(after));
    ::close(after);
}

TEST(Completion, OutlivesItself) {
    int fence = -1;
    {
        Completion completion;
        fence = completion.duplicate_descriptor();
        completion.signal();
    }
    EXPECT_TRUE(readable(fence));
    ::close(fence);
}

// Runs `work` in a process that may open no further descriptor.
template <typename Work>
void without_descriptors(Work work) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    work();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Completion, WaitsAlsoWhenTheProcessHasNoDescriptorsLeft) {
    without_descriptors([] {
        Completion completion;
        EXPECT_EQ(completion.duplicate_descriptor(), -1);
        EXPECT_EQ(completion.wait(Clock::now() + 2ms), WaitResult::timed_out);
        std::thread thread([&] { EXPECT_EQ(completion.wait(), WaitResult::done); });
        completion.signal();
        thread.join();
    });
}

}  // namespace
}  // namespace npu::sim
