// The simulated rknpu driver: faults on request, and how a client gets out of them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "sim/kernel_client.h"

namespace npu::sim::test::vendor {
namespace {

// What one job meets.
struct Met {
    int error;
    std::uint32_t counter;
};

class RknpuFaults : public testing::Test {
  protected:
    void open(const char* specification) {
        client.reset();
        kernel = std::make_unique<RknpuKernel>(with_faults(specification));
        client = std::make_unique<Client>(*kernel);
    }
    static Met meet(Job& job, std::uint32_t core_mask = 1) {
        for (std::uint32_t i = 0; i < job.buffers.size(); ++i) {
            job.clear(i);
        }
        auto arguments = job.arguments(core_mask);
        const int error = job.client.call(rknpu::ioctl_submit, arguments);
        return {error, arguments.task_counter};
    }
    bool found(std::string text) { return has_finding(kernel->findings(), Severity::hang, {std::move(text)}); }

    std::unique_ptr<RknpuKernel> kernel;
    std::unique_ptr<Client> client;
};

TEST_F(RknpuFaults, AJobThatNeverStartsTimesOutWithCounterZero) {
    open("job-never-starts@at=2");
    Job job(*client, 4);
    EXPECT_EQ(meet(job).error, 0);
    const Met met = meet(job);
    EXPECT_EQ(met.error, ETIMEDOUT);
    EXPECT_EQ(met.counter, 0U);
    EXPECT_TRUE(job.untouched(0) && job.untouched(3));
    EXPECT_TRUE(found("job-never-starts"));
    EXPECT_EQ(meet(job).error, 0) << "a resubmission works";
    EXPECT_TRUE(job.right(0) && job.right(3));
}

TEST_F(RknpuFaults, ATimeOutStopsAfterSomeOfTheTasks) {
    open("time-out@at=1");
    Job job(*client, 4);
    const Met met = meet(job);
    EXPECT_EQ(met.error, ETIMEDOUT);
    EXPECT_EQ(met.counter, 2U);
    EXPECT_TRUE(job.right(0) && job.right(1) && job.untouched(2) && job.untouched(3));
    EXPECT_TRUE(found("time-out"));
    EXPECT_EQ(meet(job).error, 0);
}

TEST_F(RknpuFaults, ALostInterruptTimesOutAfterAllTasks) {
    open("lost-interrupt@at=1");
    Job job(*client, 3);
    const Met met = meet(job);
    EXPECT_EQ(met.error, ETIMEDOUT);
    EXPECT_EQ(met.counter, 3U);
    EXPECT_TRUE(job.right(0) && job.right(2));
    EXPECT_TRUE(found("lost-interrupt"));
    EXPECT_EQ(meet(job).error, 0);
}

TEST_F(RknpuFaults, ADmaErrorTimesOut) {
    open("dma-error@at=1@core=1");
    Job job(*client, 1);
    EXPECT_EQ(meet(job, 1).error, 0) << "another core";
    const Met met = meet(job, 2);
    EXPECT_EQ(met.error, ETIMEDOUT);
    EXPECT_EQ(met.counter, 0U);
    EXPECT_TRUE(job.untouched(0));
    EXPECT_TRUE(found("dma-error"));
    EXPECT_EQ(meet(job, 2).error, 0);
}

TEST_F(RknpuFaults, StaleOutputIsASuccessThatWroteNothing) {
    open("stale-output@at=1");
    Job job(*client, 2);
    const Met met = meet(job);
    EXPECT_EQ(met.error, 0);
    EXPECT_EQ(met.counter, 2U);
    EXPECT_EQ(job.task(1).int_status, 0x300U);
    EXPECT_TRUE(job.untouched(0) && job.untouched(1));
    EXPECT_TRUE(has_finding(kernel->findings(), Severity::corrupt, {"stale-output"}));
    EXPECT_EQ(meet(job).error, 0);
    EXPECT_TRUE(job.right(0));
}

TEST_F(RknpuFaults, ACoreThatIsGoneStaysGoneAlsoAfterAReset) {
    open("core-gone@at=1@core=1");
    Job job(*client, 1);
    EXPECT_EQ(meet(job, 1).error, 0);
    EXPECT_EQ(meet(job, 2).error, ETIMEDOUT);
    EXPECT_EQ(client->reset(), 0);
    EXPECT_EQ(meet(job, 2).error, ETIMEDOUT);
    EXPECT_EQ(meet(job, 7).error, ETIMEDOUT);
    EXPECT_TRUE(found("core-gone"));
    EXPECT_EQ(meet(job, 1).error, 0) << "the others work";
    EXPECT_EQ(meet(job, 4).error, 0);
}

TEST_F(RknpuFaults, AResetThatFailsLeavesAllCoresHangingUntilTheNext) {
    open("time-out@at=1,reset-fails@at=1");
    Job job(*client, 1);
    EXPECT_EQ(meet(job).error, ETIMEDOUT);
    EXPECT_TRUE(found("reset-fails"));
    const Met met = meet(job, 4);  // its reset works
    EXPECT_EQ(met.error, ETIMEDOUT);
    EXPECT_EQ(met.counter, 0U);
    EXPECT_TRUE(found("did not bring it back"));
    EXPECT_EQ(meet(job, 4).error, 0);
    EXPECT_EQ(meet(job, 1).error, 0);

    open("reset-fails@at=2");
    Job other(*client, 1);
    EXPECT_EQ(client->reset(), 0);
    EXPECT_EQ(meet(other).error, 0);
    EXPECT_EQ(client->reset(), 0) << "the driver reports success";
    EXPECT_EQ(client->reset(), 0);
    EXPECT_EQ(meet(other).error, 0);
}

TEST_F(RknpuFaults, MemoryAndAddressesRunOut) {
    open("no-memory@at=2,iova-full@at=2");
    EXPECT_EQ(client->try_create(4096), 0);
    EXPECT_EQ(client->try_create(4096), ENOMEM);
    EXPECT_EQ(client->try_create(4096), EFAULT);
    EXPECT_EQ(client->try_create(4096), 0);
    EXPECT_EQ(kernel->memory_in_use(), 2U * 4096);
    open("iova-full");
    EXPECT_EQ(client->try_create(4096, plain & ~rknpu::mem_non_contiguous), ENOMEM);
}

TEST_F(RknpuFaults, ASubmissionsArgumentsCannotBeCopied) {
    open("bad-address@at=1");
    Job job(*client, 1);
    EXPECT_EQ(meet(job).error, EFAULT);
    EXPECT_TRUE(job.untouched(0));
    EXPECT_EQ(kernel->statistics().submissions, 0U);
    EXPECT_EQ(meet(job).error, 0);
}

TEST_F(RknpuFaults, ANonblockJobThatFailsIsFoundByItsFence) {
    open("lost-interrupt@at=1");
    Job job(*client, 1);
    auto arguments = job.arguments(1, rknpu::job_nonblock | rknpu::job_fence_out);
    ASSERT_EQ(client->call(rknpu::ioctl_submit, arguments), 0);
    kernel->drain();
    EXPECT_TRUE(job.right(0));
    EXPECT_TRUE(found("NONBLOCK job does not complete"));
    auto behind = job.arguments(2, rknpu::job_fence_in);
    behind.fence_fd = arguments.fence_fd;
    EXPECT_EQ(client->call(rknpu::ioctl_submit, behind), 0);
    EXPECT_TRUE(has_finding(kernel->findings(), Severity::corrupt, {"FENCE_IN did not signal"}));
    ::close(arguments.fence_fd);
}

}  // namespace
}  // namespace npu::sim::test::vendor
