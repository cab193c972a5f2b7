// The client of the mainline driver where it differs from others: how late and lost jobs end, address spaces, and what
// synchronisation costs. drivers_test.cpp holds what all drivers have in common, rocket_job_test.cpp the jobs themselves.
#include "device/rocket_device.h"

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <thread>

#include "support.h"
#include "uapi/drm.h"
#include "uapi/rocket.h"

namespace npu::device::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

using RocketTest = BothRocketInterfaces;
INSTANTIATE_TEST_SUITE_P(Interfaces, RocketTest, rocket_interfaces, rocket_interface_name);

TEST_P(RocketTest, DescribesItselfAndWhatProgramsItNeeds) {
    open(options());
    const DeviceInfo& info = device_->info();
    EXPECT_EQ(info.description, "Rockchip RK3588 (simulated, rocket)");
    EXPECT_EQ(info.driver, "rocket");
    EXPECT_EQ(info.driver_version, patched() ? "1.5" : "0.0");
    EXPECT_EQ(info.node, "/dev/accel/accel0");
    EXPECT_EQ(info.chains, patched());
    EXPECT_EQ(info.syncs_ranges, patched());
    EXPECT_TRUE(info.needs_rdma);
    EXPECT_EQ(watch_->open_files, 3) << "one file per core";
}

TEST_P(RocketTest, EachCoreRunsAlone) {
    open(options());
    for (std::uint32_t core = 0; core < 3; ++core) {
        Product product(*device_, core, core + 1);
        product.soil();
        std::vector<TaskChain> chains(core + 1);  // those before have no tasks
        chains[core] = product.chain();
        const auto report = run(chains);
        ASSERT_TRUE(report) << report.error().message;
        EXPECT_TRUE(product.right());
        EXPECT_EQ(report->hardware_seconds, 0);
    }
    EXPECT_TRUE(kernel_->findings().empty());
}

TEST_P(RocketTest, TheFilesOfThreeCoresAreBusyAtOnce) {
    struct Meeting {
        std::mutex mutex;
        std::condition_variable changed;
        unsigned here = 0;
        unsigned most = 0;
    } meeting;
    auto meeting_options = options();
    meeting_options.on_task = [&](const auto&) {  // a job waits here until all three are here
        std::unique_lock lock(meeting.mutex);
        meeting.most = std::max(meeting.most, ++meeting.here);
        meeting.changed.notify_all();
        meeting.changed.wait_for(lock, std::chrono::seconds(5), [&] { return meeting.most == 3; });
        --meeting.here;
    };
    open(meeting_options);
    std::vector<std::unique_ptr<Product>> products;
    std::vector<TaskChain> chains;
    for (std::uint32_t core = 0; core < 3; ++core) {
        products.push_back(std::make_unique<Product>(*device_, core, 30 + core));
        chains.push_back(products.back()->chain());
    }
    ASSERT_TRUE(run(chains));
    EXPECT_EQ(meeting.most, 3U);
}

TEST_P(RocketTest, TheFirstPageOfEachSpaceIsNobodys) {
    open(options());
    for (std::uint32_t space = 0; space < 3; ++space) {
        const auto buffer = device_->allocate(4096, space);
        EXPECT_EQ((*buffer)->iova(), 4096U) << "spaces are apart: each begins anew";
    }
}

TEST_P(RocketTest, ADeadlineThatPassesIsATimeoutAfterWhichTheJobIsGone) {
    for (const char* fault : {"job-never-starts@at=1", "lost-interrupt@at=1"}) {
        auto slow = with_faults(options(), fault);
        slow.real_time = true;  // the driver gives the job up after half a second
        open(slow);
        Product product(*device_, 0, 1);
        product.soil();
        const auto start = steady_clock::now();
        const Error error = error_of({product.chain()}, milliseconds(40));
        EXPECT_TRUE(says(error, ErrorCode::timeout, "on core 0 within 40 ms")) << fault;
        EXPECT_GE(steady_clock::now() - start, milliseconds(uapi::rocket::job_timeout_ms)) << "nothing runs any more";
        ASSERT_TRUE(run({product.chain()})) << fault;
        EXPECT_TRUE(product.right()) << fault;
    }
}

TEST_P(RocketTest, AJobWhoseInterruptWasLostCountsByWhatItWrote) {
    open(with_faults(options(), "lost-interrupt@at=1"));
    Product product(*device_, 0, 1);
    product.soil();
    EXPECT_TRUE(run({product.chain()})) << "the driver reports success, and the last bytes were written";
    EXPECT_TRUE(product.right());
}

TEST_P(RocketTest, AJobThatTheDriverNeverGivesUpIsWaitedForByTheNextOne) {
    std::mutex mutex;
    std::condition_variable changed;
    bool open_gate = false;
    auto held = options();
    held.on_task = [&](const auto&) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return open_gate; });
    };
    open(held);
    Product product(*device_, 2, 1);
    product.soil();
    const std::vector<TaskChain> chains{TaskChain{}, TaskChain{}, product.chain()};
    EXPECT_TRUE(says(error_of(chains, milliseconds(10)), ErrorCode::timeout, "on core 2 within 10 ms"));
    const std::size_t submitted = watch_->count(uapi::rocket::ioctl_submit);
    EXPECT_TRUE(says(error_of(chains, milliseconds(10)), ErrorCode::timeout, "an earlier job"));
    EXPECT_EQ(watch_->count(uapi::rocket::ioctl_submit), submitted) << "not queued behind the other";
    {
        const std::lock_guard lock(mutex);
        open_gate = true;
        changed.notify_all();
    }
    product.soil();
    ASSERT_TRUE(run(chains));
    EXPECT_TRUE(product.right());
}

TEST_P(RocketTest, WhatWasStartedIsWaitedForWhenAnotherCoreIsRefused) {
    open(with_faults(options(), "bad-address@at=2"));
    std::vector<std::unique_ptr<Product>> products;
    std::vector<TaskChain> chains;
    for (std::uint32_t core = 0; core < 3; ++core) {
        products.push_back(std::make_unique<Product>(*device_, core, 40 + core));
        products.back()->soil();
        chains.push_back(products.back()->chain());
    }
    EXPECT_TRUE(says(error_of(chains), ErrorCode::device_failure, "refused a job"));
    EXPECT_TRUE(products[0]->right()) << "was started and is over";
    EXPECT_TRUE(products[2]->untouched()) << "was never started";
    ASSERT_TRUE(run(chains));
    EXPECT_TRUE(products[2]->right());
}

TEST_P(RocketTest, DeadlinesAreAbsoluteAndNeverWrap) {
    open(options());
    Product product(*device_, 0, 1);
    std::vector<std::int64_t> deadlines;
    watch_->before = [&](std::uint32_t request, void* argument) -> std::optional<int> {
        if (request == uapi::rocket::ioctl_prep_bo) {
            deadlines.push_back(static_cast<uapi::rocket::PrepBo*>(argument)->timeout_ns);
        }
        return std::nullopt;
    };
    const auto now = [] { return std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count(); };
    const std::int64_t before = now();
    ASSERT_TRUE(run({product.chain()}, milliseconds(5000)));
    EXPECT_GE(deadlines.at(0), before + 5'000'000'000);
    EXPECT_LE(deadlines.at(0), now() + 5'000'000'000);
    deadlines.clear();
    ASSERT_TRUE(run({product.chain()}, milliseconds::max()));
    EXPECT_GT(deadlines.at(0), std::int64_t{1} << 62);
    deadlines.clear();
    (void)run({product.chain()}, milliseconds::min());
    EXPECT_GE(deadlines.at(0), before) << "no wait, and no negative time";
    EXPECT_LE(deadlines.at(0), now());
}

TEST_P(RocketTest, ResultsAreTakenBackOnce) {
    open(options());
    Product product(*device_, 0, 1);
    ASSERT_TRUE(run({product.chain()}));
    watch_->requests.clear();
    EXPECT_TRUE(product.right());
    if (patched()) {
        EXPECT_EQ(watch_->requests, std::vector{uapi::rocket::ioctl_prep_bo_range});
    } else {
        EXPECT_TRUE(watch_->requests.empty()) << "looking for the canary took back the whole buffer";
    }
    ASSERT_TRUE(run({TaskChain{.tasks = product.entries}}));
    watch_->requests.clear();
    EXPECT_TRUE(product.right());
    EXPECT_EQ(watch_->requests.size(), 1U) << "a new job, new results";
}

TEST_P(RocketTest, AFullAddressSpaceIsSaidAndTheOthersHaveRoom) {
    open(with_faults(options(), "iova-full@at=4"));  // three are the guards
    const auto refused = device_->allocate(4096, 0);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(says(refused.error(), ErrorCode::out_of_memory, "address space 0 of the NPU has no room"));
    EXPECT_TRUE(says(refused.error(), ErrorCode::out_of_memory, "4096 of its 4294967296 bytes are in use"));
    EXPECT_TRUE(device_->allocate(4096, 1));
    const auto huge = device_->allocate(std::size_t{1} << 32, 0);
    ASSERT_FALSE(huge);
    EXPECT_TRUE(says(huge.error(), ErrorCode::out_of_memory, "a buffer of 4294967296 bytes was asked for"));
}

TEST_P(RocketTest, AnAddressBeyondTheWindowIsRefusedAndGivenBack) {
    open(options());
    const std::uint64_t before = kernel_->memory_in_use();
    watch_->after = [](std::uint32_t request, void* argument) {
        if (request == uapi::rocket::ioctl_create_bo) {
            static_cast<uapi::rocket::CreateBo*>(argument)->dma_address = 0xfffff000;  // ends beyond 4 GiB
        }
    };
    const auto refused = device_->allocate(8192);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(says(refused.error(), ErrorCode::out_of_memory, "beyond the 4 GiB"));
    EXPECT_EQ(kernel_->memory_in_use(), before);
}

TEST_P(RocketTest, ManyThreadsAllocateAndRunAtOnce) {
    open(options());
    std::vector<std::thread> threads;
    std::array<bool, 3> right{};
    for (std::uint32_t core = 0; core < 3; ++core) {
        threads.emplace_back([this, core, &right] {
            bool all = true;
            for (std::uint32_t round = 0; round < 10; ++round) {
                Product product(*device_, core, 100 * core + round);
                std::vector<TaskChain> chains(core + 1);
                chains[core] = product.chain();
                all = all && device_->run(chains, plenty) && product.right();
            }
            right[core] = all;
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(right, (std::array{true, true, true}));
    EXPECT_TRUE(kernel_->findings().empty());
}

using RocketOpening = SimulatedDevice;

TEST_F(RocketOpening, RefusesOtherDriversAndInterfacesThatItDoesNotKnow) {
    make_kernel(rocket_options(2, 0));
    const auto newer = open_device();
    ASSERT_FALSE(newer);
    EXPECT_TRUE(says(newer.error(), ErrorCode::unsupported, "rocket driver 2.0"));
    EXPECT_EQ(watch_->open_files, 0);

    make_kernel(rocket_options(0, 0));
    watch_->after = [](std::uint32_t request, void* argument) {
        if (request == uapi::drm::ioctl_version) {
            std::strcpy(static_cast<uapi::drm::Version*>(argument)->name, "rocket2");
        }
    };
    EXPECT_EQ(find_rocket_node(*watch_), std::nullopt) << "a longer name is another driver";
    const auto other = open_device();
    ASSERT_FALSE(other);
    EXPECT_TRUE(says(other.error(), ErrorCode::unsupported, "'rocket2'"));
    EXPECT_EQ(watch_->open_files, 0);
}

TEST_F(RocketOpening, SynchronisesWholeBuffersWhereRangesAreNotWhatWeTakeThemFor) {
    make_kernel(rocket_options(1, 5));
    watch_->before = [](std::uint32_t request, void* argument) -> std::optional<int> {
        if (request == uapi::rocket::ioctl_fini_bo_range) {  // a driver that has size before offset
            auto* range = static_cast<uapi::rocket::FiniBoRange*>(argument);
            std::swap(range->offset, range->size);
        }
        return std::nullopt;
    };
    auto device = open_device();
    ASSERT_TRUE(device) << device.error().message;
    device_ = std::move(*device);
    EXPECT_FALSE(device_->info().syncs_ranges);
    EXPECT_TRUE(device_->info().chains);
    watch_->requests.clear();
    {
        Product product(*device_, 0, 1);
        EXPECT_TRUE(run({product.chain()}));
        EXPECT_TRUE(product.right());
    }
    EXPECT_EQ(watch_->count(uapi::rocket::ioctl_fini_bo_range), 0U);
    EXPECT_EQ(watch_->count(uapi::rocket::ioctl_prep_bo_range), 0U);
    EXPECT_GT(watch_->count(uapi::rocket::ioctl_fini_bo), 0U);
}

TEST_F(RocketOpening, SynchronisesOnlyTheRangeThatIsAskedFor) {
    open(rocket_options(1, 5));
    const auto buffer = device_->allocate(16384);
    std::vector<uapi::rocket::FiniBoRange> handed;
    watch_->before = [&](std::uint32_t request, void* argument) -> std::optional<int> {
        if (request == uapi::rocket::ioctl_fini_bo_range) {
            handed.push_back(*static_cast<uapi::rocket::FiniBoRange*>(argument));
        }
        return std::nullopt;
    };
    ASSERT_TRUE((*buffer)->to_device(4096, 100));
    ASSERT_TRUE((*buffer)->to_device(4096, 0));
    ASSERT_EQ(handed.size(), 1U);
    EXPECT_EQ(handed[0].offset, 4096U);
    EXPECT_EQ(handed[0].size, 100U);
}

}  // namespace
}  // namespace npu::device::test
