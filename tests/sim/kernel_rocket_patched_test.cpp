// The simulated rocket driver as patched kernels offer it: chained jobs, job flags, which interrupt ends a job.
#include "sim/rocket_client.h"

namespace npu::sim::test {
namespace {

TEST(RocketPatched, RunsAChainInOneKick) {
    for (const std::uint32_t minor : {1U, 5U}) {
        RocketKernel kernel(rocket_options({1, minor}));
        RocketClient client(kernel);
        RocketWork work(client, 7);
        // Only the head is looked at: the chain is in the lists.
        for (std::uint32_t i = 1; i < 7; ++i) {
            work.tasks[i] = {0xdead0000, 1};
        }
        ASSERT_EQ(client.submit(std::vector{work.job_with(rocket::job_batched)}), 0);
        ASSERT_EQ(work.wait(), 0);
        for (std::uint32_t i = 0; i < 7; ++i) {
            EXPECT_TRUE(work.right(i)) << i << list_findings(kernel.findings());
        }
        // The control: without the flag the other descriptors count.
        ASSERT_EQ(client.submit(std::vector{work.job_with(0)}), 0);
        ASSERT_EQ(work.wait(), 0);
        EXPECT_EQ(kernel.statistics().failed_submissions, 1U);
        EXPECT_EQ(kernel.statistics().tasks, 7U + 1);
    }
}

TEST(RocketPatched, HangsWhereAChainEndsBeforeItsCount) {
    RocketKernel kernel(rocket_options({1, 5}));
    RocketClient client(kernel);
    RocketWork work(client, 3);
    work.tasks.push_back(work.tasks[0]);
    ASSERT_EQ(client.submit(std::vector{work.job_with(rocket::job_batched)}), 0);
    ASSERT_EQ(work.wait(), 0);
    EXPECT_TRUE(work.right(2));
    EXPECT_EQ(kernel.statistics().failed_submissions, 1U);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"TASK_NUMBER is 4"}));
}

TEST(RocketPatched, ChecksTheFieldsThatWereAdded) {
    RocketKernel kernel(rocket_options({1, 5}));
    RocketClient client(kernel);
    RocketWork work(client, 1);
    const auto submit = [&](auto job) {
        const int error = client.submit(std::vector{job});
        kernel.drain();
        return error;
    };
    EXPECT_EQ(submit(work.job()), 0) << "the old struct";
    EXPECT_EQ(submit(work.job_with(0)), 0);
    EXPECT_EQ(submit(work.job_with(8)), EINVAL);
    rocket::JobWithFlags reserved = work.job_with(0);
    reserved.reserved = 1;
    EXPECT_EQ(submit(reserved), EINVAL);
    struct Newer {
        rocket::JobWithFlags job;
        std::uint8_t more[8];
    };
    EXPECT_EQ(submit(Newer{work.job_with(rocket::job_batched), {}}), 0) << "56 bytes, the rest zero";
    EXPECT_EQ(submit(Newer{work.job_with(0), {0, 0, 0, 0, 0, 0, 0, 1}}), E2BIG);
    rocket::Submit huge{.jobs = 0, .job_count = 1, .job_struct_size = 4097, .reserved = 0};
    EXPECT_EQ(client.call(rocket::ioctl_submit, huge), E2BIG);
    RocketKernel older(rocket_options({1, 2}));
    RocketClient user(older);
    RocketWork old_work(user, 1);
    EXPECT_EQ(user.submit(std::vector{old_work.job_with(rocket::job_batched)}), 0);
    EXPECT_EQ(user.submit(std::vector{old_work.job_with(rocket::job_ppu_done)}), EINVAL);
    RocketWork many(client, 1);
    many.tasks.resize(rocket::max_batched_tasks + 1, many.tasks[0]);
    EXPECT_EQ(submit(many.job_with(rocket::job_batched)), EINVAL);
    EXPECT_EQ(submit(many.job_with(0)), 0) << "by hand there is no such limit";
}

// A maximum over one pixel: copies a feature cube through the PPU.
Program pooling_program(std::uint32_t from, std::uint32_t to) {
    Program p;
    p.set(0x6004, 0xe);
    p.set(0x7004, 0xe);
    for (const std::uint16_t offset : {0x600c, 0x6010, 0x6018, 0x601c, 0x700c, 0x7010}) {
        p.set(offset, 3);  // four pixels wide and high
    }
    for (const std::uint16_t offset : {0x6014, 0x6020, 0x7014}) {
        p.set(offset, 7);  // eight channels
    }
    p.set(0x6024, 0x10 | 1);
    p.set(0x6034, 0);
    p.set(0x6038, 0x7c00);
    p.set(0x603c, 0x7c00);
    p.set(0x6040, 0);
    p.set(0x6044, 0xfc00);
    p.set(0x6048, 0);
    p.set(0x6070, to);
    p.set(0x607c, 256);
    p.set(0x6084, 2);
    p.set(0x60dc, 3);
    p.set(0x701c, from);
    p.set(0x7024, 64);
    p.set(0x7028, 256);
    p.set(0x7030, 2);
    return p;
}

TEST(RocketInterrupts, OnlyThoseThatTheDriverWaitsForCompleteAJob) {
    struct Case {
        RocketInterface version;
        std::uint32_t flags;
        bool completes;
    };
    for (const Case& one : {Case{{0, 0}, 0, false}, Case{{1, 5}, 0, false}, Case{{1, 5}, rocket::job_ppu_done, true},
                            Case{{1, 5}, rocket::job_ppu_done | rocket::job_no_dpu_done, true},
                            Case{{1, 5}, rocket::job_no_dpu_done, true}}) {
        RocketKernel kernel(rocket_options(one.version));
        RocketClient client(kernel);
        RocketWork work(client, 1);
        std::mt19937 random(4);
        const auto values = random_codes(Precision::fp16, 128, random, Range::moderate);
        for (std::size_t i = 0; i < values.size(); ++i) {
            write_element(work.a.memory, i * 16, 16, values[i]);
        }
        const Program program = pooling_program(work.matmuls[0].a, work.matmuls[0].c);
        work.write_list(0, program, 0x60);
        work.tasks[0].regcmd_count = static_cast<std::uint32_t>(program.size() + 4);
        ASSERT_EQ(client.submit(std::vector{work.job_with(one.flags)}), 0);
        ASSERT_EQ(work.wait(), 0) << "the fence signals either way";
        EXPECT_EQ(std::memcmp(work.a.memory, work.c.memory, 256), 0)
            << "the task itself ran" << list_findings(kernel.findings());
        EXPECT_EQ(kernel.statistics().failed_submissions, one.completes ? 0U : 1U) << one.version.major << one.flags;
        EXPECT_EQ(has_finding(kernel.findings(), Severity::hang, {"PPU_DONE"}), !one.completes);
    }
    // The other way round: a task that ends in the DPU.
    RocketKernel kernel(rocket_options({1, 5}));
    RocketClient client(kernel);
    RocketWork work(client, 1);
    ASSERT_EQ(client.submit(std::vector{work.job_with(rocket::job_ppu_done | rocket::job_no_dpu_done)}), 0);
    ASSERT_EQ(work.wait(), 0);
    EXPECT_EQ(kernel.statistics().failed_submissions, 1U);
    ASSERT_EQ(client.submit(std::vector{work.job_with(rocket::job_ppu_done)}), 0);
    ASSERT_EQ(work.wait(), 0);
    EXPECT_EQ(kernel.statistics().failed_submissions, 1U);
}

}  // namespace
}  // namespace npu::sim::test
