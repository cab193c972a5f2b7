// The simulated rknpu driver: mistakes that cost people days on boards, each sprung once. What other files already spring
// (domains, imports, masks, queues, cache lines) is not repeated here.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "sim/kernel_client.h"

namespace npu::sim::test::vendor {
namespace {

class RknpuHazards : public KernelFixture {
  protected:
    // Descriptor `i` becomes one of a program that loads a table: more words than any other.
    static void make_table_load(Job& job, std::uint32_t i) {
        rknpu::Task task = job.task(i);
        task.regcfg_amount = 1066;
        std::memcpy(job.descriptors.memory + sizeof task * i, &task, sizeof task);
    }
    int submit_without_pingpong(const Job& job) {
        auto arguments = job.arguments();
        arguments.flags &= ~rknpu::job_pingpong;
        return client.call(rknpu::ioctl_submit, arguments);
    }
};

TEST(RknpuNodes, TheRenderNodeRunsNothingOnSomeBoards) {
    for (const bool broken : {false, true}) {
        SimOptions options = quiet();
        options.path = "/dev/dri/renderD129";
        RknpuKernel kernel(options, {.render_node_runs_nothing = broken});
        Client client(kernel, "/dev/dri/renderD129");
        Job job(client, 1);
        auto arguments = job.arguments();
        EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), broken ? ETIMEDOUT : 0);
        EXPECT_EQ(arguments.task_counter, broken ? 0U : 1U);
        EXPECT_EQ(has_finding(kernel.findings(), Severity::hang, {"render node", "/dev/dri/cardN"}), broken);
    }
    RknpuKernel kernel(quiet(), {.render_node_runs_nothing = true});
    Client client(kernel);
    EXPECT_EQ(Job(client, 1).submit(), 0) << "the card node does";
}

TEST_F(RknpuHazards, AListWithoutItsTailRunsNoTask) {
    Job job(client, 1);
    job.set_task(0, 0x300, Job::body_words() - 4);  // the driver adds four words, and the last four are missing
    auto arguments = job.arguments();
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_EQ(arguments.task_counter, 0U);
    EXPECT_TRUE(job.untouched(0));
    EXPECT_FALSE(kernel.findings().empty());
}

TEST_F(RknpuHazards, ThreeCoresWithOnlyTheFirstEntriesFilledWedge) {
    Job job(client, 1);
    auto arguments = job.arguments(7);
    arguments.subcore_task[3] = arguments.subcore_task[4] = {0, 0};
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_TRUE(found(Severity::hang, {"subcore_task", "i + 2 with three"}));
    EXPECT_EQ(job.submit(7), 0) << "all five filled";
}

TEST_F(RknpuHazards, PingpongRacesWithATableLoad) {
    Job job(client, 2);
    EXPECT_EQ(job.submit(), 0);
    EXPECT_TRUE(kernel.findings().empty());
    job.write_list(0, true);
    job.write_list(1, false);
    make_table_load(job, 1);
    EXPECT_EQ(submit_without_pingpong(job), 0);
    EXPECT_FALSE(found(Severity::warning, {"PINGPONG"})) << list_findings(kernel.findings());
    EXPECT_EQ(job.submit(), 0);
    EXPECT_TRUE(found(Severity::warning, {"PINGPONG", "loads a table"}));
}

TEST_F(RknpuHazards, DescriptorsOfATableLoadAreWrittenAnewForEachJob) {
    Job job(client, 2);
    make_table_load(job, 0);
    job.set_task(0, 0x300, Job::body_words());
    EXPECT_EQ(submit_without_pingpong(job), 0);
    EXPECT_EQ(submit_without_pingpong(job), 0) << "without a table it does not matter";
    EXPECT_TRUE(kernel.findings().empty());
    job.write_list(1, false);  // int_status 0 again
    make_table_load(job, 1);
    EXPECT_EQ(submit_without_pingpong(job), 0);
    EXPECT_FALSE(found(Severity::warning, {"same descriptors"}));
    EXPECT_EQ(submit_without_pingpong(job), 0);
    EXPECT_TRUE(found(Severity::warning, {"same descriptors", "write the descriptors anew"}));
}

TEST_F(RknpuHazards, TheFirstInt8JobAfterAResetIsSuspicious) {
    Job job(client, 1);
    EXPECT_EQ(job.submit(), 0);
    EXPECT_TRUE(kernel.findings().empty());
    ASSERT_EQ(client.reset(), 0);
    EXPECT_EQ(job.submit(2), 0);
    EXPECT_TRUE(found(Severity::warning, {"first job after a reset", "int8"}));
    kernel.clear_findings();
    EXPECT_EQ(job.submit(2), 0);
    EXPECT_TRUE(kernel.findings().empty());
}

TEST(RknpuThreads, MayAllCallAtOnce) {
    RknpuKernel kernel(quiet());
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (std::uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([&kernel, &right, t] {
            Client client(kernel);
            for (std::uint32_t round = 0; round < 10; ++round) {
                Job job(client, 3, 100 * t + round);
                job.write_list(0, false);
                job.write_list(1, false);
                auto arguments = job.arguments(7);
                arguments.subcore_task[2] = {0, 1};
                arguments.subcore_task[3] = {1, 1};
                arguments.subcore_task[4] = {2, 1};
                const int error = client.call(rknpu::ioctl_submit, arguments);
                right += error == 0 && job.right(0) && job.right(1) && job.right(2) ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(right, 40);
    EXPECT_EQ(kernel.statistics().tasks, 120U);
    EXPECT_EQ(kernel.memory_in_use(), 0U);
    for (const Finding& finding : kernel.findings()) {
        EXPECT_NE(finding.message.find("two clients"), std::string::npos) << finding.message;
    }
}

// Everything at once: blocking and NONBLOCK jobs, masks, two domains, hangs, resets, buffers that go. Nothing is promised
// but that every call returns and that the kernel works afterwards.
TEST(RknpuThreads, SurviveEachOther) {
    RknpuKernel kernel(with_faults("lost-interrupt@rate=0.05,time-out@rate=0.05,reset-fails@rate=0.1,seed=3"));
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([&kernel, t] {
            std::mt19937 random(t);
            Client client(kernel);
            for (std::uint32_t round = 0; round < 25; ++round) {
                const auto domain = static_cast<std::int32_t>(random() % 2);
                rknpu::MemCreate probe = Client::request(4096, plain, domain);
                if (client.call(rknpu::ioctl_mem_create, probe) != 0) {  // a job that never ends is in the other one
                    (void)client.reset();
                    continue;
                }
                drm::GemClose close{.handle = probe.handle, .padding = 0};
                (void)client.call(drm::ioctl_gem_close, close);
                Client worker(kernel);
                const Client::Buffer tasks = worker.create_unmapped(4096, for_tasks, rknpu::live_domain);
                rknpu::Submit arguments{};
                arguments.flags = rknpu::job_pc | (random() % 2 == 0 ? 0 : rknpu::job_nonblock);
                arguments.task_number = 1;
                arguments.core_mask = random() % 8;
                arguments.iommu_domain_id = static_cast<std::uint32_t>(rknpu::live_domain);
                arguments.task_obj_addr = tasks.token;
                std::fill(std::begin(arguments.subcore_task), std::end(arguments.subcore_task),
                          rknpu::SubcoreTask{0, 1 + static_cast<std::uint32_t>(random() % 2)});
                (void)worker.call(rknpu::ioctl_submit, arguments);
                if (random() % 4 == 0) {
                    (void)worker.destroy(tasks);
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    kernel.drain();
    Client client(kernel);
    ASSERT_EQ(client.reset(), 0);
    ASSERT_EQ(client.reset(), 0);
    EXPECT_EQ(kernel.memory_in_use(), 0U);
    EXPECT_GT(kernel.statistics().failed_submissions, 0U);
}

}  // namespace
}  // namespace npu::sim::test::vendor
