// The simulated rocket driver through its system calls: which jobs run, what they compute, how refusals look.
#include <thread>

#include "sim/rocket_client.h"
#include "sim/time_model.h"

namespace npu::sim::test {
namespace {

class RocketSubmit : public RocketFixture {
  protected:
    RocketSubmit() {
        void* pages = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        edge = static_cast<std::byte*>(pages) + 4096;
        EXPECT_EQ(::mprotect(edge, 4096, PROT_NONE), 0);
    }
    ~RocketSubmit() override { ::munmap(edge - 4096, 8192); }
    std::byte* edge;  // readable before, not from here on
};

TEST_F(RocketSubmit, RunsTheTasksOfAJobOneKickEach) {
    RocketWork work(client, 5);
    ASSERT_EQ(work.run(), 0);
    for (std::uint32_t i = 0; i < 5; ++i) {
        EXPECT_TRUE(work.right(i)) << i << list_findings(kernel.findings());
    }
    work.operands[3].b[40] ^= 1;  // the control
    EXPECT_FALSE(work.right(3));
    const KernelStatistics statistics = kernel.statistics();
    EXPECT_EQ(statistics.submissions, 1U);
    EXPECT_EQ(statistics.failed_submissions, 0U);
    EXPECT_EQ(statistics.tasks, 5U);
    EXPECT_EQ(statistics.macs, 5U * 6 * 64 * 32);
    EXPECT_TRUE(kernel.findings().empty()) << list_findings(kernel.findings());
}

TEST(RocketTime, AddsUpWhatTasksWouldTakeAndWarnsOfJobsThatAreTooLong) {
    SimOptions options = rocket_options();
    options.submission_seconds = seconds_by_macs(1e-5);
    RocketKernel kernel(options);
    RocketClient client(kernel);
    RocketWork work(client, 4);
    ASSERT_EQ(work.run(), 0);
    EXPECT_NEAR(kernel.statistics().device_seconds, 4 * 6 * 64 * 32 * 1e-5, 1e-9);
    EXPECT_TRUE(kernel.findings().empty()) << list_findings(kernel.findings());
    RocketWork large(client, 5);
    ASSERT_EQ(large.run(), 0);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::warning, {"5 tasks", "614 ms", "500 ms"}));
}

TEST_F(RocketSubmit, RunsSeveralJobsOfOneCallInOrder) {
    RocketWork first(client, 2, 1);
    RocketWork second(client, 1, 2);
    // The second job overwrites what the first wrote.
    const Matmul over = [&] {
        Matmul matmul = second.matmuls[0];
        matmul.c = first.matmuls[0].c;
        return matmul;
    }();
    second.write_list(0, rocket_program(over), 0x1d);
    second.out = {first.c.handle};
    ASSERT_EQ(client.submit(std::vector{first.job(), second.job()}), 0);
    ASSERT_EQ(first.wait(), 0);
    EXPECT_TRUE(first.right(1));
    EXPECT_FALSE(first.right(0));
    first.operands[0] = second.operands[0];
    EXPECT_TRUE(first.right(0));
    EXPECT_EQ(kernel.statistics().submissions, 2U);
}

TEST_F(RocketSubmit, IgnoresTheNextPointerOfATail) {
    RocketWork work(client, 3);
    work.tasks = {work.tasks[0]};
    ASSERT_EQ(work.run(), 0);
    EXPECT_TRUE(work.right(0));
    EXPECT_TRUE(work.untouched(1));
    EXPECT_TRUE(work.untouched(2));
    EXPECT_EQ(kernel.statistics().tasks, 1U);
}

TEST_F(RocketSubmit, TakesAListAtAddressZero) {
    RocketWork work(client, 1);
    EXPECT_EQ(work.lists.iova, 0U);
    EXPECT_EQ(work.tasks[0].regcmd, 0U);
    ASSERT_EQ(work.run(), 0);
    EXPECT_TRUE(work.right(0)) << list_findings(kernel.findings());
}

TEST_F(RocketSubmit, WalksArraysWithTheSizesOfTheClient) {
    struct LargeTask {
        rocket::Task task;
        std::uint32_t more[3];
    };
    struct LargeJob {
        rocket::Job job;
        std::uint64_t more[4];
    };
    RocketWork first(client, 3, 1);
    RocketWork second(client, 2, 2);
    std::vector<LargeTask> tasks;
    for (const rocket::Task& task : first.tasks) {
        tasks.push_back({task, {0xdead, 0xbeef, 0xffffffff}});
    }
    LargeJob large{first.job(), {1, 2, 3, 4}};
    large.job.tasks = address_of(tasks.data());
    large.job.task_struct_size = sizeof(LargeTask);
    ASSERT_EQ(client.submit(std::vector{large, LargeJob{second.job(), {}}}), 0);
    ASSERT_EQ(first.wait(), 0);
    ASSERT_EQ(second.wait(), 0);
    EXPECT_TRUE(first.right(0) && first.right(1) && first.right(2));
    EXPECT_TRUE(second.right(0) && second.right(1));
    ASSERT_EQ(kernel.findings().size(), 1U) << list_findings(kernel.findings());
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::warning, {"job 0", "flags 0x1 are ignored"}));
}

TEST_F(RocketSubmit, ChecksTheStructOfTheCallInTheOrderOfTheDriver) {
    RocketWork work(client, 1);
    const rocket::Job job = work.job();
    const auto submit = [&](std::uint64_t jobs, std::uint32_t count, std::uint32_t size, std::uint64_t reserved) {
        rocket::Submit arguments{.jobs = jobs, .job_count = count, .job_struct_size = size, .reserved = reserved};
        return client.call(rocket::ioctl_submit, arguments);
    };
    EXPECT_EQ(submit(0, 0, 0, 1), 0) << "no jobs: nothing else is looked at";
    EXPECT_EQ(submit(address_of(&job), 1, sizeof job - 1, 0), EINVAL);
    EXPECT_EQ(submit(address_of(&job), 1, sizeof job, 1), EINVAL);
    EXPECT_EQ(submit(0, 1, sizeof job, 0), EFAULT);
    EXPECT_EQ(submit(address_of(edge), 1, sizeof job, 0), EFAULT);
    std::memcpy(edge - sizeof job, &job, sizeof job);
    EXPECT_EQ(submit(address_of(edge - sizeof job), 2, sizeof job, 0), EFAULT) << "the second cannot be read";
    EXPECT_EQ(submit(address_of(&job), 0xffffffff, sizeof job, 0), ENOMEM);
    kernel.drain();
    EXPECT_EQ(kernel.statistics().submissions, 0U);
    EXPECT_TRUE(work.untouched(0));
    EXPECT_EQ(submit(address_of(edge - sizeof job), 1, sizeof job, 0), 0);
    EXPECT_EQ(work.wait(), 0);
    EXPECT_TRUE(work.right(0));
}

// What the driver finds wrong with one job.
struct BadJob {
    const char* name;
    std::function<void(RocketWork&, rocket::JobWithFlags&)> edit;
    int stock;  // what 0.0 returns
    int patched;
    std::vector<std::string> texts;
};

std::vector<BadJob> bad_jobs(const std::byte* edge) {
    const std::uint64_t bad = address_of(edge);
    return {
        {"no tasks", [](auto&, auto& j) { j.job.task_count = 0; }, 0, EINVAL, {"task_count"}},
        {"no words", [](auto& w, auto&) { w.tasks[0].regcmd_count = 0; }, 0, EINVAL, {"task 0", "regcmd_count"}},
        {"small task", [](auto&, auto& j) { j.job.task_struct_size = 7; }, EINVAL, EINVAL, {"task_struct_size 7"}},
        {"null tasks", [](auto&, auto& j) { j.job.tasks = 0; }, EFAULT, EFAULT, {"tasks cannot be read"}},
        {"bad tasks", [bad](auto&, auto& j) { j.job.tasks = bad; }, EFAULT, EFAULT, {"tasks cannot be read"}},
        {"bad inputs", [bad](auto&, auto& j) { j.job.in_bo_handles = bad; }, EFAULT, EFAULT, {"handles"}},
        {"null outputs", [](auto&, auto& j) { j.job.out_bo_handles = 0; }, EFAULT, EFAULT, {"handles"}},
        {"unknown input", [](auto& w, auto&) { w.in[1] = 9999; }, ENOENT, ENOENT, {"handle 9999"}},
        {"unknown output", [](auto& w, auto&) { w.out[0] = 9998; }, ENOENT, ENOENT, {"handle 9998"}},
        {"in and out", [](auto& w, auto&) { w.in[0] = w.out[0]; }, 0, 0, {"listed twice", "reports success"}},
        {"twice in", [](auto& w, auto&) { w.in[0] = w.in[1]; }, 0, 0, {"listed twice"}},
    };
}

TEST_F(RocketSubmit, DropsJobsThatItCannotRunAndSaysSoOnlyInTheFindings) {
    for (const BadJob& bad : bad_jobs(edge)) {
        RocketWork before(client, 1, 1);
        RocketWork work(client, 1, 2);
        RocketWork after(client, 1, 3);
        rocket::JobWithFlags job = work.job_with(0);
        bad.edit(work, job);
        EXPECT_EQ(client.submit(std::vector{before.job(), job.job, after.job()}), bad.stock) << bad.name;
        kernel.drain();
        EXPECT_EQ(work.wait(), 0) << bad.name << ": nothing to wait for";
        EXPECT_TRUE(work.untouched(0)) << bad.name;
        EXPECT_TRUE(before.right(0)) << bad.name;
        EXPECT_EQ(after.right(0), bad.stock == 0) << bad.name << ": a stock kernel stops where it panics";
        auto texts = bad.texts;
        texts.insert(texts.end(), {"SUBMIT, job 1", bad.stock == 0 ? "drops the job" : "null pointer"});
        EXPECT_TRUE(has_finding(kernel.findings(), bad.stock == 0 ? Severity::corrupt : Severity::hang, texts))
            << bad.name << list_findings(kernel.findings());
        kernel.clear_findings();
    }
}

TEST_F(RocketSubmit, ReportsJobsThatItCannotRunSinceThePatches) {
    RocketKernel patched(rocket_options({1, 5}));
    RocketClient user(patched);
    for (const BadJob& bad : bad_jobs(edge)) {
        RocketWork work(user, 1, 2);
        RocketWork after(user, 1, 3);
        rocket::JobWithFlags job = work.job_with(0);
        bad.edit(work, job);
        EXPECT_EQ(user.submit(std::vector{job, after.job_with(0)}), bad.patched) << bad.name;
        patched.drain();
        EXPECT_EQ(work.wait(), 0) << bad.name;
        EXPECT_TRUE(work.untouched(0)) << bad.name;
        EXPECT_EQ(after.right(0), bad.patched == 0) << bad.name;
        auto texts = bad.texts;
        texts.emplace_back("SUBMIT, job 0");
        EXPECT_TRUE(has_finding(patched.findings(), bad.patched == 0 ? Severity::corrupt : Severity::warning, texts))
            << bad.name << list_findings(patched.findings());
        patched.clear_findings();
    }
}

TEST_F(RocketSubmit, NeedsNoHandlesAtAll) {
    RocketWork work(client, 1);
    rocket::Job job = work.job();
    job.in_bo_handles = job.out_bo_handles = 0;
    job.in_bo_handle_count = job.out_bo_handle_count = 0;
    ASSERT_EQ(client.submit(std::vector{job}), 0);
    kernel.drain();
    EXPECT_TRUE(work.right(0)) << "the job reaches everything in the address space of its file";
}

TEST_F(RocketSubmit, ReachesOnlyTheBuffersOfItsFile) {
    RocketClient stranger(kernel);
    stranger.create(1 << 20);
    const auto foreign = stranger.create(4096);
    std::memset(foreign.memory, 0x77, foreign.bytes);
    RocketWork work(client, 2);
    work.matmuls[1].c = static_cast<std::uint32_t>(foreign.iova);
    ASSERT_GT(foreign.iova, work.c.iova) << "mapped for the stranger and nobody else";
    work.write_list(1, rocket_program(work.matmuls[1]), 0x1d);
    ASSERT_EQ(work.run(), 0) << "no error reaches the client";
    EXPECT_TRUE(work.right(0));
    EXPECT_TRUE(work.untouched(1));
    EXPECT_EQ(foreign.memory[0], std::byte{0x77});
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"DMA error: output"}))
        << list_findings(kernel.findings());
    EXPECT_EQ(kernel.findings()[0].task, 1U) << "the index in the job, not in the kick";
    EXPECT_EQ(kernel.statistics().failed_submissions, 1U);
}

TEST_F(RocketSubmit, SurvivesProgramsThatAreGarbage) {
    RocketWork work(client, 1);
    std::mt19937 random(3);
    const auto run_garbage = [&](auto fill) {
        for (std::size_t i = 0; i < 512; ++i) {
            const std::uint64_t word = fill();
            std::memcpy(work.lists.memory + 8 * i, &word, sizeof word);
        }
        ASSERT_EQ(work.run(), 0);
        EXPECT_TRUE(work.untouched(0));
    };
    run_garbage([] { return 0; });
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"no enable word"})) << list_findings(kernel.findings());
    run_garbage([] { return ~std::uint64_t{0}; });
    run_garbage([&] { return std::uint64_t{random()} << 32 | random(); });
    work.tasks[0].regcmd = 0xfffffff0;  // nothing there
    run_garbage([] { return 0; });
    work.tasks[0] = {8, work.words};  // not aligned
    run_garbage([] { return 0; });
    work.tasks[0] = {0, 0xffffffff};
    run_garbage([] { return 0; });
    EXPECT_EQ(kernel.statistics().failed_submissions, 6U);
    work.tasks[0] = {0, work.words};
    work.write_list(0, rocket_program(work.matmuls[0]), 0x1d);
    ASSERT_EQ(work.run(), 0) << "and goes on";
    EXPECT_TRUE(work.right(0));
}

TEST_F(RocketSubmit, ForgetsTheRegistersOfACoreOnlyWhenItResetsIt) {
    RocketWork work(client, 2);
    ASSERT_EQ(work.run(), 0);  // both register groups are filled now
    std::memset(work.c.memory, 0xee, work.c.bytes);
    Program delta;
    delta.set(0x4004, 0xe);
    delta.set(0x5004, 0xe);
    delta.set(0x4020, work.matmuls[0].c);
    delta.set(0x1070, work.matmuls[0].a);
    delta.set(0x1110, work.matmuls[0].b);
    const auto words = delta.words(0x1d);
    const auto run_delta = [&](std::uint32_t core_jobs) {
        // A file alone alternates between two cores: this many jobs of the same core are every second one.
        for (std::uint32_t i = 0; i < core_jobs; ++i) {
            std::memcpy(work.lists.memory, words.data(), words.size() * 8);
            work.tasks = {{0, static_cast<std::uint32_t>(words.size())}};
            ASSERT_EQ(work.run(), 0);
        }
    };
    run_delta(1);  // on core 1, whose registers nobody wrote
    EXPECT_TRUE(work.untouched(0));
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"never written"})) << list_findings(kernel.findings());
    kernel.clear_findings();
    run_delta(1);  // on core 0
    EXPECT_TRUE(work.right(0)) << list_findings(kernel.findings());
}

}  // namespace
}  // namespace npu::sim::test
