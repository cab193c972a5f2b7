// The simulated rocket driver through its system calls: on which cores jobs run, files and threads side by side, faults on
// request.
#include <atomic>
#include <thread>

#include "sim/rocket_client.h"

namespace npu::sim::test {
namespace {

// Options whose faults never happen and count the jobs of each core.
SimOptions counting(SimOptions options = rocket_options()) {
    options.faults = Faults::parse("time-out@core=0@at=9999,time-out@core=1@at=9999,time-out@core=2@at=9999").value();
    return options;
}

std::vector<unsigned> jobs_per_core(const Faults& faults) {
    std::vector<unsigned> jobs;
    std::string report = faults.report();
    for (auto at = report.find(" of "); at != std::string::npos; at = report.find(" of ", at + 1)) {
        jobs.push_back(static_cast<unsigned>(std::stoul(report.substr(at + 4))));
    }
    return jobs;
}

TEST(RocketCores, OfOneFileAreTwoInTurnAndNeverTheThird) {
    const SimOptions options = counting();
    RocketKernel kernel(options);
    RocketClient client(kernel);
    RocketWork work(client, 1);
    for (int i = 0; i < 9; ++i) {
        ASSERT_EQ(work.run(), 0);
    }
    EXPECT_EQ(jobs_per_core(options.faults), (std::vector<unsigned>{5, 4, 0}));
}

TEST(RocketCores, StayTheSameWhileAFileHasJobsThatAreNotDone) {
    Gate gate;
    SimOptions options = counting();
    options.on_task = gate.hook();
    RocketKernel kernel(options);
    RocketClient client(kernel);
    RocketWork work(client, 1);
    gate.shut();
    for (int i = 0; i < 6; ++i) {
        ASSERT_EQ(work.submit(), 0);
    }
    gate.wait_until_held(1);  // one at a time
    gate.open();
    kernel.drain();
    EXPECT_EQ(jobs_per_core(options.faults), (std::vector<unsigned>{6, 0, 0}));
}

TEST(RocketCores, AreAllBusyWithThreeFiles) {
    Gate gate;
    SimOptions options = counting();
    options.on_task = gate.hook();
    RocketKernel kernel(options);
    gate.shut();
    std::vector<std::unique_ptr<RocketClient>> clients;
    std::vector<std::unique_ptr<RocketWork>> works;
    for (std::uint32_t i = 0; i < 3; ++i) {
        clients.push_back(std::make_unique<RocketClient>(kernel));
        works.push_back(std::make_unique<RocketWork>(*clients[i], 1, i));
        ASSERT_EQ(works[i]->submit(), 0);
    }
    gate.wait_until_held(3);  // side by side
    EXPECT_EQ(jobs_per_core(options.faults), (std::vector<unsigned>{1, 1, 1}));
    clients.push_back(std::make_unique<RocketClient>(kernel));
    works.push_back(std::make_unique<RocketWork>(*clients[3], 1, 3));
    ASSERT_EQ(works[3]->submit(), 0);
    gate.open();
    kernel.drain();
    for (const auto& work : works) {
        EXPECT_TRUE(work->right(0));
    }
    EXPECT_EQ(jobs_per_core(options.faults), (std::vector<unsigned>{2, 1, 1})) << "the first of equal scores";
}

TEST(RocketCores, RunOneAtATimeWhereTheHostAllowsNoMore) {
    std::atomic<int> running{0};
    std::atomic<int> most{0};
    SimOptions options = rocket_options();
    options.host_threads = 1;
    options.on_task = [&](const TaskWork&) {
        const int now = ++running;
        most = std::max(most.load(), now);
        std::this_thread::yield();
        --running;
    };
    RocketKernel kernel(options);
    std::vector<std::unique_ptr<RocketClient>> clients;
    std::vector<std::unique_ptr<RocketWork>> works;
    for (std::uint32_t i = 0; i < 6; ++i) {
        clients.push_back(std::make_unique<RocketClient>(kernel));
        works.push_back(std::make_unique<RocketWork>(*clients[i], 4, i));
        ASSERT_EQ(works[i]->submit(), 0);
    }
    kernel.drain();
    EXPECT_EQ(most, 1);
    EXPECT_EQ(kernel.statistics().tasks, 24U);
    EXPECT_TRUE(works[5]->right(3));
}

TEST(RocketThreads, MayAllCallAtOnce) {
    RocketKernel kernel(rocket_options({1, 5}));
    RocketClient shared(kernel);
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint32_t round = 0; round < 8; ++round) {
                RocketClient own(kernel);
                RocketWork first(own, 3, 100 * t + round);
                RocketWork second(own, 2, 100 * t + round + 50);
                EXPECT_EQ(own.submit(std::vector{first.job_with(rocket::job_batched), second.job_with(0)}), 0);
                RocketClient::Buffer buffer;
                EXPECT_EQ(shared.create_unmapped(4096 * (t + 1), buffer), 0);
                EXPECT_EQ(shared.fini(buffer.handle), 0);
                EXPECT_EQ(first.wait(), 0);
                EXPECT_EQ(second.wait(), 0);
                right +=
                    first.right(0) && first.right(1) && first.right(2) && second.right(0) && second.right(1) ? 1 : 0;
                EXPECT_EQ(shared.gem_close(buffer.handle), 0);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(right, 32);
    EXPECT_EQ(kernel.statistics().tasks, 32U * 5);
    EXPECT_TRUE(kernel.findings().empty()) << list_findings(kernel.findings());
    EXPECT_EQ(kernel.memory_in_use(), 0U);
}

TEST(RocketTimeOut, SignalsTheFenceAndTakesHalfASecondInRealTime) {
    for (const bool real : {false, true}) {
        SimOptions options = rocket_options();
        options.real_time = real;
        RocketKernel kernel(options);
        RocketClient client(kernel);
        RocketWork work(client, 1);
        std::memset(work.lists.memory, 0, 4096);
        const std::int64_t before = monotonic_now();
        ASSERT_EQ(work.submit(), 0);
        ASSERT_EQ(work.wait(), 0) << "there is no error";
        EXPECT_TRUE(work.untouched(0));
        if (real) {
            EXPECT_GE(monotonic_now() - before, 500'000'000);
        }
        EXPECT_EQ(kernel.statistics().failed_submissions, 1U);
    }
}

// Faults on request. Each test: what happens to the job that is hit, and that the next one is right.

struct Injected {
    explicit Injected(const char* specification, RocketInterface version = {0, 0}) {
        options = rocket_options(version);
        options.faults = Faults::parse(specification).value();
        kernel = std::make_unique<RocketKernel>(options);
        client = std::make_unique<RocketClient>(*kernel);
    }
    SimOptions options;
    std::unique_ptr<RocketKernel> kernel;
    std::unique_ptr<RocketClient> client;
};

TEST(RocketFaults, LeaveTheOutputsOfAJobThatDoesNotRun) {
    struct Case {
        const char* specification;
        bool failed;
        std::uint32_t tasks_run;
    };
    for (const Case& one :
         {Case{"job-never-starts@at=1", true, 0}, Case{"dma-error@at=1", true, 0}, Case{"stale-output@at=1", false, 0},
          Case{"time-out@at=1", true, 2}, Case{"lost-interrupt@at=1", true, 4}}) {
        for (const std::uint32_t flags : {0U, rocket::job_batched}) {
            Injected injected(one.specification, {1, 5});
            RocketWork work(*injected.client, 4);
            ASSERT_EQ(injected.client->submit(std::vector{work.job_with(flags)}), 0);
            ASSERT_EQ(work.wait(), 0) << "no error reaches the client";
            for (std::uint32_t i = 0; i < 4; ++i) {
                EXPECT_TRUE(i < one.tasks_run ? work.right(i) : work.untouched(i)) << one.specification << i;
            }
            EXPECT_EQ(injected.kernel->statistics().failed_submissions, one.failed ? 1U : 0U) << one.specification;
            EXPECT_EQ(injected.kernel->statistics().tasks, one.tasks_run);
            EXPECT_TRUE(has_finding(injected.kernel->findings(), Severity::warning, {"fault on request"}));
            std::memset(work.c.memory, 0xee, work.c.bytes);
            ASSERT_EQ(work.run(), 0);
            EXPECT_TRUE(work.right(0) && work.right(1) && work.right(2) && work.right(3)) << one.specification;
        }
    }
}

TEST(RocketFaults, ConcernTheCoreThatIsNamed) {
    Injected injected("core-gone@core=1@at=1");
    RocketWork work(*injected.client, 1);
    std::vector<bool> right;
    for (int i = 0; i < 6; ++i) {
        std::memset(work.c.memory, 0xee, work.c.bytes);
        ASSERT_EQ(work.run(), 0);
        right.push_back(work.right(0));
        EXPECT_NE(work.right(0), work.untouched(0));
    }
    EXPECT_EQ(right, (std::vector<bool>{true, false, true, false, true, false})) << "every second job runs on core 1";
    EXPECT_EQ(injected.kernel->statistics().failed_submissions, 3U);
}

TEST(RocketFaults, TakeACoreAwayWhenItsResetFails) {
    Injected injected("time-out@at=1,reset-fails@at=1");
    RocketWork work(*injected.client, 1);
    std::vector<bool> right;
    for (int i = 0; i < 5; ++i) {
        std::memset(work.c.memory, 0xee, work.c.bytes);
        ASSERT_EQ(work.run(), 0);
        right.push_back(work.right(0));
    }
    EXPECT_EQ(right, (std::vector<bool>{false, true, false, true, false})) << "core 0 is gone from the first job on";
    EXPECT_TRUE(has_finding(injected.kernel->findings(), Severity::warning, {"reset-fails", "core"}));
}

TEST(RocketFaults, RefuseBuffersAndSubmissions) {
    Injected injected("no-memory@at=2,iova-full@at=3,bad-address@at=1");
    RocketClient::Buffer buffer;
    EXPECT_EQ(injected.client->create_unmapped(4096, buffer), 0);
    EXPECT_EQ(injected.client->create_unmapped(4096, buffer), ENOMEM);
    EXPECT_EQ(injected.client->create_unmapped(4096, buffer), ENOSPC);
    EXPECT_EQ(injected.client->create_unmapped(4096, buffer), 0);
    EXPECT_EQ(injected.kernel->memory_in_use(), 2U * 4096);
    RocketWork work(*injected.client, 1);
    EXPECT_EQ(work.submit(), EFAULT);
    EXPECT_EQ(work.run(), 0);
    EXPECT_TRUE(work.right(0));
}

}  // namespace
}  // namespace npu::sim::test
