// The simulated rknpu driver: its node, what it says about itself, and the rules by which arguments are copied.
#include <gtest/gtest.h>
#include <unistd.h>

#include "sim/kernel_client.h"

namespace npu::sim::test::vendor {
namespace {

class RknpuAction : public KernelFixture {
  protected:
    std::uint32_t value_of(std::uint32_t number) {
        std::uint32_t value = 0xabcd;
        EXPECT_EQ(client.action(number, value), 0) << number;
        return value;
    }
};

TEST_F(RknpuAction, OnlyOnePathIsTheNode) {
    EXPECT_GE(client.fd, 0);
    EXPECT_EQ(kernel.open("/dev/dri/card0", O_RDWR), -1);
    EXPECT_EQ(errno, ENOENT);
    SimOptions options = quiet();
    options.path = "/dev/dri/renderD129";
    const auto other = make_simulated_kernel(options);
    EXPECT_EQ(other->open("/dev/dri/card1", O_RDWR), -1);
    const int fd = other->open("/dev/dri/renderD129", O_RDWR);
    EXPECT_GE(fd, 0);
    EXPECT_TRUE(other->owns(fd));
    EXPECT_FALSE(kernel.owns(fd));
    EXPECT_EQ(other->close(fd), 0);
    EXPECT_FALSE(other->owns(fd));
    EXPECT_EQ(other->close(fd), -1);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(RknpuAction, ADescriptorThatWasClosedBehindItsBackDoesNotKeepItsObjects) {
    const Client::Buffer buffer = client.create(4096);
    client.unmap(buffer);
    ASSERT_EQ(::close(client.fd), 0);
    const int again = kernel.open("/dev/dri/card1", O_RDWR);
    ASSERT_EQ(again, client.fd) << "the lowest number that is free";
    EXPECT_EQ(kernel.memory_in_use(), 0U);
}

TEST_F(RknpuAction, SaysWhoItIs) {
    char name[16] = {};
    drm::Version version{};
    version.name = name;
    version.name_length = sizeof name;
    ASSERT_EQ(client.call(drm::ioctl_version, version), 0);
    EXPECT_EQ(std::string(name, version.name_length), "rknpu");
    EXPECT_EQ(version.major, 0);
    EXPECT_EQ(version.minor, 9);
    EXPECT_EQ(version.patch, 8);
    drm::Version lengths{};
    ASSERT_EQ(client.call(drm::ioctl_version, lengths), 0);
    EXPECT_EQ(lengths.name_length, 5U);
    char small[3] = {'x', 'x', 'x'};
    drm::Version cut{};
    cut.name = small;
    cut.name_length = 2;
    ASSERT_EQ(client.call(drm::ioctl_version, cut), 0);
    EXPECT_EQ(small[1], 'k');
    EXPECT_EQ(small[2], 'x');
    EXPECT_EQ(cut.name_length, 5U);
    drm::Version bad{};
    bad.name = reinterpret_cast<char*>(16);
    bad.name_length = 5;
    EXPECT_EQ(client.call(drm::ioctl_version, bad), EFAULT);
}

TEST_F(RknpuAction, AnswersCapabilitiesAsADriverWithoutDisplaysDoes) {
    drm::GetCap cap{.capability = drm::cap_prime, .value = 0};
    EXPECT_EQ(client.call(drm::ioctl_get_cap, cap), 0);
    EXPECT_EQ(cap.value, drm::prime_import | drm::prime_export);
    cap = {.capability = drm::cap_timestamp_monotonic, .value = 0};
    EXPECT_EQ(client.call(drm::ioctl_get_cap, cap), 0);
    EXPECT_EQ(cap.value, 1U);
    for (const std::uint64_t none : {drm::cap_sync_objects, drm::cap_timeline_sync_objects}) {
        cap = {.capability = none, .value = 7};
        EXPECT_EQ(client.call(drm::ioctl_get_cap, cap), 0);
        EXPECT_EQ(cap.value, 0U);
    }
    cap = {.capability = 1, .value = 7};  // dumb buffers
    EXPECT_EQ(client.call(drm::ioctl_get_cap, cap), EOPNOTSUPP);
}

TEST_F(RknpuAction, EveryActionHasItsAnswer) {
    EXPECT_EQ(value_of(rknpu::action_hw_version), 0x46495245U);
    EXPECT_EQ(value_of(rknpu::action_driver_version), 908U);
    EXPECT_EQ(value_of(rknpu::action_get_frequency), 1'000'000'000U);
    EXPECT_EQ(value_of(rknpu::action_get_voltage), 850'000U);
    EXPECT_EQ(value_of(rknpu::action_iommu_enabled), 1U);
    EXPECT_EQ(value_of(rknpu::action_get_domain), 0U);
    EXPECT_EQ(value_of(rknpu::action_get_sram_total), 0U);
    EXPECT_EQ(value_of(rknpu::action_get_sram_free), 0U);
    EXPECT_EQ(value_of(rknpu::action_reset), 0xabcdU);
    EXPECT_EQ(value_of(rknpu::action_set_nice), 0xabcdU);
    for (std::uint32_t number = rknpu::action_get_bandwidth_priority; number <= rknpu::action_set_bandwidth_window;
         ++number) {
        EXPECT_EQ(value_of(number), 0xabcdU) << "the chip has no such registers: success, and the value stays";
    }
    for (const std::uint32_t refused :
         {rknpu::action_set_frequency + 0U, rknpu::action_set_voltage + 0U, rknpu::action_power_on + 0U,
          rknpu::action_power_off + 0U, 26U, 99U, 0xffffffffU}) {
        std::uint32_t value = 1;
        EXPECT_EQ(client.action(refused, value), EINVAL) << refused;
    }
    EXPECT_TRUE(kernel.findings().empty());
}

TEST_F(RknpuAction, CountsWhatJobsMove) {
    Job job(client, 3);
    ASSERT_EQ(job.submit(), 0);
    const std::uint32_t written = value_of(rknpu::action_get_data_written);
    const std::uint32_t read = value_of(rknpu::action_get_data_read);
    const std::uint32_t weights = value_of(rknpu::action_get_weights_read);
    EXPECT_EQ(written, 3U * 6 * 64 * 4);
    EXPECT_EQ(read, 3U * 6 * 64);
    EXPECT_EQ(weights, 3U * 64 * 64);
    EXPECT_EQ(value_of(rknpu::action_get_total_traffic), written + read + weights);
    ASSERT_EQ(job.submit(), 0);
    EXPECT_EQ(value_of(rknpu::action_get_data_written), 2 * written);
    (void)value_of(rknpu::action_clear_traffic);
    EXPECT_EQ(value_of(rknpu::action_get_total_traffic), 0U);
}

TEST_F(RknpuAction, RefusesCallsThatAreNotItsOwn) {
    std::uint32_t word[64] = {};
    EXPECT_EQ(kernel.ioctl(client.fd, 0xc0085501, word), -1);  // another type
    EXPECT_EQ(errno, ENOTTY);
    for (const std::uint32_t unknown : {0xc0086450U, 0xc0086446U, 0xc0086430U}) {
        EXPECT_EQ(kernel.ioctl(client.fd, unknown, word), -1);
        EXPECT_EQ(errno, EINVAL) << unknown;
    }
    EXPECT_EQ(kernel.ioctl(12345, rknpu::ioctl_action, word), -1);
    EXPECT_EQ(errno, EBADF);
    rknpu::Submit submit{};
    EXPECT_EQ(kernel.ioctl(12345, rknpu::ioctl_submit, &submit), -1);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(RknpuAction, BadPointersAreEfaultForEveryRequest) {
    for (const std::uint32_t request :
         {rknpu::ioctl_action, rknpu::ioctl_submit, rknpu::ioctl_mem_create, rknpu::ioctl_mem_map,
          rknpu::ioctl_mem_destroy, rknpu::ioctl_mem_sync, drm::ioctl_version, drm::ioctl_get_cap, drm::ioctl_gem_close,
          drm::ioctl_prime_handle_to_fd, drm::ioctl_prime_fd_to_handle}) {
        for (const std::uintptr_t bad : {std::uintptr_t{0}, std::uintptr_t{16}, ~std::uintptr_t{0} - 7}) {
            EXPECT_EQ(kernel.ioctl(client.fd, request, reinterpret_cast<void*>(bad)), -1);
            EXPECT_EQ(errno, EFAULT) << request;
        }
    }
    // A struct whose end is not readable, one that cannot be written back.
    auto* pages =
        static_cast<std::byte*>(::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(pages, MAP_FAILED);
    const rknpu::Action action{.flags = rknpu::action_driver_version, .value = 0};
    std::memcpy(pages + 4096 - 8, &action, 8);
    std::memcpy(pages + 8192 - 4, &action, 4);
    ASSERT_EQ(::mprotect(pages + 8192, 4096, PROT_NONE), 0);
    EXPECT_EQ(kernel.ioctl(client.fd, rknpu::ioctl_action, pages + 8192 - 4), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(kernel.ioctl(client.fd, rknpu::ioctl_action, pages + 4096 - 8), 0) << "the control: at the end of a page";
    ASSERT_EQ(::mprotect(pages, 4096, PROT_READ), 0);
    EXPECT_EQ(kernel.ioctl(client.fd, rknpu::ioctl_action, pages + 4096 - 8), -1);
    EXPECT_EQ(errno, EFAULT);
    ::munmap(pages, 3 * 4096);
}

TEST_F(RknpuAction, CopiesAsMuchAsTheRequestSays) {
    // Longer than the driver's struct: the driver's part works and the rest comes back as it was.
    struct {
        rknpu::Action action;
        std::uint32_t rest[6];
    } longer{.action = {.flags = rknpu::action_driver_version, .value = 0}, .rest = {1, 2, 3, 4, 5, 6}};
    ASSERT_EQ(client.call(0xc0206440, longer), 0);
    EXPECT_EQ(longer.action.value, 908U);
    EXPECT_EQ(longer.rest[5], 6U);
    // Shorter: what is missing is zero, and nothing is written behind.
    struct {
        std::uint32_t flags, canary;
    } shorter{.flags = rknpu::action_driver_version, .canary = 77};
    ASSERT_EQ(client.call(0xc0046440, shorter), 0);
    EXPECT_EQ(shorter.canary, 77U);
    // A request that says "read" only passes nothing in; one that says "write" only gets nothing back.
    rknpu::Action action{.flags = rknpu::action_driver_version, .value = 5};
    ASSERT_EQ(client.call(0x80086440, action), 0);
    EXPECT_EQ(action.value, 0x46495245U) << "flags arrived as 0";
    action = {.flags = rknpu::action_driver_version, .value = 5};
    ASSERT_EQ(client.call(0x40086440, action), 0);
    EXPECT_EQ(action.value, 5U);
    // Without the copying back of an error the counter of a timed-out job would be lost.
    Job job(client, 2);
    job.make_endless();
    auto arguments = job.arguments();
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), ETIMEDOUT);
    EXPECT_EQ(arguments.task_counter, 2U);
}

}  // namespace
}  // namespace npu::sim::test::vendor
