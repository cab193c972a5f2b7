// What the client of the mainline driver tells the driver of a chain, and what it refuses to tell it.
#include "device/rocket_job.h"

#include <gtest/gtest.h>

#include <set>

#include "support.h"
#include "uapi/drm.h"
#include "uapi/rocket.h"

namespace npu::device::test {
namespace {

// A job as the driver gets it.
struct SubmittedJob {
    std::uint32_t job_count = 0;
    std::uint32_t struct_size = 0;
    std::uint32_t flags = 0;
    std::vector<uapi::rocket::Task> tasks;
    std::vector<std::uint32_t> in, out;
};

template <typename T>
std::vector<T> elements(std::uint64_t address, std::uint32_t count) {
    const auto* first = reinterpret_cast<const T*>(address);
    return {first, first + count};
}

SubmittedJob read_submit(const void* argument) {
    const auto* submit = static_cast<const uapi::rocket::Submit*>(argument);
    const auto* job = reinterpret_cast<const uapi::rocket::Job*>(submit->jobs);
    SubmittedJob read{.job_count = submit->job_count,
                      .struct_size = submit->job_struct_size,
                      .flags = 0,
                      .tasks = elements<uapi::rocket::Task>(job->tasks, job->task_count),
                      .in = elements<std::uint32_t>(job->in_bo_handles, job->in_bo_handle_count),
                      .out = elements<std::uint32_t>(job->out_bo_handles, job->out_bo_handle_count)};
    if (submit->job_struct_size >= sizeof(uapi::rocket::JobWithFlags)) {
        read.flags = reinterpret_cast<const uapi::rocket::JobWithFlags*>(job)->flags;
    }
    return read;
}

class RocketJobs : public BothRocketInterfaces {
  protected:
    // Records every job from now on.
    void record_jobs() {
        watch_->before = [this](std::uint32_t request, void* argument) -> std::optional<int> {
            if (request == uapi::rocket::ioctl_submit) {
                jobs_.push_back(read_submit(argument));
            }
            return std::nullopt;
        };
    }
    std::vector<SubmittedJob> jobs_;
};

INSTANTIATE_TEST_SUITE_P(Interfaces, RocketJobs, rocket_interfaces, rocket_interface_name);

TEST_P(RocketJobs, AJobNamesEveryLiveBufferOnceAndWritesWhereTheCanaryIs) {
    open(options());
    std::set<std::uint32_t> live;  // of space 1
    Product other(*device_, 0, 1);
    watch_->after = [&](std::uint32_t request, void* argument) {
        if (request == uapi::rocket::ioctl_create_bo) {
            live.insert(static_cast<uapi::rocket::CreateBo*>(argument)->handle);
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
    EXPECT_EQ(job.flags, patched() ? uapi::rocket::job_batched : 0U);
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

TEST_P(RocketJobs, AProgramThatTheDriverCannotRunIsRefusedBeforeTheDriverHearsOfIt) {
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

TEST_P(RocketJobs, AChainWhoseTailsLeadElsewhereIsRefusedWhereTheHardwareFollowsThem) {
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

TEST_P(RocketJobs, TheInterruptOfThePpuIsAnEndOnlyWhereTheDriverKnowsIt) {
    open(options());
    Product product(*device_, 0, 1);
    record_jobs();
    std::vector<TaskChain::Entry> entries = product.entries;
    entries.back().interrupts = rockchip::interrupt_ppu;
    const TaskChain chain{.tasks = entries, .canaries = product.canaries};
    if (patched()) {
        EXPECT_TRUE(run({chain})) << "the program ends in the DPU; the driver waits in vain, but outputs are written";
        EXPECT_EQ(jobs_.at(0).flags,
                  uapi::rocket::job_batched | uapi::rocket::job_no_dpu_done | uapi::rocket::job_ppu_done);
    } else {
        EXPECT_TRUE(says(error_of({chain}), ErrorCode::unsupported, "since interface 1.3; this one has 0.0"));
        EXPECT_TRUE(jobs_.empty());
    }
}

}  // namespace
}  // namespace npu::device::test
