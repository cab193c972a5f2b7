// The simulated rocket driver through its system calls: waiting for jobs, signals, buffers that go while jobs run, cache
// synchronisation.
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "sim/rocket_client.h"

namespace npu::sim::test {
namespace {

constexpr std::int64_t milliseconds = 1'000'000;

class RocketWait : public RocketFixture {
  protected:
    ~RocketWait() override { gate.open(); }
};

TEST_F(RocketWait, AnswersAtOnceWhenTheBufferIsIdle) {
    RocketWork work(client, 1);
    for (const std::int64_t deadline : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, monotonic_now(),
                                        std::numeric_limits<std::int64_t>::min(), forever}) {
        EXPECT_EQ(client.prep(work.c.handle, deadline), 0) << deadline;
    }
}

TEST_F(RocketWait, KnowsBusyFromLate) {
    RocketWork work(client, 1);
    gate.shut();
    ASSERT_EQ(work.submit(), 0);
    gate.wait_until_held(1);
    EXPECT_EQ(client.prep(work.c.handle, 0), EBUSY);
    EXPECT_EQ(client.prep(work.c.handle, -1), EBUSY) << "a deadline that wrapped";
    EXPECT_EQ(client.prep(work.c.handle, std::numeric_limits<std::int64_t>::min()), EBUSY);
    EXPECT_EQ(client.prep(work.c.handle, 1), EBUSY) << "long past";
    EXPECT_EQ(client.prep(work.c.handle, monotonic_now() - 1), EBUSY);
    const std::int64_t before = monotonic_now();
    EXPECT_EQ(client.prep(work.c.handle, before + 20 * milliseconds), ETIMEDOUT);
    EXPECT_GE(monotonic_now(), before + 20 * milliseconds);
    for (const auto& buffer : {work.a, work.b, work.lists}) {
        EXPECT_EQ(client.prep(buffer.handle, 0), 0) << "what a job only reads is not waited for";
    }
    gate.open();
    EXPECT_EQ(client.prep(work.c.handle, forever), 0);
    EXPECT_TRUE(work.right(0));
    EXPECT_EQ(client.prep(work.c.handle, 0), 0);
}

TEST_F(RocketWait, WaitsForTheLastJobThatWritesTheBuffer) {
    RocketWork work(client, 1);
    gate.shut();
    ASSERT_EQ(work.submit(), 0);
    RocketWork other(client, 1, 2);
    ASSERT_EQ(other.submit(), 0);
    const rocket::Job job = work.job();
    ASSERT_EQ(client.submit(std::vector{job}), 0);
    gate.wait_until_held(1);
    EXPECT_EQ(client.prep(other.c.handle, 0), EBUSY) << "queued";
    gate.open();
    EXPECT_EQ(work.wait(), 0);
    EXPECT_EQ(kernel.statistics().submissions, 3U);
    EXPECT_EQ(client.prep(other.c.handle, 0), 0) << "jobs of a file run in order";
}

std::atomic<int> signals{0};

// A thread that waits for a busy buffer while signals arrive, until it returns or `enough` have been sent.
int wait_under_signals(RocketClient& client, std::uint32_t handle, int flags, int enough,
                       const std::function<void()>& release) {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) { ++signals; };
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, &before);
    signals = 0;
    std::atomic<bool> returned{false};
    int result = 0;
    std::thread waiter([&] {
        result = client.prep(handle, forever);
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

TEST_F(RocketWait, IsInterruptedBySignalsAndMayBeRepeated) {
    RocketWork work(client, 1);
    gate.shut();
    ASSERT_EQ(work.submit(), 0);
    EXPECT_EQ(wait_under_signals(client, work.c.handle, 0, std::numeric_limits<int>::max(), [] {}), EINTR);
    EXPECT_EQ(client.prep(work.c.handle, 0), EBUSY);
    gate.open();
    EXPECT_EQ(work.wait(), 0);
    EXPECT_TRUE(work.right(0));
}

TEST_F(RocketWait, GoesOnAfterSignalsWhoseHandlerAsksForIt) {
    RocketWork work(client, 1);
    gate.shut();
    ASSERT_EQ(work.submit(), 0);
    EXPECT_EQ(wait_under_signals(client, work.c.handle, SA_RESTART, 2000, [&] { gate.open(); }), 0);
    EXPECT_GT(signals, 0);
    EXPECT_TRUE(work.right(0));
}

TEST_F(RocketWait, TakesNoSignalsInItsOwnThreads) {
    RocketWork work(client, 1);
    gate.shut();
    ASSERT_EQ(work.submit(), 0);  // the kernel's threads run from here on
    gate.wait_until_held(1);
    sigset_t usr2;
    sigset_t before;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &usr2, &before);
    ::kill(::getpid(), SIGUSR2);  // for any thread that takes it: deadly, if one of the kernel's did
    int taken = 0;
    EXPECT_EQ(sigwait(&usr2, &taken), 0);
    EXPECT_EQ(taken, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    gate.open();
    EXPECT_EQ(work.wait(), 0);
}

// Buffers and files that go while jobs run.

TEST_F(RocketWait, KeepsTheBuffersOfAJobUntilItIsOver) {
    RocketWork work(client, 2);
    const std::uint64_t bytes = kernel.memory_in_use();
    gate.shut();
    ASSERT_EQ(work.submit(), 0);
    for (const auto& buffer : {work.a, work.b, work.lists, work.c}) {
        ASSERT_EQ(client.gem_close(buffer.handle), 0);
    }
    EXPECT_EQ(work.wait(), ENOENT);
    EXPECT_EQ(kernel.memory_in_use(), bytes);
    gate.open();
    kernel.drain();
    EXPECT_TRUE(work.right(0) && work.right(1)) << "seen through the mapping";
    EXPECT_EQ(kernel.memory_in_use(), bytes) << "mappings hold the buffers";
    client.unmap();
    EXPECT_EQ(kernel.memory_in_use(), 0U);
    EXPECT_TRUE(kernel.findings().empty()) << list_findings(kernel.findings());
}

TEST_F(RocketWait, LosesBuffersThatNobodyHolds) {
    RocketWork blocker(client, 1);
    RocketWork work(client, 1, 2);
    RocketClient::Buffer weights;  // no mapping, and the job does not name it
    ASSERT_EQ(client.create_unmapped(4096, weights), 0);
    work.matmuls[0].b = static_cast<std::uint32_t>(weights.iova);
    work.write_list(0, rocket_program(work.matmuls[0]), 0x1d);
    gate.shut();
    ASSERT_EQ(blocker.submit(), 0);
    gate.wait_until_held(1);
    ASSERT_EQ(work.submit(), 0);
    ASSERT_EQ(client.gem_close(weights.handle), 0);
    gate.open();
    ASSERT_EQ(work.wait(), 0);
    EXPECT_TRUE(work.untouched(0));
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"DMA error"})) << list_findings(kernel.findings());

    ASSERT_EQ(client.create_unmapped(4096, weights), 0);
    work.matmuls[0].b = static_cast<std::uint32_t>(weights.iova);
    work.write_list(0, rocket_program(work.matmuls[0]), 0x1d);
    work.in.push_back(weights.handle);  // the control: named
    gate.shut();
    ASSERT_EQ(blocker.submit(), 0);
    gate.wait_until_held(1);
    ASSERT_EQ(work.submit(), 0);
    ASSERT_EQ(client.gem_close(weights.handle), 0);
    gate.open();
    ASSERT_EQ(work.wait(), 0);
    EXPECT_FALSE(work.untouched(0));
}

TEST_F(RocketWait, FinishesTheJobsOfFilesThatWereClosed) {
    std::vector<std::unique_ptr<RocketClient>> clients;
    std::vector<std::unique_ptr<RocketWork>> works;
    gate.shut();
    for (std::uint32_t i = 0; i < 65; ++i) {
        clients.push_back(std::make_unique<RocketClient>(kernel));
        works.push_back(std::make_unique<RocketWork>(*clients.back(), 1, i));
        ASSERT_EQ(works.back()->submit(), 0);
        if (i % 2 == 0) {
            clients.back()->close();
        }
    }
    gate.wait_until_held(3);
    for (std::uint32_t i = 1; i < 65; i += 4) {
        clients[i]->close();
    }
    gate.open();
    kernel.drain();
    for (const auto& work : works) {
        EXPECT_TRUE(work->right(0)) << list_findings(kernel.findings());
    }
    EXPECT_EQ(kernel.statistics().submissions, 65U);
    EXPECT_EQ(kernel.statistics().failed_submissions, 0U);
    clients.clear();
    EXPECT_EQ(kernel.memory_in_use(), 0U);
}

TEST_F(RocketWait, MayStillBeWaitedForWhenTheFileCloses) {
    RocketWork work(client, 1);
    gate.shut();
    ASSERT_EQ(work.submit(), 0);
    gate.wait_until_held(1);
    std::atomic<bool> started{false};
    int result = -1;
    std::thread waiter([&] {
        started = true;
        result = client.prep(work.c.handle, forever);
    });
    while (!started) {
        std::this_thread::yield();
    }
    const int fd = client.fd;
    ASSERT_EQ(kernel.close(fd), 0);
    gate.open();
    waiter.join();
    client.fd = -1;
    EXPECT_TRUE(result == 0 || result == EBADF) << result << ": before or after the file was closed";
    EXPECT_TRUE(work.right(0));
}

TEST(RocketKernelEnd, DropsWhatWaits) {
    for (int round = 0; round < 20; ++round) {
        RocketKernel kernel(rocket_options());
        RocketClient client(kernel);
        RocketWork work(client, 2);
        for (int i = 0; i < 10; ++i) {
            ASSERT_EQ(work.submit(), 0);
        }
    }
}

// Coherency checking.

TEST(RocketCoherency, ShowsEachMissingSynchronisation) {
    SimOptions options = rocket_options();
    options.strict_sync = true;
    RocketKernel kernel(options);
    RocketClient client(kernel);
    RocketWork work(client, 1);
    ASSERT_EQ(work.submit(), 0);
    ASSERT_EQ(work.wait(), 0);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"no enable word"})) << "the NPU does not see the list";
    ASSERT_EQ(client.fini(work.lists.handle), 0);
    ASSERT_EQ(work.submit(), 0);
    ASSERT_EQ(work.wait(), 0);
    EXPECT_FALSE(work.right(0)) << "operands are zero for the NPU";
    EXPECT_FALSE(work.untouched(0)) << "and so the zeros of its product came back";
    for (const auto& buffer : {work.a, work.b}) {
        ASSERT_EQ(client.fini(buffer.handle), 0);
    }
    ASSERT_EQ(work.submit(), 0);
    kernel.drain();
    EXPECT_FALSE(work.right(0)) << "the CPU does not see the result yet";
    EXPECT_EQ(client.prep(work.c.handle, 0), 0) << "a look synchronises too";
    EXPECT_TRUE(work.right(0));
}

TEST(RocketCoherency, KeepsResultsBesideWhatTheCpuChangedAndLosesWhatWasNotWrittenBack) {
    SimOptions options = rocket_options();
    options.strict_sync = true;
    RocketKernel kernel(options);
    RocketClient client(kernel);
    RocketWork work(client, 2);
    std::memset(work.c.memory, 0, work.c.bytes);
    ASSERT_EQ(client.fini(work.c.handle), 0);
    ASSERT_EQ(work.run(), 0);
    ASSERT_TRUE(work.right(0) && work.right(1));
    work.c.memory[RocketWork::stride - 1] = std::byte{0x11};  // behind the first result
    ASSERT_EQ(client.fini(work.c.handle), 0);
    ASSERT_EQ(client.prep(work.c.handle), 0);
    EXPECT_TRUE(work.right(0) && work.right(1));
    EXPECT_EQ(work.c.memory[RocketWork::stride - 1], std::byte{0x11});
    work.c.memory[RocketWork::stride - 1] = std::byte{0x22};
    ASSERT_EQ(client.prep(work.c.handle), 0);
    EXPECT_EQ(work.c.memory[RocketWork::stride - 1], std::byte{0x11}) << "dropped with the cache line";
}

TEST(RocketCoherency, SynchronisesOnlyTheRangeWhereRangesExist) {
    SimOptions options = rocket_options({1, 5});
    options.strict_sync = true;
    RocketKernel kernel(options);
    RocketClient client(kernel);
    RocketWork work(client, 2);
    const auto prep = [&](std::uint64_t offset, std::uint64_t size, std::int64_t deadline = forever,
                          std::uint32_t reserved = 0) {
        rocket::PrepBoRange range{
            .handle = work.c.handle, .reserved = reserved, .timeout_ns = deadline, .offset = offset, .size = size};
        return client.call(rocket::ioctl_prep_bo_range, range);
    };
    const auto fini = [&](const RocketClient::Buffer& buffer, std::uint64_t offset, std::uint64_t size,
                          std::uint32_t reserved = 0) {
        rocket::FiniBoRange range{.handle = buffer.handle, .reserved = reserved, .offset = offset, .size = size};
        return client.call(rocket::ioctl_fini_bo_range, range);
    };
    ASSERT_EQ(client.fini(work.lists.handle), 0);
    ASSERT_EQ(client.fini(work.b.handle), 0);
    ASSERT_EQ(fini(work.a, RocketWork::stride, RocketWork::stride), 0);
    ASSERT_EQ(work.submit(), 0);
    ASSERT_EQ(prep(0, RocketWork::stride), 0);
    EXPECT_FALSE(work.right(0)) << "its features were not written back";
    EXPECT_TRUE(work.untouched(1)) << "outside the range";
    ASSERT_EQ(prep(RocketWork::stride, RocketWork::stride), 0);
    EXPECT_TRUE(work.right(1));

    EXPECT_EQ(prep(0, 0), EINVAL);
    EXPECT_EQ(prep(work.c.bytes, 1), EINVAL);
    EXPECT_EQ(prep(1, work.c.bytes), EINVAL);
    EXPECT_EQ(prep(~std::uint64_t{0}, 2), EINVAL);
    EXPECT_EQ(prep(2, ~std::uint64_t{0}), EINVAL);
    EXPECT_EQ(prep(0, 64, forever, 1), EINVAL);
    EXPECT_EQ(prep(work.c.bytes - 1, 1), 0);
    EXPECT_EQ(fini(work.c, 0, 0), EINVAL);
    EXPECT_EQ(fini(work.c, 0, work.c.bytes + 1), EINVAL);
    EXPECT_EQ(fini(work.c, 0, 64, 1), EINVAL);
    EXPECT_EQ(fini({}, 0, 64), ENOENT);
    EXPECT_EQ(fini(work.c, 0, work.c.bytes), 0);

    RocketKernel older(rocket_options({1, 4}));
    RocketClient user(older);
    rocket::FiniBoRange range{.handle = user.create(4096).handle, .reserved = 0, .offset = 0, .size = 64};
    EXPECT_EQ(user.call(rocket::ioctl_fini_bo_range, range), EINVAL);
}

TEST(RocketCoherency, WaitsForRangesToo) {
    Gate gate;
    SimOptions options = rocket_options({1, 5});
    options.on_task = gate.hook();
    RocketKernel kernel(options);
    RocketClient client(kernel);
    RocketWork work(client, 1);
    gate.shut();
    ASSERT_EQ(work.submit(), 0);
    gate.wait_until_held(1);
    rocket::PrepBoRange range{.handle = work.c.handle, .reserved = 0, .timeout_ns = 0, .offset = 0, .size = 1};
    EXPECT_EQ(client.call(rocket::ioctl_prep_bo_range, range), EBUSY);
    gate.open();
    range.timeout_ns = forever;
    EXPECT_EQ(client.call(rocket::ioctl_prep_bo_range, range), 0);
    EXPECT_TRUE(work.right(0));
}

}  // namespace
}  // namespace npu::sim::test
