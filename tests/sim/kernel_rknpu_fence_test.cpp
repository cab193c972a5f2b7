// The simulated rknpu driver: fences, and signals in waits.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "sim/kernel_client.h"

namespace npu::sim::test::vendor {
namespace {

class RknpuFences : public GatedFixture {};

TEST_F(RknpuFences, NonblockReturnsAtOnceAndTheFenceSignalsAtTheEnd) {
    Job job(client, 2);
    auto arguments = job.arguments(1, nonblock | rknpu::job_fence_out);
    ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
    const int fence = arguments.fence_fd;
    ASSERT_GE(fence, 0);
    EXPECT_FALSE(kernel.owns(fence)) << "an ordinary descriptor";
    EXPECT_EQ(::fcntl(fence, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    gate.enter();
    EXPECT_FALSE(signalled(fence));
    EXPECT_EQ(arguments.task_counter, 0U) << "nothing comes back of a NONBLOCK job";
    gate.open();
    wait_for(fence);
    EXPECT_TRUE(job.right(0) && job.right(1));
    EXPECT_EQ(job.task(1).int_status, 0U) << "the driver writes it for blocking jobs only";
    ::close(fence);
    EXPECT_TRUE(kernel.findings().empty()) << list_findings(kernel.findings());
}

TEST_F(RknpuFences, ABlockingJobSignalsItsFenceToo) {
    gate.open();
    Job job(client, 1);
    int fence = -1;
    ASSERT_EQ(submit_with_fence(job, 1, fence, 0), 0);
    EXPECT_TRUE(signalled(fence));
    ::close(fence);
    job.make_endless();
    ASSERT_EQ(submit_with_fence(job, 1, fence, 0), ETIMEDOUT);
    EXPECT_FALSE(signalled(fence)) << "a failed job's never does";
    ::close(fence);
}

TEST_F(RknpuFences, AFenceInIsWaitedFor) {
    Job first(client, 1);
    Job second(client, 1, 2);
    int fence = -1;
    ASSERT_EQ(submit_with_fence(first, 1, fence), 0);
    gate.enter();
    std::thread waiter([&, behind = ::dup(fence)]() mutable {
        const int original = behind;
        EXPECT_EQ(submit_behind_fence(second, 2, behind), 0) << "a duplicate is as good";
        EXPECT_EQ(behind, -1) << "the driver has taken it";
        ::close(original);
    });
    EXPECT_TRUE(second.untouched(0));
    gate.open();
    waiter.join();
    EXPECT_TRUE(second.right(0));
    EXPECT_EQ(submit_behind_fence(second, 2, fence), 0) << "one that has signalled";
    EXPECT_TRUE(kernel.findings().empty()) << list_findings(kernel.findings());
}

TEST_F(RknpuFences, AFenceInMustBeOneOfTheKernels) {
    Job job(client, 1);
    int pipe_ends[2];
    ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
    RknpuKernel other(quiet());
    Client stranger(other);
    Job foreign(stranger, 1);
    int foreign_fence = -1;
    ASSERT_EQ(submit_with_fence(foreign, 1, foreign_fence), 0);
    for (int fence : {-1, 12345, pipe_ends[0], foreign_fence}) {
        EXPECT_EQ(submit_behind_fence(job, 1, fence), EINVAL) << fence;
    }
    EXPECT_EQ(kernel.statistics().submissions, 0U);
    for (const int fd : {pipe_ends[0], pipe_ends[1], foreign_fence}) {
        ::close(fd);
    }
}

TEST_F(RknpuFences, AFenceInThatNeverSignalsIsNotWaitedForForever) {
    gate.open();
    Job endless(client, 1);
    endless.make_endless();
    Job job(client, 1, 2);
    int fence = -1;
    ASSERT_EQ(submit_with_fence(endless, 1, fence), 0);
    EXPECT_EQ(submit_behind_fence(job, 2, fence), 0);
    EXPECT_TRUE(job.right(0));
    EXPECT_TRUE(found(Severity::corrupt, {"FENCE_IN did not signal", "all the same"}));
}

TEST_F(RknpuFences, AFenceOfAJobBehindAnEndlessOneNeverSignalsAndIsNotWaitedForEither) {
    gate.open();
    Job endless(client, 1);
    endless.make_endless();
    Job job(client, 1, 2);
    for (const std::uint32_t mask : {1U, 2U, 4U}) {
        ASSERT_EQ(endless.submit(mask, nonblock), 0);
    }
    kernel.drain();
    int fence = -1;
    ASSERT_EQ(submit_with_fence(job, 0, fence), 0) << "without a mask nothing is cleared, and no core is free";
    Job waiter(client, 1, 3);
    EXPECT_EQ(submit_behind_fence(waiter, 7, fence), ETIMEDOUT) << "behind the endless jobs itself";
    EXPECT_TRUE(found(Severity::corrupt, {"FENCE_IN did not signal"}));
    EXPECT_TRUE(job.untouched(0));
}

// The thread's next signal arrives in a wait, or right before one; either way the wait must end.
TEST_F(RknpuFences, ASignalEndsTheWaitForAFenceInAndNoOther) {
    static std::atomic<int> handled;
    handled = 0;
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) { ++handled; };  // without SA_RESTART
    ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
    Job first(client, 1);
    Job second(client, 1, 2);
    int fence = -1;
    ASSERT_EQ(submit_with_fence(first, 1, fence), 0);
    gate.enter();
    std::atomic<bool> over{false};
    const auto keep_signalling = [&](std::thread& thread, auto until) {
        while (!until()) {
            pthread_kill(thread.native_handle(), SIGUSR1);
            std::this_thread::yield();
        }
    };
    std::thread waiter([&] {
        int in = fence;
        EXPECT_EQ(submit_behind_fence(second, 2, in), EINTR);
        over = true;
        while (over) {  // signals may still come
            std::this_thread::yield();
        }
    });
    keep_signalling(waiter, [&] { return over.load(); });
    over = false;
    waiter.join();
    EXPECT_TRUE(second.untouched(0));

    // A blocking SUBMIT is uninterruptible: signals are handled and it goes on.
    std::thread blocked([&] {
        EXPECT_EQ(second.submit(1), 0);
        over = true;
        while (over) {
            std::this_thread::yield();
        }
    });
    const int seen = handled;
    keep_signalling(blocked, [&] { return handled > seen + 3; });
    gate.open();
    keep_signalling(blocked, [&] { return over.load(); });
    over = false;
    blocked.join();
    EXPECT_TRUE(second.right(0));
    ::close(fence);
    ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace npu::sim::test::vendor
