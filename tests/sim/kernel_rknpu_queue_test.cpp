// The simulated rknpu driver: NONBLOCK jobs, queues, resets, and what goes away while jobs are in flight.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "sim/kernel_client.h"

namespace npu::sim::test::vendor {
namespace {

class RknpuQueueing : public GatedFixture {};

TEST_F(RknpuQueueing, DrainWaitsForJobsThatNobodyWaitsFor) {
    Job job(client, 1);
    ASSERT_EQ(job.submit(4, nonblock), 0);
    EXPECT_EQ(kernel.statistics().submissions, 0U);
    gate.open();
    kernel.drain();
    EXPECT_EQ(kernel.statistics().submissions, 1U);
    EXPECT_TRUE(job.right(0));
}

TEST_F(RknpuQueueing, AJobWithoutAMaskGoesToTheCoreWithTheFewestTasks) {
    Job job(client, 2);
    Job longer(client, 3, 2);
    const auto pick = [&](const Job& one) {
        auto arguments = one.arguments(0, nonblock);
        for (std::uint32_t core = 0; core < 3; ++core) {
            arguments.subcore_task[core] = {0, core + 1 == 3 ? 1U : 2U};  // the core shows in the work done
        }
        EXPECT_EQ(one.client.call(rknpu::ioctl_submit, arguments), 0);
    };
    ASSERT_EQ(longer.submit(1, nonblock), 0);  // 3 tasks on core 0
    ASSERT_EQ(job.submit(2, nonblock), 0);     // 2 on core 1
    gate.enter(2);
    pick(job);  // core 2: 1 task
    pick(job);  // core 2 again: 2 tasks
    pick(job);  // core 1, the first of equal ones: 4 tasks
    pick(job);  // core 2: 3 tasks
    gate.open();
    kernel.drain();
    EXPECT_EQ(kernel.statistics().tasks, 3U + 2 + 1 + 1 + 2 + 1);
}

TEST_F(RknpuQueueing, JobsOfACoreRunInOrderAndOthersOvertakeThem) {
    Job first(client, 1);
    Job second(client, 1, 2);
    Job elsewhere(client, 1, 3);
    int fences[3];
    ASSERT_EQ(submit_with_fence(first, 1, fences[0]), 0);
    gate.enter();
    ASSERT_EQ(submit_with_fence(second, 1, fences[1]), 0);
    ASSERT_EQ(submit_with_fence(elsewhere, 2, fences[2]), 0);
    gate.enter(2);
    EXPECT_TRUE(elsewhere.right(0)) << "another core works on";
    EXPECT_TRUE(second.untouched(0));
    gate.open();
    wait_for(fences[1]);
    EXPECT_TRUE(signalled(fences[0]));
    EXPECT_TRUE(second.right(0));
    for (const int fence : fences) {
        wait_for(fence);
        ::close(fence);
    }
}

TEST_F(RknpuQueueing, ManyJobsMayWait) {
    Job first(client, 1);
    Job job(client, 1, 2);
    ASSERT_EQ(first.submit(1, nonblock), 0);
    gate.enter();
    constexpr std::uint64_t count = 200;
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(job.submit(i % 2 == 0 ? 7 : 3, nonblock), 0);
    }
    std::thread thread([&] { EXPECT_EQ(first.submit(7), 0); });
    gate.open();
    thread.join();
    kernel.drain();
    EXPECT_EQ(kernel.statistics().submissions, count + 2);
    EXPECT_EQ(kernel.statistics().tasks, 1 + count / 2 * 3 + count / 2 * 2 + 3);
    EXPECT_EQ(kernel.statistics().failed_submissions, 0U);
}

TEST_F(RknpuQueueing, AJobForSeveralCoresWaitsUntilItHasThemAll) {
    Job one(client, 1);
    Job three(client, 1, 2);
    Job behind(client, 1, 3);
    ASSERT_EQ(one.submit(2, nonblock), 0);
    gate.enter();
    ASSERT_EQ(three.submit(7, nonblock), 0);
    ASSERT_EQ(behind.submit(1, nonblock), 0);  // core 0 is kept free for the job of three
    EXPECT_TRUE(three.untouched(0));
    EXPECT_TRUE(behind.untouched(0));
    gate.open();
    kernel.drain();
    EXPECT_TRUE(one.right(0) && three.right(0) && behind.right(0));
    EXPECT_EQ(kernel.statistics().tasks, 5U);
}

TEST_F(RknpuQueueing, AnEndlessJobKeepsItsCoreUntilTheNextNonblockJobClearsIt) {
    gate.open();
    Job endless(client, 1);
    endless.make_endless();
    Job job(client, 1, 2);
    int fence = -1;
    ASSERT_EQ(submit_with_fence(endless, 1, fence), 0);
    kernel.drain();
    EXPECT_TRUE(found(Severity::hang, {"NONBLOCK job does not complete"}));
    EXPECT_EQ(job.submit(2), 0) << "another core";
    EXPECT_EQ(job.submit(0, nonblock), 0) << "no core of its mask is looked at, and the least loaded one is free";
    kernel.drain();
    EXPECT_EQ(kernel.statistics().failed_submissions, 1U);
    ASSERT_EQ(job.submit(1, nonblock), 0);
    kernel.drain();
    EXPECT_EQ(kernel.statistics().failed_submissions, 1U);
    EXPECT_EQ(kernel.statistics().submissions, 4U);
    EXPECT_FALSE(signalled(fence));
    ::close(fence);
}

TEST_F(RknpuQueueing, ABlockingJobBehindAnEndlessOneTimesOutAndResetsTheNpu) {
    gate.open();
    Job endless(client, 1);
    endless.make_endless();
    Job job(client, 1, 2);
    ASSERT_EQ(endless.submit(1, nonblock), 0);
    auto arguments = job.arguments();
    arguments.task_counter = 99;
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_EQ(arguments.task_counter, 0U);
    EXPECT_TRUE(job.untouched(0));
    EXPECT_TRUE(found(Severity::hang, {"waits behind a job that keeps its core", "three times"}));
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
    EXPECT_EQ(job.submit(7), 0);
}

TEST(RknpuQueueBoards, SomeAnswerEinvalToAJobBehindAnEndlessOneAndResetNothing) {
    RknpuKernel kernel(quiet(), {.starved_submit_is_invalid = true});
    Client client(kernel);
    Job endless(client, 1);
    endless.make_endless();
    Job job(client, 1, 2);
    ASSERT_EQ(endless.submit(1, nonblock), 0);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(job.submit(3), EINVAL);
        EXPECT_EQ(job.submit(2), 0) << "the cores that it held are free again";
    }
    EXPECT_EQ(client.reset(), 0);
    EXPECT_EQ(job.submit(3), 0);
    EXPECT_EQ(kernel.statistics().failed_submissions, 3U);
}

TEST_F(RknpuQueueing, AResetDropsJobsThatRunAndThatWait) {
    Client other(kernel);
    Job running(client, 1);
    Job queued(client, 1, 2);
    Job blocked(other, 1, 3);
    int fences[2];
    ASSERT_EQ(submit_with_fence(running, 1, fences[0]), 0);
    gate.enter();
    ASSERT_EQ(submit_with_fence(queued, 1, fences[1]), 0);
    std::thread thread([&] { EXPECT_EQ(blocked.submit(1), EINVAL); });
    while (!found(Severity::warning, {"two clients"})) {  // until the thread's job is in the queue
        std::this_thread::yield();
    }
    ASSERT_EQ(client.reset(), 0);
    thread.join();
    gate.open();
    kernel.drain();
    EXPECT_TRUE(found(Severity::hang, {"queued job was dropped", "ACT_RESET", "fence never signals"}));
    EXPECT_TRUE(found(Severity::hang, {"queued job was dropped", "EINVAL"}));
    EXPECT_TRUE(found(Severity::hang, {"running job was dropped"}));
    for (const int fence : fences) {
        EXPECT_FALSE(signalled(fence));
        ::close(fence);
    }
    EXPECT_TRUE(queued.untouched(0) && blocked.untouched(0));
    EXPECT_EQ(kernel.statistics().failed_submissions, 3U);
    EXPECT_EQ(queued.submit(1), 0);
    EXPECT_TRUE(queued.right(0));
}

TEST_F(RknpuQueueing, WarnsThatTimeoutsAreMicrosecondsForNonblockJobs) {
    Job first(client, 1);
    Job second(client, 1, 2);
    ASSERT_EQ(first.submit(1, nonblock), 0);
    gate.enter();
    ASSERT_EQ(second.submit(2, nonblock), 0);
    EXPECT_TRUE(kernel.findings().empty()) << "another core";
    ASSERT_EQ(second.submit(1, nonblock), 0);
    EXPECT_TRUE(found(Severity::warning, {"timeout of 6000", "microseconds"}));
    gate.open();
    kernel.drain();
    EXPECT_TRUE(first.right(0) && second.right(0));
}

TEST(RknpuQueueRealTime, ANonblockJobResetsOneThatIsOlderThanItsTimeoutInMicroseconds) {
    for (const std::uint32_t timeout : {0U, 0xffffffffU}) {
        Gate gate;
        SimOptions options = quiet();
        options.real_time = true;
        options.on_task = gate.hook();
        RknpuKernel kernel(options);
        Client client(kernel);
        Job first(client, 1);
        Job second(client, 1, 2);
        auto arguments = first.arguments(1, nonblock | rknpu::job_fence_out);
        arguments.timeout = timeout;
        ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
        gate.enter();
        ASSERT_EQ(second.submit(1, nonblock), 0);
        gate.open();
        kernel.drain();
        EXPECT_EQ(signalled(arguments.fence_fd), timeout != 0);
        EXPECT_EQ(has_finding(kernel.findings(), Severity::hang, {"running job was dropped", "microseconds"}),
                  timeout == 0);
        EXPECT_TRUE(second.right(0));
        ::close(arguments.fence_fd);
    }
}

TEST(RknpuQueueRealTime, ASubmitDuringAResetIsRefused) {
    SimOptions options = quiet();
    options.real_time = true;
    RknpuKernel kernel(options);
    Client client(kernel);
    Job job(client, 1);
    std::thread resetter([&] { EXPECT_EQ(client.reset(), 0); });
    while (!has_finding(kernel.findings(), Severity::hang, {"while the NPU is being reset"})) {
        const int error = job.submit();
        EXPECT_TRUE(error == 0 || error == EINVAL);
    }
    resetter.join();
    EXPECT_EQ(job.submit(), 0);
}

TEST_F(RknpuQueueing, BuffersMayGoInAnyOrderWhileJobsUseThem) {
    auto job = std::make_unique<Job>(client, 2);
    int fence = -1;
    ASSERT_EQ(submit_with_fence(*job, 1, fence), 0);
    gate.enter();
    for (const auto& operands : job->buffers) {
        for (const Client::Buffer& buffer : operands) {
            client.release(buffer);
        }
    }
    client.release(job->descriptors);
    client.release(job->lists);
    EXPECT_EQ(kernel.memory_in_use(), 0U);
    gate.open();
    wait_for(fence);
    kernel.drain();
    EXPECT_TRUE(found(Severity::corrupt, {"freed while a job that uses it was in flight"}));
    ::close(fence);
}

TEST_F(RknpuQueueing, WhatAJobDoesNotUseMayGoWithoutAWord) {
    Job job(client, 1);
    const Client::Buffer unused = client.create(4096);
    ASSERT_EQ(job.submit(1, nonblock), 0);
    gate.enter();
    client.release(unused);
    gate.open();
    kernel.drain();
    EXPECT_TRUE(job.right(0));
    EXPECT_TRUE(kernel.findings().empty()) << list_findings(kernel.findings());
}

TEST_F(RknpuQueueing, AFileMayBeClosedWhileItsJobsAreInFlight) {
    {
        Client leaver(kernel);
        Job running(leaver, 1);
        Job queued(leaver, 1, 2);
        ASSERT_EQ(running.submit(1, nonblock), 0);
        gate.enter();
        ASSERT_EQ(queued.submit(1, nonblock), 0);
    }
    EXPECT_TRUE(found(Severity::warning, {"a file is closed", "jobs are in the NPU"}));
    gate.open();
    kernel.drain();
    EXPECT_EQ(kernel.statistics().failed_submissions, 0U);
    EXPECT_EQ(kernel.statistics().tasks, 2U);
    EXPECT_EQ(kernel.memory_in_use(), 0U);
}

TEST_F(RknpuQueueing, AFileMayBeClosedWhileAnotherThreadSubmitsByIt) {
    Client leaver(kernel);
    Job job(leaver, 1);
    std::thread thread([&] { EXPECT_EQ(job.submit(), 0); });
    gate.enter();
    leaver.close();
    gate.open();
    thread.join();
    EXPECT_TRUE(job.right(0)) << "the mappings are still there";
}

TEST_F(RknpuQueueing, WarnsWhenTwoClientsHaveJobsAtOnce) {
    Client other(kernel);
    Job mine(client, 1);
    Job theirs(other, 1, 2);
    ASSERT_EQ(mine.submit(1, nonblock), 0);
    gate.enter();
    ASSERT_EQ(mine.submit(2, nonblock), 0);
    EXPECT_FALSE(found(Severity::warning, {"two clients"}));
    ASSERT_EQ(theirs.submit(4, nonblock), 0);
    EXPECT_TRUE(found(Severity::warning, {"two clients", "one process"}));
    gate.open();
    kernel.drain();
    EXPECT_TRUE(mine.right(0) && theirs.right(0));
}

}  // namespace
}  // namespace npu::sim::test::vendor
