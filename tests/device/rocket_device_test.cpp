// The client of the mainline driver where it differs from others: what a job tells the driver, what is refused before, how
// late and lost jobs end, and what synchronisation costs. drivers_test.cpp holds what all drivers have in common.
#include "device/rocket_device.h"

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <set>
#include <thread>

#include "support.h"
#include "uapi/drm.h"
#include "uapi/rocket.h"

namespace npu::device::test {
namespace {

namespace uapi_rocket = uapi::rocket;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A job as the driver gets it.
struct SubmittedJob {
    std::uint32_t job_count = 0;
    std::uint32_t struct_size = 0;
    std::uint32_t flags = 0;
    std::vector<uapi_rocket::Task> tasks;
    std::vector<std::uint32_t> in, out;
};

template <typename T>
std::vector<T> elements(std::uint64_t address, std::uint32_t count) {
    const auto* first = reinterpret_cast<const T*>(address);
    return {first, first + count};
}

SubmittedJob read_submit(const void* argument) {
    const auto* submit = static_cast<const uapi_rocket::Submit*>(argument);
    const auto* job = reinterpret_cast<const uapi_rocket::Job*>(submit->jobs);
    SubmittedJob read{.job_count = submit->job_count,
                      .struct_size = submit->job_struct_size,
                      .flags = 0,
                      .tasks = elements<uapi_rocket::Task>(job->tasks, job->task_count),
                      .in = elements<std::uint32_t>(job->in_bo_handles, job->in_bo_handle_count),
                      .out = elements<std::uint32_t>(job->out_bo_handles, job->out_bo_handle_count)};
    if (submit->job_struct_size >= sizeof(uapi_rocket::JobWithFlags)) {
        read.flags = reinterpret_cast<const uapi_rocket::JobWithFlags*>(job)->flags;
    }
    return read;
}

class RocketDeviceTest : public SimulatedDevice {
  protected:
    // Records every job from now on.
    void record_jobs() {
        watch_->before = [this](std::uint32_t request, void* argument) -> std::optional<int> {
            if (request == uapi_rocket::ioctl_submit) {
                jobs_.push_back(read_submit(argument));
            }
            return std::nullopt;
        };
    }
    std::vector<SubmittedJob> jobs_;
};

class BothInterfaces : public RocketDeviceTest, public testing::WithParamInterface<std::uint32_t> {
  protected:
    static bool patched() { return GetParam() != 0; }
    static sim::SimOptions options() { return patched() ? rocket(1, GetParam()) : rocket(0, 0); }
};

INSTANTIATE_TEST_SUITE_P(Rocket, BothInterfaces, testing::Values(0U, 5U),
                         [](const auto& info) { return info.param == 0 ? "upstream" : "patched"; });

TEST_P(BothInterfaces, DescribesItselfAndWhatProgramsItNeeds) {
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

TEST_P(BothInterfaces, EachCoreRunsAlone) {
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

TEST_P(BothInterfaces, TheFilesOfThreeCoresAreBusyAtOnce) {
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

TEST_P(BothInterfaces, AJobNamesEveryLiveBufferOnceAndWritesWhereTheCanaryIs) {
    open(options());
    std::set<std::uint32_t> live;  // of space 1
    Product other(*device_, 0, 1);
    watch_->after = [&](std::uint32_t request, void* argument) {
        if (request == uapi_rocket::ioctl_create_bo) {
            live.insert(static_cast<uapi_rocket::CreateBo*>(argument)->handle);
        } else if (request == uapi::drm::ioctl_gem_close) {
            live.erase(static_cast<uapi::drm::GemClose*>(argument)->handle);
        }
    };
    auto gone = device_->allocate(4096, 1);
    Product product(*device_, 1, 2);
    gone->reset();
    live.insert(1);  // the guard, made when the device was opened
    record_jobs();
    ASSERT_TRUE(run({TaskChain{}, product.chain()}));
    ASSERT_EQ(jobs_.size(), 1U);
    const SubmittedJob& job = jobs_[0];
    EXPECT_EQ(job.job_count, 1U);
    EXPECT_EQ(job.struct_size, patched() ? 48U : 40U);
    EXPECT_EQ(job.flags, patched() ? uapi_rocket::job_batched : 0U);
    ASSERT_EQ(job.tasks.size(), product.entries.size());
    for (std::size_t i = 0; i < job.tasks.size(); ++i) {
        EXPECT_EQ(job.tasks[i].regcmd, product.entries[i].iova);
        EXPECT_EQ(job.tasks[i].regcmd_count, product.entries[i].body_words + 4);
    }
    std::multiset<std::uint32_t> named(job.in.begin(), job.in.end());
    named.insert(job.out.begin(), job.out.end());
    EXPECT_EQ(named, std::multiset<std::uint32_t>(live.begin(), live.end()));
    EXPECT_EQ(job.out.size(), 2U) << "the guard and the buffer with the canary";
    EXPECT_NE(std::ranges::find(job.out, 1U), job.out.end());
}

TEST_P(BothInterfaces, TheFirstPageOfEachSpaceIsNobodys) {
    open(options());
    for (std::uint32_t space = 0; space < 3; ++space) {
        const auto buffer = device_->allocate(4096, space);
        EXPECT_EQ((*buffer)->iova(), 4096U) << "spaces are apart: each begins anew";
    }
}

TEST_P(BothInterfaces, AProgramThatTheDriverCannotRunIsRefusedBeforeTheDriverHearsOfIt) {
    open(options());
    Product product(*device_, 0, 1);
    Product elsewhere(*device_, 1, 2);
    const auto big = device_->allocate(std::size_t{1} << 20, 0);
    const auto refusal = [&](std::size_t task, auto change) {
        std::vector<TaskChain::Entry> entries = product.entries;
        change(entries[task]);
        watch_->requests.clear();
        const Error error = error_of({{.tasks = entries, .canaries = product.canaries}});
        EXPECT_TRUE(watch_->requests.empty()) << error.message;
        return error;
    };
    constexpr auto wrong = ErrorCode::invalid_argument;
    using Entry = TaskChain::Entry;
    EXPECT_TRUE(says(refusal(0, [](Entry& e) { e.iova = 0x7ffff000; }), wrong, "no buffer of address space 0"));
    EXPECT_TRUE(says(refusal(1, [](Entry& e) { e.iova += std::uint64_t{1} << 32; }), wrong, "no buffer"));
    EXPECT_TRUE(says(refusal(1, [](Entry& e) { e.iova = 0; }), wrong, "task 1 of core 0")) << "the guard is nobody's";
    EXPECT_TRUE(says(refusal(1, [](Entry& e) { e.iova += 8; }), wrong, "multiple of 16"));
    EXPECT_TRUE(says(refusal(0, [](Entry& e) { e.body_words = 0; }), wrong, "1 to 131068"));
    EXPECT_TRUE(says(refusal(0, [](Entry& e) { e.body_words = 131069; }), wrong, "1 to 131068"));
    EXPECT_TRUE(says(refusal(0, [](Entry& e) { e.body_words = ~0U; }), wrong, "1 to 131068"));
    EXPECT_TRUE(says(refusal(0, [](Entry& e) { e.body_words = 20000; }), wrong, "no buffer")) << "runs out of it";
    EXPECT_TRUE(says(refusal(2, [](Entry& e) { e.enable = 0x0d; }), wrong, "without DPU_RDMA"));
    EXPECT_TRUE(says(refusal(2, [](Entry& e) { e.enable = 0; }), wrong, "without DPU_RDMA"));
    EXPECT_TRUE(says(refusal(2, [](Entry& e) { e.enable = 0x18; }), wrong, "does not fire blocks 0x18"));
    EXPECT_TRUE(says(refusal(2, [](Entry& e) { e.body_words -= 1; }), wrong, "does not fire")) << "no tail there";
    EXPECT_TRUE(says(refusal(0, [](Entry& e) { e.interrupts = 0x100; }), wrong, "interrupts 0x100"));
    EXPECT_TRUE(says(refusal(0, [](Entry& e) { e.interrupts = 0xf00; }), wrong, "interrupts 0xf00"));

    const auto shift = [&](TaskChain::Entry& e) { e.iova = (*big)->iova() + (1 << 20) - 64; };
    EXPECT_TRUE(says(refusal(0, shift), wrong, "no buffer"));
    const TaskChain foreign_canary{.tasks = product.entries, .canaries = elsewhere.canaries};
    EXPECT_TRUE(says(error_of({foreign_canary}), wrong, "none of address space 0"));
    EXPECT_TRUE(run({product.chain()})) << "unchanged it runs";
}

TEST_P(BothInterfaces, AChainWhoseTailsLeadElsewhereIsRefusedWhereTheHardwareFollowsThem) {
    open(options());
    Product product(*device_, 0, 1);
    std::vector<TaskChain::Entry> entries = product.entries;
    std::swap(entries[1], entries[2]);
    const TaskChain swapped{.tasks = entries, .canaries = product.canaries};
    if (patched()) {
        EXPECT_TRUE(says(error_of({swapped}), ErrorCode::invalid_argument, "does not lead to the next task"));
    } else {
        EXPECT_TRUE(run({swapped})) << "each is started by hand";
    }
    const auto report = run({product.chain()});
    EXPECT_TRUE(report);
    EXPECT_TRUE(product.right());
}

TEST_P(BothInterfaces, TheInterruptOfThePpuIsAnEndOnlyWhereTheDriverKnowsIt) {
    open(options());
    Product product(*device_, 0, 1);
    record_jobs();
    std::vector<TaskChain::Entry> entries = product.entries;
    entries.back().interrupts = rockchip::interrupt_ppu;
    const TaskChain chain{.tasks = entries, .canaries = product.canaries};
    if (patched()) {
        EXPECT_TRUE(run({chain})) << "the program ends in the DPU; the driver waits in vain, but outputs are written";
        EXPECT_EQ(jobs_.at(0).flags,
                  uapi_rocket::job_batched | uapi_rocket::job_no_dpu_done | uapi_rocket::job_ppu_done);
    } else {
        EXPECT_TRUE(says(error_of({chain}), ErrorCode::unsupported, "since interface 1.3; this one has 0.0"));
        EXPECT_TRUE(jobs_.empty());
    }
}

TEST_P(BothInterfaces, ADeadlineThatPassesIsATimeoutAfterWhichTheJobIsGone) {
    for (const char* fault : {"job-never-starts@at=1", "lost-interrupt@at=1"}) {
        auto slow = with_faults(options(), fault);
        slow.real_time = true;  // the driver gives the job up after half a second
        open(slow);
        Product product(*device_, 0, 1);
        product.soil();
        const auto start = steady_clock::now();
        const Error error = error_of({product.chain()}, milliseconds(40));
        EXPECT_TRUE(says(error, ErrorCode::timeout, "on core 0 within 40 ms")) << fault;
        EXPECT_GE(steady_clock::now() - start, milliseconds(uapi_rocket::job_timeout_ms)) << "nothing runs any more";
        ASSERT_TRUE(run({product.chain()})) << fault;
        EXPECT_TRUE(product.right()) << fault;
    }
}

TEST_P(BothInterfaces, AJobWhoseInterruptWasLostCountsByWhatItWrote) {
    open(with_faults(options(), "lost-interrupt@at=1"));
    Product product(*device_, 0, 1);
    product.soil();
    EXPECT_TRUE(run({product.chain()})) << "the driver reports success, and the last bytes were written";
    EXPECT_TRUE(product.right());
}

TEST_P(BothInterfaces, AJobThatTheDriverNeverGivesUpIsWaitedForByTheNextOne) {
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
    const std::size_t submitted = watch_->count(uapi_rocket::ioctl_submit);
    EXPECT_TRUE(says(error_of(chains, milliseconds(10)), ErrorCode::timeout, "an earlier job"));
    EXPECT_EQ(watch_->count(uapi_rocket::ioctl_submit), submitted) << "not queued behind the other";
    {
        const std::lock_guard lock(mutex);
        open_gate = true;
        changed.notify_all();
    }
    product.soil();
    ASSERT_TRUE(run(chains));
    EXPECT_TRUE(product.right());
}

TEST_P(BothInterfaces, WhatWasStartedIsWaitedForWhenAnotherCoreIsRefused) {
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

TEST_P(BothInterfaces, DeadlinesAreAbsoluteAndNeverWrap) {
    open(options());
    Product product(*device_, 0, 1);
    std::vector<std::int64_t> deadlines;
    watch_->before = [&](std::uint32_t request, void* argument) -> std::optional<int> {
        if (request == uapi_rocket::ioctl_prep_bo) {
            deadlines.push_back(static_cast<uapi_rocket::PrepBo*>(argument)->timeout_ns);
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

TEST_P(BothInterfaces, ResultsAreTakenBackOnce) {
    open(options());
    Product product(*device_, 0, 1);
    ASSERT_TRUE(run({product.chain()}));
    watch_->requests.clear();
    EXPECT_TRUE(product.right());
    if (patched()) {
        EXPECT_EQ(watch_->requests, std::vector{uapi_rocket::ioctl_prep_bo_range});
    } else {
        EXPECT_TRUE(watch_->requests.empty()) << "looking for the canary took back the whole buffer";
    }
    ASSERT_TRUE(run({TaskChain{.tasks = product.entries}}));
    watch_->requests.clear();
    EXPECT_TRUE(product.right());
    EXPECT_EQ(watch_->requests.size(), 1U) << "a new job, new results";
}

TEST_P(BothInterfaces, AFullAddressSpaceIsSaidAndTheOthersHaveRoom) {
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

TEST_P(BothInterfaces, AnAddressBeyondTheWindowIsRefusedAndGivenBack) {
    open(options());
    const std::uint64_t before = kernel_->memory_in_use();
    watch_->after = [](std::uint32_t request, void* argument) {
        if (request == uapi_rocket::ioctl_create_bo) {
            static_cast<uapi_rocket::CreateBo*>(argument)->dma_address = 0xfffff000;  // ends beyond 4 GiB
        }
    };
    const auto refused = device_->allocate(8192);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(says(refused.error(), ErrorCode::out_of_memory, "beyond the 4 GiB"));
    EXPECT_EQ(kernel_->memory_in_use(), before);
}

TEST_P(BothInterfaces, ManyThreadsAllocateAndRunAtOnce) {
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

using RocketOpening = RocketDeviceTest;

TEST_F(RocketOpening, RefusesOtherDriversAndInterfacesThatItDoesNotKnow) {
    make_kernel(rocket(2, 0));
    const auto newer = open_device();
    ASSERT_FALSE(newer);
    EXPECT_TRUE(says(newer.error(), ErrorCode::unsupported, "rocket driver 2.0"));
    EXPECT_EQ(watch_->open_files, 0);

    make_kernel(rocket(0, 0));
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
    make_kernel(rocket(1, 5));
    watch_->before = [](std::uint32_t request, void* argument) -> std::optional<int> {
        if (request == uapi_rocket::ioctl_fini_bo_range) {  // a driver that has size before offset
            auto* range = static_cast<uapi_rocket::FiniBoRange*>(argument);
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
    EXPECT_EQ(watch_->count(uapi_rocket::ioctl_fini_bo_range), 0U);
    EXPECT_EQ(watch_->count(uapi_rocket::ioctl_prep_bo_range), 0U);
    EXPECT_GT(watch_->count(uapi_rocket::ioctl_fini_bo), 0U);
}

TEST_F(RocketOpening, SynchronisesOnlyTheRangeThatIsAskedFor) {
    open(rocket(1, 5));
    const auto buffer = device_->allocate(16384);
    std::vector<uapi_rocket::FiniBoRange> handed;
    watch_->before = [&](std::uint32_t request, void* argument) -> std::optional<int> {
        if (request == uapi_rocket::ioctl_fini_bo_range) {
            handed.push_back(*static_cast<uapi_rocket::FiniBoRange*>(argument));
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
