// What every driver's client must do alike: the same tests on the vendor's driver and on both interfaces of mainline's.
#include <ostream>

#include "support.h"
#include "uapi/rknpu.h"
#include "uapi/rocket.h"

namespace npu::device::test {
namespace {

struct DriverCase {
    const char* name;
    sim::Driver driver;
    sim::RocketInterface rocket;

    friend std::ostream& operator<<(std::ostream& out, const DriverCase& driver) { return out << driver.name; }
};

class EveryDriver : public SimulatedDevice, public testing::WithParamInterface<DriverCase> {
  protected:
    static sim::SimOptions options() {
        sim::SimOptions options;
        options.driver = GetParam().driver;
        options.rocket = GetParam().rocket;
        return options;
    }
    static bool is_rknpu() { return GetParam().driver == sim::Driver::rknpu; }
    // What the client asks the kernel for; the rest is opening.
    static std::uint32_t submit_request() {
        return is_rknpu() ? uapi::rknpu::ioctl_submit : uapi::rocket::ioctl_submit;
    }
    std::unique_ptr<Buffer> allocate(std::size_t bytes, std::uint32_t space = 0) {
        auto buffer = device_->allocate(bytes, space);
        EXPECT_TRUE(buffer) << buffer.error().message;
        return std::move(*buffer);
    }
};

INSTANTIATE_TEST_SUITE_P(Drivers, EveryDriver,
                         testing::Values(DriverCase{"rknpu", sim::Driver::rknpu, {}},
                                         DriverCase{"rocket_0_0", sim::Driver::rocket, {0, 0}},
                                         DriverCase{"rocket_1_1", sim::Driver::rocket, {1, 1}},
                                         DriverCase{"rocket_1_5", sim::Driver::rocket, {1, 5}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EveryDriver, IsFoundByItsNameAndNothingStaysOpen) {
    make_kernel(options());
    const auto rknpu = find_rknpu_node(*watch_);
    const auto rocket = find_rocket_node(*watch_);
    const std::string node = sim::usual_path(driver_);
    EXPECT_EQ(rknpu, is_rknpu() ? std::optional(node) : std::nullopt);
    EXPECT_EQ(rocket, is_rknpu() ? std::nullopt : std::optional(node));
    EXPECT_EQ(watch_->open_files, 0);
    {
        const auto device = open_device();
        ASSERT_TRUE(device) << device.error().message;
        EXPECT_GT(watch_->open_files, 0);
    }
    EXPECT_EQ(watch_->open_files, 0);
    EXPECT_EQ(kernel_->memory_in_use(), 0U);
}

TEST_P(EveryDriver, SaysWhyItsNodeCannotBeOpened) {
    make_kernel(options());
    watch_->open_error = EACCES;
    const auto refused = open_device();
    ASSERT_FALSE(refused);
    EXPECT_TRUE(says(refused.error(), ErrorCode::not_found, "in the group"));
    EXPECT_TRUE(says(refused.error(), ErrorCode::not_found, sim::usual_path(driver_)));
}

TEST_P(EveryDriver, MemoryIsZeroWithinTheWindowAndFreed) {
    open(options());
    const std::uint64_t before = kernel_->memory_in_use();
    for (std::uint32_t space = 0; space < device_->spaces(); ++space) {
        const auto buffer = allocate(10000, space);
        EXPECT_EQ(buffer->bytes(), 12288U);
        EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + buffer->bytes(),
                                [](std::byte value) { return value == std::byte{0}; }));
        EXPECT_EQ(buffer->iova() % 4096, 0U);
        EXPECT_LE(buffer->iova() + buffer->bytes(), std::uint64_t{1} << 32);
        EXPECT_EQ(kernel_->memory_in_use(), before + 12288);
    }
    EXPECT_EQ(kernel_->memory_in_use(), before);
}

TEST_P(EveryDriver, AnAddressSpaceThatIsNotThereIsRefused) {
    open(options());
    EXPECT_EQ(device_->spaces(), is_rknpu() ? 16U : 3U);
    EXPECT_EQ(device_->info().space_per_core, !is_rknpu());
    watch_->requests.clear();
    const auto refused = device_->allocate(4096, device_->spaces());
    ASSERT_FALSE(refused);
    EXPECT_TRUE(says(refused.error(), ErrorCode::invalid_argument, "address space"));
    EXPECT_TRUE(watch_->requests.empty());
}

TEST_P(EveryDriver, DataComeBackAsTheyWereHandedOver) {
    open(options());
    const auto buffer = allocate(20000, device_->spaces() - 1);
    std::mt19937 random(5);
    std::vector<std::byte> data(buffer->bytes());
    std::ranges::generate(data, [&] { return static_cast<std::byte>(random()); });
    std::ranges::copy(data, buffer->data());
    ASSERT_TRUE(buffer->to_device(0, buffer->bytes()));
    ASSERT_TRUE(buffer->from_device(0, buffer->bytes()));
    EXPECT_TRUE(std::ranges::equal(data, std::span(buffer->data(), buffer->bytes())));
    ASSERT_TRUE(buffer->to_device(4096, 100));
    ASSERT_TRUE(buffer->from_device(4096, 100));
    EXPECT_TRUE(std::ranges::equal(data, std::span(buffer->data(), buffer->bytes())));
    for (const auto& [offset, bytes] : {std::pair{std::size_t{0}, std::size_t{1} << 20},
                                        {std::size_t{20480}, std::size_t{1}},
                                        {~std::size_t{0}, 2}}) {
        EXPECT_FALSE(buffer->to_device(offset, bytes)) << offset;
        EXPECT_FALSE(buffer->from_device(offset, bytes)) << offset;
    }
}

TEST_P(EveryDriver, TwoHundredAllocationsLeaveNothingBehind) {
    open(options());
    const std::uint64_t before = kernel_->memory_in_use();
    for (std::uint32_t i = 0; i < 200; ++i) {
        const auto buffer = allocate(std::size_t{1} << (12 + i % 8), i % device_->spaces());
        buffer->data()[0] = std::byte{1};
    }
    EXPECT_EQ(kernel_->memory_in_use(), before);
    EXPECT_EQ(allocate(4096)->data()[0], std::byte{0}) << "used memory comes back as zeros";
}

TEST_P(EveryDriver, BuffersMayBeFreedInAnyOrder) {
    open(options());
    std::mt19937 random(6);
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (std::uint32_t i = 0; i < 12; ++i) {
        buffers.push_back(allocate(8192, i % device_->spaces()));
    }
    std::ranges::shuffle(buffers, random);
    buffers.resize(6);
    Product product(*device_, 0, 7);
    EXPECT_TRUE(run({product.chain()})) << "jobs name the buffers that are left";
    EXPECT_TRUE(product.right());
    buffers.clear();
    EXPECT_TRUE(run({product.chain()}));
    EXPECT_TRUE(kernel_->findings().empty());
}

TEST_P(EveryDriver, ExhaustedMemoryIsSaidWithWhatWasAsked) {
    auto small = options();
    small.memory_bytes = std::size_t{1} << 20;
    open(small);
    auto half = allocate(std::size_t{512} * 1024);
    const auto refused = device_->allocate(std::size_t{700} * 1024);
    ASSERT_FALSE(refused);
    EXPECT_TRUE(says(refused.error(), ErrorCode::out_of_memory, "716800 bytes"));
    EXPECT_TRUE(says(refused.error(), ErrorCode::out_of_memory, "-ngl"));
    half.reset();
    EXPECT_TRUE(device_->allocate(std::size_t{700} * 1024)) << "room again";
}

TEST_P(EveryDriver, UsedMemoryCountsAgainstTheLimit) {
    make_kernel(options());
    const auto device = open_device(std::size_t{1} << 20);
    ASSERT_TRUE(device);
    const MemoryInfo before = (*device)->memory();
    EXPECT_EQ(before.total, std::size_t{1} << 20);
    const auto buffer = (*device)->allocate(300000);
    EXPECT_EQ((*device)->memory().free, before.free - 303104);
}

TEST_P(EveryDriver, AProductEqualsItsReference) {
    open(options());
    Product product(*device_, 0, 1);
    product.soil();
    EXPECT_FALSE(product.right());
    const auto report = run({product.chain()});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(product.right());
    product.output().data()[5] ^= std::byte{1};
    ASSERT_TRUE(product.output().to_device(0, 4096));
    EXPECT_FALSE(product.right()) << "one wrong bit is seen";
    EXPECT_TRUE(kernel_->findings().empty());
}

TEST_P(EveryDriver, ThreeCoresComputeThreeProducts) {
    open(options());
    std::vector<std::unique_ptr<Product>> products;
    for (std::uint32_t core = 0; core < 3; ++core) {
        products.push_back(std::make_unique<Product>(*device_, core, 10 + core));
    }
    EXPECT_NE(products[0]->reference(), products[1]->reference());
    for (int round = 0; round < 3; ++round) {
        for (std::size_t cores = 1; cores <= 3; ++cores) {
            std::vector<TaskChain> chains;
            for (std::size_t core = 0; core < cores; ++core) {
                products[core]->soil();
                chains.push_back(products[core]->chain());
            }
            const auto report = run(chains);
            ASSERT_TRUE(report) << report.error().message;
            for (std::size_t core = 0; core < cores; ++core) {
                EXPECT_TRUE(products[core]->right()) << core;
            }
        }
    }
    EXPECT_TRUE(kernel_->findings().empty());
}

TEST_P(EveryDriver, SystemCallsThatASignalInterruptsAreMadeAgain) {
    make_kernel(options());
    std::uint32_t call = 0;
    watch_->before = [&](std::uint32_t, void*) { return call++ % 3 != 2 ? std::optional(EINTR) : std::nullopt; };
    auto device = open_device();
    ASSERT_TRUE(device) << device.error().message;
    device_ = std::move(*device);
    {
        Product product(*device_, 0, 2);
        EXPECT_TRUE(run({product.chain()}));
        EXPECT_TRUE(product.right());
    }
    EXPECT_EQ(watch_->count(submit_request()), 3U);
}

TEST_P(EveryDriver, AJobThatWroteNothingIsFoundByItsCanary) {
    open(with_faults(options(), "stale-output@at=1,stale-output@at=3"));
    Product product(*device_, 0, 3);
    product.soil();
    const Error error = error_of({product.chain()});
    EXPECT_TRUE(says(error, ErrorCode::device_failure, "ended without writing byte"));
    EXPECT_TRUE(product.untouched());
    ASSERT_TRUE(run({product.chain()})) << "the next one works";
    EXPECT_TRUE(product.right());
    product.soil();
    const TaskChain without{.tasks = product.entries};
    EXPECT_TRUE(run({without})) << "without a canary nobody can know";
    EXPECT_FALSE(product.right());
}

TEST_P(EveryDriver, EveryCanaryMustBeOverwritten) {
    open(options());
    Product product(*device_, 0, 3);
    const std::size_t behind = product.output().bytes() - 8;  // no task writes there
    const std::vector<Canary> two{product.canaries[0], {&product.output(), behind}};
    const TaskChain chain{.tasks = product.entries, .canaries = two};
    EXPECT_TRUE(says(error_of({chain}), ErrorCode::device_failure, format("without writing byte %zu", behind)));
    EXPECT_TRUE(product.right()) << "the job itself was good";
    EXPECT_TRUE(run({product.chain()}));
}

TEST_P(EveryDriver, AJobThatStopsHalfwayIsAnErrorAndTheNextOneWorks) {
    for (const char* fault : {"job-never-starts@at=1", "time-out@at=1", "dma-error@at=1"}) {
        open(with_faults(options(), fault));
        Product product(*device_, 0, 4);
        product.soil();
        const Error error = error_of({product.chain()}, std::chrono::milliseconds(300));
        EXPECT_TRUE(error.code == ErrorCode::timeout || error.code == ErrorCode::device_failure) << fault;
        EXPECT_FALSE(product.right()) << fault;
        ASSERT_TRUE(run({product.chain()})) << fault;
        EXPECT_TRUE(product.right()) << fault;
    }
}

TEST_P(EveryDriver, OneFailedCoreFailsTheJobAndTheNextOneWorks) {
    open(with_faults(options(), "job-never-starts@core=1@at=1"));
    std::vector<std::unique_ptr<Product>> products;
    std::vector<TaskChain> chains;
    for (std::uint32_t core = 0; core < 3; ++core) {
        products.push_back(std::make_unique<Product>(*device_, core, 20 + core));
        products.back()->soil();
        chains.push_back(products.back()->chain());
    }
    (void)error_of(chains, std::chrono::milliseconds(300));
    ASSERT_TRUE(run(chains));
    for (const auto& product : products) {
        EXPECT_TRUE(product->right());
    }
}

TEST_P(EveryDriver, ARefusedSubmissionIsAnErrorAndTheNextOneWorks) {
    open(options());
    Product product(*device_, 0, 5);
    watch_->before = [&](std::uint32_t request, void*) {
        return request == submit_request() ? std::optional(EFAULT) : std::nullopt;
    };
    EXPECT_TRUE(says(error_of({product.chain()}), ErrorCode::device_failure, "refused a job of"));
    watch_->before = nullptr;
    ASSERT_TRUE(run({product.chain()}));
    EXPECT_TRUE(product.right());
}

TEST_P(EveryDriver, JobsThatCannotBeAreRefusedBeforeTheDriverHearsOfThem) {
    open(options());
    Product product(*device_, 0, 6);
    const TaskChain good = product.chain();
    const std::vector<TaskChain::Entry> many(4096, product.entries[0]);
    const Canary outside{&product.output(), product.output().bytes() - 7};
    const Canary far_outside{&product.output(), ~std::size_t{0}};
    const Canary nowhere{nullptr, 0};
    const std::vector<std::vector<TaskChain>> bad = {
        {},
        {good, good, good, good},
        {TaskChain{}},
        {TaskChain{}, TaskChain{}},
        {{.tasks = many}},
        {{.tasks = good.tasks, .canaries = {&outside, 1}}},
        {{.tasks = good.tasks, .canaries = {&far_outside, 1}}},
        {{.tasks = good.tasks, .canaries = {&nowhere, 1}}},
    };
    watch_->requests.clear();
    for (std::size_t i = 0; i < bad.size(); ++i) {
        EXPECT_EQ(error_of(bad[i]).code, ErrorCode::invalid_argument) << i;
    }
    EXPECT_TRUE(watch_->requests.empty());
    EXPECT_TRUE(run({good}));
    EXPECT_FALSE(watch_->requests.empty());
}

}  // namespace
}  // namespace npu::device::test
