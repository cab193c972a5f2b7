// The simulated rknpu driver through its system calls: jobs, cores, interrupts, failures, cache synchronisation.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "sim/kernel_client.h"

namespace npu::sim::test {
namespace {

class KernelSubmit : public KernelFixture {};

TEST_F(KernelSubmit, RunsAChainAndReportsCountersTimeAndInterruptStatus) {
    SimOptions options = quiet();
    std::atomic<int> calls{0};
    options.task_seconds = [&calls](const TaskWork& work) {
        ++calls;
        return static_cast<double>(work.macs) * 1e-9;
    };
    RknpuKernel timed(options);
    Client user(timed);
    Job job(user, 5);
    auto arguments = job.arguments();
    ASSERT_EQ(user.call(rknpu::ioctl_submit, arguments), 0) << list_findings(timed.findings());
    for (std::uint32_t i = 0; i < 5; ++i) {
        EXPECT_TRUE(job.right(i)) << i;
    }
    EXPECT_EQ(arguments.task_counter, 5U);
    EXPECT_EQ(calls, 5);
    const std::uint64_t macs = 6 * 64 * 64;
    EXPECT_EQ(arguments.hw_elapse_time, static_cast<std::int64_t>(5 * macs));
    EXPECT_EQ(job.task(4).int_status, 0x300U);
    EXPECT_EQ(job.task(0).int_status, 0U);
    const KernelStatistics statistics = timed.statistics();
    EXPECT_EQ(statistics.submissions, 1U);
    EXPECT_EQ(statistics.failed_submissions, 0U);
    EXPECT_EQ(statistics.tasks, 5U);
    EXPECT_EQ(statistics.macs, 5 * macs);
    EXPECT_EQ(statistics.output_bytes, 5U * 6 * 64 * 4);
    EXPECT_TRUE(timed.findings().empty()) << list_findings(timed.findings());
}

TEST_F(KernelSubmit, StartsInTheMiddleOfTheTaskListWhereAsked) {
    Job job(client, 4);
    auto arguments = job.arguments();
    arguments.subcore_task[0] = {1, 2};
    arguments.task_number = 2;
    ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
    EXPECT_TRUE(job.untouched(0) && job.right(1) && job.right(2) && job.untouched(3));
}

TEST_F(KernelSubmit, RunsEachCoreOfAMaskFromTheEntryThatTheDriverReads) {
    struct Case {
        std::uint32_t mask;
        std::vector<std::pair<unsigned, rknpu::SubcoreTask>> entries;
    };
    const std::vector<Case> cases = {
        {0, {{0, {0, 3}}}},
        {1, {{0, {0, 3}}}},
        {2, {{1, {0, 3}}}},
        {4, {{2, {0, 3}}}},
        {3, {{0, {0, 1}}, {1, {1, 2}}}},
        {7, {{2, {0, 1}}, {3, {1, 1}}, {4, {2, 1}}}},
    };
    for (const Case& one : cases) {
        Job job(client, 3);
        if (one.entries.size() > 1) {  // separate chains; a task starts where a tail leads nowhere
            job.write_list(0, false);
        }
        if (one.entries.size() > 2) {
            job.write_list(1, false);
        }
        auto arguments = job.arguments(one.mask);
        std::fill(std::begin(arguments.subcore_task), std::end(arguments.subcore_task), rknpu::SubcoreTask{0, 0});
        for (const auto& [entry, range] : one.entries) {
            arguments.subcore_task[entry] = range;
        }
        ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0) << one.mask << list_findings(kernel.findings());
        EXPECT_TRUE(job.right(0) && job.right(1) && job.right(2)) << one.mask;

        // The control: entries one off are not read.
        std::rotate(std::begin(arguments.subcore_task), std::begin(arguments.subcore_task) + 4,
                    std::end(arguments.subcore_task));
        EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT) << one.mask;
        EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"subcore_task"}));
        kernel.clear_findings();
    }
}

TEST_F(KernelSubmit, NeverRunsTheMasksThatTheDriverDoesNotKnow) {
    Job job(client, 1);
    for (const std::uint32_t mask : {5U, 6U}) {
        auto arguments = job.arguments(mask);
        EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
        EXPECT_EQ(arguments.task_counter, 0U);
    }
    auto arguments = job.arguments(8);
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), EINVAL);
    EXPECT_TRUE(job.untouched(0));
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"core_mask 5"}));
    EXPECT_EQ(kernel.statistics().failed_submissions, 2U);
}

TEST_F(KernelSubmit, WaitsForExactlyThePairOfInterruptsThatFires) {
    for (const std::uint32_t mask : {0x100U, 0x200U, 0xc00U, 0xf00U, 0U, 0x303U}) {
        Job job(client, 2);
        job.set_task(1, mask, static_cast<std::uint32_t>(matmul_program(Job::shape()).size()));
        auto arguments = job.arguments();
        EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT) << mask;
        EXPECT_EQ(arguments.task_counter, 2U) << "the tasks did run";
        EXPECT_TRUE(job.right(0) && job.right(1));
        EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"int_mask", "0x300"}));
        kernel.clear_findings();
    }
    Job job(client, 2);  // only the last task's mask counts
    job.set_task(0, 0x100, static_cast<std::uint32_t>(matmul_program(Job::shape()).size()));
    auto arguments = job.arguments();
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
}

TEST_F(KernelSubmit, ChecksTheArgumentsOfSubmit) {
    Job job(client, 1);
    const auto submit = [&](auto edit) {
        auto arguments = job.arguments();
        edit(arguments);
        return client.call(rknpu::ioctl_submit, arguments);
    };
    EXPECT_EQ(submit([](auto& a) { a.task_number = 0; }), EINVAL);
    EXPECT_EQ(submit([](auto& a) { a.flags = rknpu::job_pingpong; }), EINVAL);
    EXPECT_EQ(submit([](auto& a) { a.flags |= rknpu::job_nonblock; }), EINVAL);
    EXPECT_EQ(submit([](auto& a) { a.flags |= rknpu::job_fence_out; }), EINVAL);
    EXPECT_EQ(submit([](auto& a) { a.task_base_addr = 16; }), EINVAL);
    EXPECT_EQ(submit([](auto& a) { a.iommu_domain_id = 16; }), EINVAL);
    EXPECT_EQ(submit([](auto& a) { a.task_obj_addr = 0xffffff8000000000; }), EINVAL);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"SUBMIT", "panic"}));
    EXPECT_EQ(submit([&](auto& a) { a.task_obj_addr = job.lists.token; }), EINVAL);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"kernel mapping"}));
    EXPECT_TRUE(job.untouched(0));
    EXPECT_EQ(kernel.statistics().submissions, 0U);
    EXPECT_EQ(submit([](auto& a) { a.subcore_task[0] = {0, 200}; }), ETIMEDOUT);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"outside the task object"}));
    EXPECT_EQ(submit([](auto&) {}), 0);
    EXPECT_TRUE(job.right(0));
}

TEST_F(KernelSubmit, FailsAJobThatLeavesItsBuffersAndWritesNothing) {
    Client stranger(kernel);
    const Client::Buffer foreign = stranger.create(1 << 16);
    std::memset(foreign.memory, 0x77, foreign.bytes);
    Job job(client, 2);
    for (const std::uint64_t address : {foreign.iova, std::uint64_t{0x1000}}) {
        job.matmuls[1].c = static_cast<std::uint32_t>(address);
        job.write_list(1, false);
        auto arguments = job.arguments();
        EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
        EXPECT_EQ(arguments.task_counter, 1U) << "progress is reported";
        EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"DMA error: outputs"}));
        kernel.clear_findings();
    }
    EXPECT_TRUE(job.right(0));
    EXPECT_TRUE(job.untouched(1));
    EXPECT_EQ(foreign.memory[0], std::byte{0x77});
    job.matmuls[1].c = static_cast<std::uint32_t>(job.buffers[1][2].iova);  // and works again afterwards
    job.write_list(1, false);
    auto arguments = job.arguments();
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), 0) << list_findings(kernel.findings());
    EXPECT_TRUE(job.right(1));
}

TEST_F(KernelSubmit, ReachesOnlyTheDomainOfTheJob) {
    Job job(client, 1);
    auto arguments = job.arguments();
    arguments.iommu_domain_id = 1;
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"DMA error: command list"}));
}

TEST_F(KernelSubmit, ForgetsAnObjectOnceItIsDestroyed) {
    Job job(client, 1);
    auto arguments = job.arguments();
    ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
    uapi::drm::GemClose close{.handle = job.buffers[0][1].handle, .padding = 0};
    ASSERT_EQ(client.call(uapi::drm::ioctl_gem_close, close), 0);
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"DMA error: weights"}));
}

TEST_F(KernelSubmit, ResetsTheCoresAfterAHangAndOnRequest) {
    Job job(client, 3);
    auto arguments = job.arguments();
    ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
    // A delta list is enough now, and no longer after a reset.
    Program delta;
    delta.set(0x4004, 0xe);
    delta.set(0x4020, job.matmuls[1].c);
    const auto words = delta.words();
    std::memcpy(job.lists.memory, words.data(), words.size() * 8);
    job.set_task(0, 0x300, static_cast<std::uint32_t>(delta.size()));
    arguments.subcore_task[0] = {0, 1};
    arguments.task_number = 1;
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), 0) << list_findings(kernel.findings());
    std::uint32_t value = 0;
    ASSERT_EQ(client.action(rknpu::action_reset, value), 0);
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"never written"}));
}

TEST_F(KernelSubmit, SplitsJobsOfMoreTasksThanTheCounterHolds) {
    constexpr std::uint32_t count = rknpu::max_tasks_per_submit + 3;
    Job job(client, 1);
    // One list, linked to itself: the counter stops each piece.
    const auto program = matmul_program(job.matmuls[0]);
    const auto words =
        program.words(0x0d, static_cast<std::uint32_t>(job.lists.iova), static_cast<std::uint32_t>(program.size() + 4));
    std::memcpy(job.lists.memory, words.data(), words.size() * 8);
    const Client::Buffer many = client.create(sizeof(rknpu::Task) * count, for_tasks);
    const rknpu::Task task = job.task(0);
    for (std::uint32_t i = 0; i < count; ++i) {
        std::memcpy(many.memory + sizeof task * i, &task, sizeof task);
    }
    auto arguments = job.arguments();
    arguments.task_obj_addr = many.token;
    arguments.task_number = count;
    arguments.subcore_task[0] = {0, count};
    ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0) << list_findings(kernel.findings());
    EXPECT_EQ(kernel.statistics().tasks, count);
    const auto status = [&](std::uint32_t i) {
        rknpu::Task read;
        std::memcpy(&read, many.memory + sizeof read * i, sizeof read);
        return static_cast<std::uint32_t>(read.int_status);
    };
    EXPECT_EQ(status(rknpu::max_tasks_per_submit - 1), 0x300U) << "the last task of the first piece";
    EXPECT_EQ(status(count - 1), 0x300U);
    EXPECT_EQ(status(5), 0U);
}

TEST_F(KernelSubmit, MergesEqualFindings) {
    Job job(client, 1);
    Program program = matmul_program(job.matmuls[0]);
    program.set(0x1010, 0);  // a warning
    const auto words = program.words();
    std::memcpy(job.lists.memory, words.data(), words.size() * 8);
    for (int i = 0; i < 5; ++i) {
        auto arguments = job.arguments();
        ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
    }
    ASSERT_EQ(kernel.findings().size(), 1U);
    EXPECT_EQ(kernel.findings()[0].count, 5U);
    EXPECT_EQ(kernel.findings()[0].severity, Severity::warning);
}

TEST(StrictSync, ShowsEachMissingSynchronisation) {
    SimOptions options = quiet();
    options.strict_sync = true;
    RknpuKernel kernel(options);
    Client client(kernel);
    Job job(client, 1);
    auto arguments = job.arguments();
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT) << "the NPU does not see the list yet";
    EXPECT_EQ(client.sync(job.lists, rknpu::sync_to_device), 0);
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), 0) << list_findings(kernel.findings());
    EXPECT_EQ(client.sync(job.buffers[0][2], rknpu::sync_from_device), 0);
    EXPECT_FALSE(job.right(0)) << "features and weights were not synchronised";
    EXPECT_EQ(client.sync(job.buffers[0][0], rknpu::sync_to_device), 0);
    EXPECT_EQ(client.sync(job.buffers[0][1], rknpu::sync_to_device), 0);
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
    EXPECT_FALSE(job.right(0)) << "the CPU does not see the result yet";
    EXPECT_EQ(client.sync(job.buffers[0][2], rknpu::sync_from_device, 0, 64), 0);
    EXPECT_FALSE(job.right(0)) << "only a part of it";
    EXPECT_EQ(client.sync(job.buffers[0][2], rknpu::sync_from_device), 0);
    EXPECT_TRUE(job.right(0));
}

TEST(StrictSync, GivesNoiseWhereZeroingWasNotAskedFor) {
    SimOptions options = quiet();
    options.strict_sync = true;
    RknpuKernel kernel(options);
    Client client(kernel);
    EXPECT_NE(client.create(4096, rknpu::mem_cacheable).memory[0], std::byte{0});
    EXPECT_EQ(client.create(4096, plain).memory[0], std::byte{0});
}

TEST(KernelThreads, MayAllCallAtOnce) {
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
    EXPECT_TRUE(kernel.findings().empty()) << list_findings(kernel.findings());
}

}  // namespace
}  // namespace npu::sim::test
