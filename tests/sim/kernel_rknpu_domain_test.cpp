// The simulated rknpu driver: address domains, of which one is live at a time.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "sim/kernel_client.h"

namespace npu::sim::test::vendor {
namespace {

class RknpuDomains : public KernelFixture {
  protected:
    // A NONBLOCK job that never ends.
    static void start_endless(Job& job) {
        job.make_endless();
        EXPECT_EQ(job.submit(1, rknpu::job_nonblock), 0);
        job.client.kernel.drain();
    }
};

TEST_F(RknpuDomains, JobsObjectsAndTheirSynchronisationMakeTheirDomainLive) {
    EXPECT_EQ(client.live_domain(), 0U);
    const Client::Buffer in_two = client.create_unmapped(4096, plain, 2);
    EXPECT_EQ(client.live_domain(), 2U);
    Job job(client, 1);
    EXPECT_EQ(client.live_domain(), 0U);
    EXPECT_EQ(client.sync(in_two, rknpu::sync_to_device), 0);
    EXPECT_EQ(client.live_domain(), 2U);
    EXPECT_EQ(job.submit(), 0);
    EXPECT_EQ(client.live_domain(), 0U);
    EXPECT_EQ(client.destroy(in_two), 0);
    EXPECT_EQ(client.live_domain(), 2U);
    const Client::Buffer in_five = client.create_unmapped(4096, plain, 5);
    EXPECT_EQ(client.set_domain(15), 0);
    EXPECT_EQ(client.close_handle(in_five), 0);
    EXPECT_EQ(client.live_domain(), 5U);
    EXPECT_EQ(client.set_domain(16), EINVAL);
    EXPECT_EQ(client.set_domain(static_cast<std::uint32_t>(-1)), EINVAL);
}

TEST_F(RknpuDomains, EachHasAddressesOfItsOwn) {
    const Client::Buffer zero = client.create_unmapped(4096, plain, 0);
    const Client::Buffer seven = client.create_unmapped(4096, plain, 7);
    EXPECT_EQ(zero.iova, seven.iova);
    Job low(client, 1, 1, 0);
    Job high(client, 1, 2, 7);
    EXPECT_EQ(low.matmuls[0].a, high.matmuls[0].a);
    EXPECT_EQ(low.submit(), 0);
    EXPECT_EQ(high.submit(), 0) << list_findings(kernel.findings());
    EXPECT_TRUE(low.right(0) && high.right(0));
}

TEST_F(RknpuDomains, AJobReachesOnlyItsOwn) {
    Job job(client, 1);
    auto arguments = job.arguments();
    arguments.iommu_domain_id = 1;
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_TRUE(found(Severity::hang, {"DMA error", "command list"})) << list_findings(kernel.findings());
    EXPECT_TRUE(found(Severity::warning, {"runs in domain 1", "object of domain 0"}));
}

TEST_F(RknpuDomains, MinusOneIsTheOneThatHappensToBeLive) {
    Job job(client, 1, 1, 4);
    auto arguments = job.arguments();
    arguments.iommu_domain_id = static_cast<std::uint32_t>(rknpu::live_domain);
    ASSERT_EQ(client.set_domain(4), 0);
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
    EXPECT_TRUE(job.right(0));
    EXPECT_TRUE(kernel.findings().empty());
    ASSERT_EQ(client.set_domain(0), 0);
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_TRUE(found(Severity::hang, {"iommu_domain_id -1", "domain 4"}));
    // An object, too, is made in the live one.
    ASSERT_EQ(client.set_domain(9), 0);
    const Client::Buffer buffer = client.create_unmapped(4096, plain, rknpu::live_domain);
    ASSERT_EQ(client.set_domain(0), 0);
    ASSERT_EQ(client.sync(buffer, rknpu::sync_to_device), 0);
    EXPECT_EQ(client.live_domain(), 9U);
}

TEST_F(RknpuDomains, AJobThatNeverEndsKeepsEverybodyElseOut) {
    Job job(client, 1);
    Job elsewhere(client, 1, 2, 1);
    start_endless(job);
    EXPECT_EQ(client.live_domain(), 0U);
    EXPECT_EQ(client.set_domain(0), 0) << "the live one is no problem";
    EXPECT_EQ(client.try_create(4096), 0);
    EXPECT_EQ(client.set_domain(1), EINVAL);
    EXPECT_TRUE(found(Severity::hang, {"domain 1 cannot become live", "6 s"}));
    EXPECT_EQ(client.try_create(4096, plain, 1), EINVAL);
    EXPECT_EQ(client.sync(elsewhere.lists, rknpu::sync_to_device), EINVAL);
    EXPECT_EQ(elsewhere.submit(), EINVAL);
    EXPECT_EQ(client.destroy(elsewhere.buffers[0][0]), 0) << "freed all the same";
    ASSERT_EQ(client.reset(), 0);
    EXPECT_EQ(client.set_domain(1), 0);
    EXPECT_EQ(job.submit(), ETIMEDOUT);
}

TEST_F(RknpuDomains, WarnsOfAnObjectThatIsFreedWhileAnotherDomainIsBusy) {
    Job job(client, 1);
    const Client::Buffer elsewhere = client.create_unmapped(4096, plain, 1);
    start_endless(job);
    EXPECT_EQ(client.close_handle(elsewhere), 0);
    EXPECT_TRUE(found(Severity::warning, {"object of domain 1", "jobs are in domain 0"}));
}

TEST(RknpuDomainThreads, WhoNeedsAnotherDomainWaitsForTheJobsOfTheLiveOne) {
    Gate gate;
    SimOptions options = quiet();
    options.on_task = gate.hook();
    RknpuKernel kernel(options);
    Client client(kernel);
    Job job(client, 1);
    std::thread worker([&] { EXPECT_EQ(job.submit(), 0); });
    gate.enter();
    std::atomic<bool> switched{false};
    std::thread other([&] {
        EXPECT_EQ(client.set_domain(1), 0);
        switched = true;
    });
    EXPECT_EQ(client.live_domain(), 0U);
    EXPECT_FALSE(switched);
    gate.open();
    worker.join();
    other.join();
    EXPECT_EQ(client.live_domain(), 1U);
    EXPECT_TRUE(kernel.findings().empty());
}

TEST(RknpuDomainThreads, TheSwitchIsGivenUpAfterSixSecondsOfRealTime) {
    SimOptions options = quiet();
    options.real_time = true;
    RknpuKernel kernel(options);
    Client client(kernel);
    Job job(client, 1);
    job.make_endless();
    ASSERT_EQ(job.submit(1, rknpu::job_nonblock), 0);
    kernel.drain();
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(client.set_domain(1), EINVAL);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
}

TEST(RknpuDomainThreads, WarnsOfASwitchAfterJobsStoodInAQueue) {
    Gate gate;
    SimOptions options = quiet();
    options.on_task = gate.hook();
    RknpuKernel kernel(options);
    Client client(kernel);
    Job first(client, 1);
    Job second(client, 1, 2);
    EXPECT_EQ(first.submit(1, rknpu::job_nonblock), 0);
    gate.enter();
    EXPECT_EQ(second.submit(1, rknpu::job_nonblock), 0);
    gate.open();
    EXPECT_EQ(client.set_domain(1), 0);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::warning, {"NONBLOCK jobs stood in a queue", "blocking job"}));
    EXPECT_EQ(first.submit(1), 0) << "a barrier";
    kernel.clear_findings();
    EXPECT_EQ(client.set_domain(1), 0);
    EXPECT_TRUE(kernel.findings().empty()) << list_findings(kernel.findings());
}

}  // namespace
}  // namespace npu::sim::test::vendor
