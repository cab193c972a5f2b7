// The simulated rknpu driver: blocking jobs, cores, interrupts, refusals and time-outs.
#include <gtest/gtest.h>

#include <atomic>

#include "sim/kernel_client.h"
#include "sim/time_model.h"

namespace npu::sim::test::vendor {
namespace {

class KernelSubmit : public KernelFixture {
  protected:
    // SUBMIT of a job with some of its arguments changed.
    template <typename Edit>
    int submit(const Job& job, Edit edit) {
        rknpu::Submit arguments = job.arguments();
        edit(arguments);
        return client.call(rknpu::ioctl_submit, arguments);
    }
};

TEST_F(KernelSubmit, RunsAChainAndReportsCountersTimeAndInterruptStatus) {
    SimOptions options = quiet();
    std::atomic<int> calls{0};
    options.on_task = [&calls](const TaskWork&) { ++calls; };
    options.submission_seconds = seconds_by_macs(1e-9);
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
    const KernelStatistics statistics = timed.statistics();
    EXPECT_EQ(arguments.hw_elapse_time, static_cast<std::int64_t>(statistics.macs));
    EXPECT_GE(statistics.macs, 5U * 6 * 64 * 64);
    EXPECT_EQ(job.task(4).int_status, 0x300U);
    EXPECT_EQ(job.task(0).int_status, 0U);
    EXPECT_EQ(statistics.submissions, 1U);
    EXPECT_EQ(statistics.failed_submissions, 0U);
    EXPECT_EQ(statistics.tasks, 5U);
    EXPECT_EQ(statistics.output_bytes, 5U * 6 * 64 * 4);
    EXPECT_TRUE(timed.findings().empty()) << list_findings(timed.findings());
}

TEST_F(KernelSubmit, StartsInTheMiddleOfTheTaskListWhereTheCoresEntrySays) {
    Job job(client, 4);
    auto arguments = job.arguments();
    arguments.subcore_task[0] = {1, 2};
    arguments.task_number = 77;  // is what the counter gets, and nothing else
    ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0);
    EXPECT_TRUE(job.untouched(0) && job.right(1) && job.right(2) && job.untouched(3));
    EXPECT_EQ(arguments.task_counter, 77U);
    EXPECT_TRUE(kernel.findings().empty());
    EXPECT_EQ(submit(job, [](auto& a) { a.task_start = 3; }), 0) << "task_start is not read";
    EXPECT_TRUE(job.right(0) && job.right(3));
    EXPECT_TRUE(found(Severity::warning, {"task_start 3", "subcore_task"}));
}

TEST(KernelSubmitOneCore, ReadsTaskStartAndNumberOnAChipWithOneCore) {
    rockchip::ChipProfile chip = rockchip::rk3588();
    chip.cores = 1;
    SimOptions options = quiet();
    options.chip = &chip;
    RknpuKernel kernel(options);
    Client client(kernel);
    Job job(client, 3);
    auto arguments = job.arguments();
    arguments.task_start = 1;
    arguments.task_number = 2;
    std::fill(std::begin(arguments.subcore_task), std::end(arguments.subcore_task), rknpu::SubcoreTask{0, 0});
    ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0) << list_findings(kernel.findings());
    EXPECT_TRUE(job.untouched(0) && job.right(1) && job.right(2));
    EXPECT_EQ(job.submit(2), EINVAL) << "it has no second core";
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
        EXPECT_EQ(arguments.core_mask, one.mask == 0 ? 1U : one.mask) << "the choice comes back";

        // The control: entries one off are not read.
        std::rotate(std::begin(arguments.subcore_task), std::begin(arguments.subcore_task) + 4,
                    std::end(arguments.subcore_task));
        EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT) << one.mask;
        EXPECT_TRUE(found(Severity::hang, {"subcore_task"}));
        kernel.clear_findings();
    }
}

TEST_F(KernelSubmit, NeverRunsTheMasksThatTheDriverDoesNotKnow) {
    Job job(client, 1);
    for (const std::uint32_t mask : {5U, 6U}) {
        auto arguments = job.arguments(mask);
        EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
        EXPECT_EQ(arguments.task_counter, 0U);
        EXPECT_TRUE(found(Severity::hang, {mask == 5 ? "core_mask 5" : "core_mask 6", "never starts"}));
    }
    EXPECT_EQ(job.submit(8), EINVAL);
    EXPECT_TRUE(job.untouched(0));
    EXPECT_EQ(kernel.statistics().submissions, 2U);
    EXPECT_EQ(kernel.statistics().failed_submissions, 2U);
}

TEST_F(KernelSubmit, WaitsForExactlyThePairOfInterruptsThatFires) {
    for (const std::uint32_t mask : {0x100U, 0x200U, 0xc00U, 0xf00U, 0U, 0x303U}) {
        Job job(client, 2);
        job.set_task(1, mask, Job::body_words());
        auto arguments = job.arguments();
        EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT) << mask;
        EXPECT_EQ(arguments.task_counter, 2U) << "the tasks did run";
        EXPECT_EQ(arguments.hw_elapse_time, 0);
        EXPECT_TRUE(job.right(0) && job.right(1));
        EXPECT_TRUE(found(Severity::hang, {"int_mask", "0x300"}));
        kernel.clear_findings();
    }
    Job job(client, 2);  // only the last task's mask counts
    job.set_task(0, 0x100, Job::body_words());
    EXPECT_EQ(job.submit(), 0);
}

TEST_F(KernelSubmit, LenientModeCompletesWhateverTheMask) {
    SimOptions options = quiet();
    options.mode = Mode::lenient;
    RknpuKernel lenient(options);
    Client user(lenient);
    Job job(user, 1);
    job.set_task(0, 0x100, Job::body_words());
    EXPECT_EQ(job.submit(), 0);
    EXPECT_TRUE(job.right(0));
    EXPECT_TRUE(has_finding(lenient.findings(), Severity::hang, {"int_mask"}));
}

TEST_F(KernelSubmit, EndsTooEarlyWhenTheMaskNamesABlockBeforeTheDpu) {
    for (const std::uint32_t mask : {0x3U, 0xcU, 0x30U, 0xc0U}) {
        Job job(client, 1);
        job.set_task(0, mask, Job::body_words());
        EXPECT_EQ(job.submit(), 0);
        EXPECT_EQ(job.task(0).int_status, mask);
        EXPECT_TRUE(found(Severity::corrupt, {"int_mask", "before the outputs"}));
        kernel.clear_findings();
    }
}

TEST_F(KernelSubmit, ChecksItsArguments) {
    Job job(client, 1);
    EXPECT_EQ(submit(job, [](auto& a) { a.task_number = 0; }), EINVAL);
    EXPECT_EQ(submit(job, [](auto& a) { a.iommu_domain_id = 16; }), EINVAL);
    EXPECT_EQ(submit(job, [](auto& a) { a.iommu_domain_id = static_cast<std::uint32_t>(-2); }), EINVAL);
    EXPECT_TRUE(kernel.findings().empty());
    EXPECT_EQ(submit(job, [](auto& a) { a.flags = rknpu::job_pingpong; }), EINVAL);
    EXPECT_TRUE(found(Severity::hang, {"without the PC flag"}));
    for (const std::uint64_t token : {std::uint64_t{0}, std::uint64_t{0xffffff8000000000}}) {
        kernel.clear_findings();
        EXPECT_EQ(submit(job, [&](auto& a) { a.task_obj_addr = token; }), EINVAL);
        EXPECT_TRUE(found(Severity::hang, {"SUBMIT", "panic"}));
    }
    EXPECT_EQ(submit(job, [&](auto& a) { a.task_obj_addr = job.lists.token; }), EINVAL);
    EXPECT_TRUE(found(Severity::hang, {"kernel mapping"}));
    EXPECT_TRUE(job.untouched(0));
    EXPECT_EQ(kernel.statistics().submissions, 0U);
    EXPECT_EQ(submit(job, [](auto& a) { a.subcore_task[0] = {0, 200}; }), ETIMEDOUT);
    EXPECT_TRUE(found(Severity::hang, {"outside the task object"}));
    for (const std::int32_t priority : {-100, 0, 100}) {
        EXPECT_EQ(submit(job, [&](auto& a) { a.priority = priority; }), 0);
    }
    EXPECT_EQ(submit(job, [](auto& a) { a.flags = rknpu::job_pc; }), 0) << "without PINGPONG";
    EXPECT_TRUE(job.right(0));
}

TEST_F(KernelSubmit, AddsTheTaskBaseToTheAddressesOfTheTasks) {
    Job job(client, 1);
    constexpr std::uint32_t base = 0x100000;
    job.matmuls[0].a -= base;
    job.matmuls[0].b -= base;
    job.matmuls[0].c -= base;
    job.write_list(0, false);
    EXPECT_EQ(job.submit(), ETIMEDOUT) << "the control: not there";
    EXPECT_EQ(submit(job, [](auto& a) { a.task_base_addr = base; }), 0) << list_findings(kernel.findings());
    job.matmuls[0].c += base;
    EXPECT_TRUE(job.right(0));
}

TEST_F(KernelSubmit, TakesTheLowHalfOfTheListsAddress) {
    Job job(client, 1);
    rknpu::Task task = job.task(0);
    task.regcmd_addr |= std::uint64_t{5} << 32;
    std::memcpy(job.descriptors.memory, &task, sizeof task);
    EXPECT_EQ(job.submit(), 0);
    EXPECT_TRUE(job.right(0));
    EXPECT_TRUE(found(Severity::corrupt, {"regcmd_addr", "low half"}));
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
        EXPECT_TRUE(found(Severity::hang, {"DMA error", "outputs"})) << list_findings(kernel.findings());
        kernel.clear_findings();
    }
    EXPECT_TRUE(job.right(0));
    EXPECT_TRUE(job.untouched(1));
    EXPECT_EQ(foreign.memory[0], std::byte{0x77});
    job.matmuls[1].c = static_cast<std::uint32_t>(job.buffers[1][2].iova);  // and works again afterwards
    job.write_list(1, false);
    EXPECT_EQ(job.submit(), 0) << list_findings(kernel.findings());
    EXPECT_TRUE(job.right(1));
}

TEST_F(KernelSubmit, ReportsTheCounterOfTheFirstCoreOfTheMask) {
    Job job(client, 3);
    job.write_list(0, false);
    auto arguments = job.arguments(3);
    arguments.subcore_task[0] = {1, 2};
    arguments.subcore_task[1] = {0, 1};
    job.set_task(0, 0xc00, Job::body_words());  // the second core never completes
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_EQ(arguments.task_counter, 2U) << "the first one did";
    EXPECT_EQ(job.submit(1), ETIMEDOUT) << "a chain that ends after one task of three";
}

TEST_F(KernelSubmit, ForgetsAnObjectOnceNobodyHoldsIt) {
    Job job(client, 1);
    ASSERT_EQ(job.submit(), 0);
    ASSERT_EQ(client.close_handle(job.buffers[0][1]), 0);
    EXPECT_EQ(job.submit(), 0) << "the mapping still holds it";
    client.unmap(job.buffers[0][1]);
    EXPECT_EQ(job.submit(), ETIMEDOUT);
    EXPECT_TRUE(found(Severity::hang, {"DMA error", "weights"})) << list_findings(kernel.findings());
}

TEST_F(KernelSubmit, ResetsAllCoresAfterAHangAndOnRequest) {
    Job job(client, 3);
    ASSERT_EQ(job.submit(), 0);
    // A delta list is enough now, and no longer after a reset.
    Program delta;
    delta.set(0x4004, 0xe);
    delta.set(0x4020, job.matmuls[1].c);
    const auto words = delta.words();
    std::memcpy(job.lists.memory, words.data(), words.size() * 8);
    job.set_task(0, 0x300, static_cast<std::uint32_t>(delta.size()));
    const auto first = [](auto& a) { a.subcore_task[0] = {0, 1}; };
    EXPECT_EQ(submit(job, first), 0) << list_findings(kernel.findings());
    ASSERT_EQ(client.reset(), 0);
    EXPECT_EQ(submit(job, first), ETIMEDOUT);
    EXPECT_TRUE(found(Severity::hang, {"never written"}));

    Job full(client, 3, 2);  // the other way round: a time-out of core 1 resets core 0
    ASSERT_EQ(full.submit(), 0);
    EXPECT_EQ(submit(job, first), 0);
    full.make_endless();
    EXPECT_EQ(full.submit(2), ETIMEDOUT);
    EXPECT_EQ(submit(job, first), ETIMEDOUT);
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
    const auto write = [&](std::uint32_t i, rknpu::Task value) {
        std::memcpy(many.memory + sizeof value * i, &value, sizeof value);
    };
    for (std::uint32_t i = 0; i < count; ++i) {
        write(i, task);
    }
    auto arguments = job.arguments();
    arguments.task_obj_addr = many.token;
    arguments.task_number = count;
    arguments.subcore_task[0] = {0, count};
    ASSERT_EQ(client.call(rknpu::ioctl_submit, arguments), 0) << list_findings(kernel.findings());
    EXPECT_EQ(kernel.statistics().tasks, count);
    EXPECT_EQ(arguments.task_counter, count);
    const auto status = [&](std::uint32_t i) {
        rknpu::Task read;
        std::memcpy(&read, many.memory + sizeof read * i, sizeof read);
        return static_cast<std::uint32_t>(read.int_status);
    };
    EXPECT_EQ(status(rknpu::max_tasks_per_submit - 1), 0x300U) << "the last task of the first piece";
    EXPECT_EQ(status(count - 1), 0x300U);
    EXPECT_EQ(status(5), 0U);
    // Each piece waits for the mask of its own last task, and the counter counts its own tasks.
    rknpu::Task endless = task;
    endless.int_mask = 0xc00;
    write(count - 1, endless);
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_EQ(arguments.task_counter, 3U);
    write(count - 1, task);
    write(rknpu::max_tasks_per_submit - 1, endless);
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_EQ(arguments.task_counter, rknpu::max_tasks_per_submit);
}

TEST_F(KernelSubmit, MergesEqualFindings) {
    Job job(client, 1);
    Program program = matmul_program(job.matmuls[0]);
    program.set(0x1010, 0);  // a warning
    const auto words = program.words();
    std::memcpy(job.lists.memory, words.data(), words.size() * 8);
    for (int i = 0; i < 5; ++i) {
        ASSERT_EQ(job.submit(), 0);
    }
    ASSERT_EQ(kernel.findings().size(), 1U);
    EXPECT_EQ(kernel.findings()[0].count, 5U);
    EXPECT_EQ(kernel.findings()[0].severity, Severity::warning);
}

TEST(KernelSubmitRealTime, AHangTakesItsTimeoutAndOneBehindItThreeTimesThat) {
    SimOptions options = quiet();
    options.real_time = true;
    RknpuKernel kernel(options);
    Client client(kernel);
    Job good(client, 1);
    EXPECT_EQ(good.submit(), 0);
    Job endless(client, 1);
    endless.make_endless();
    const auto duration_of = [&](const Job& job, int expected) {
        auto arguments = job.arguments();
        arguments.timeout = 20;
        const auto start = std::chrono::steady_clock::now();
        EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), expected);
        return std::chrono::steady_clock::now() - start;
    };
    using std::chrono::milliseconds;
    EXPECT_GE(duration_of(endless, ETIMEDOUT), milliseconds(20 + 100 + 107));
    EXPECT_EQ(endless.submit(1, rknpu::job_nonblock), 0);
    EXPECT_GE(duration_of(good, ETIMEDOUT), milliseconds(3 * 20 + 100 + 107));
    EXPECT_EQ(good.submit(), 0);
}

}  // namespace
}  // namespace npu::sim::test::vendor
