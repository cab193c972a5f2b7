// The simulated rknpu driver through its system calls: identity, buffer objects, addresses, refusals.
#include <gtest/gtest.h>

#include "sim/kernel_client.h"

namespace npu::sim::test {
namespace {

class KernelMemory : public KernelFixture {};

TEST_F(KernelMemory, KnowsOneNodeOnly) {
    EXPECT_GE(client.fd, 0);
    EXPECT_EQ(kernel.open("/dev/dri/card0", O_RDWR), -1);
    EXPECT_EQ(errno, ENOENT);
    SimOptions options = quiet();
    options.path = "/dev/dri/renderD129";
    const auto other = make_simulated_kernel(options);
    EXPECT_EQ(other->open("/dev/dri/card1", O_RDWR), -1);
    const int fd = other->open("/dev/dri/renderD129", O_RDWR);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(other->close(fd), 0);
    EXPECT_EQ(other->close(fd), -1);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(KernelMemory, SaysWhoItIs) {
    char name[16] = {};
    uapi::drm::Version version{};
    version.name = name;
    version.name_length = sizeof name;
    ASSERT_EQ(client.call(uapi::drm::ioctl_version, version), 0);
    EXPECT_EQ(std::string(name, version.name_length), "rknpu");
    EXPECT_EQ(version.major, 0);
    EXPECT_EQ(version.minor, 9);
    EXPECT_EQ(version.patch, 8);
    uapi::drm::Version lengths{};
    ASSERT_EQ(client.call(uapi::drm::ioctl_version, lengths), 0);
    EXPECT_EQ(lengths.name_length, 5U);
    char small[3] = {'x', 'x', 'x'};
    uapi::drm::Version cut{};
    cut.name = small;
    cut.name_length = 2;
    ASSERT_EQ(client.call(uapi::drm::ioctl_version, cut), 0);
    EXPECT_EQ(small[2], 'x');

    std::uint32_t value = 0;
    EXPECT_EQ(client.action(rknpu::action_hw_version, value), 0);
    EXPECT_EQ(value, 0x46495245U);
    EXPECT_EQ(client.action(rknpu::action_driver_version, value), 0);
    EXPECT_EQ(value, 908U);
    EXPECT_EQ(client.action(rknpu::action_get_frequency, value), 0);
    EXPECT_EQ(value, 1'000'000'000U);
    EXPECT_EQ(client.action(rknpu::action_iommu_enabled, value), 0);
    EXPECT_EQ(value, 1U);
    EXPECT_EQ(client.action(rknpu::action_reset, value), 0);
    EXPECT_EQ(client.action(20, value), EINVAL) << "0.9.8 refuses power on";
    EXPECT_EQ(client.action(21, value), EINVAL);
    EXPECT_EQ(client.action(99, value), EINVAL);
}

TEST_F(KernelMemory, RefusesCallsThatAreNotItsOwn) {
    std::uint32_t word[64] = {};
    EXPECT_EQ(kernel.ioctl(client.fd, 0xc0085501, word), -1);
    EXPECT_EQ(errno, ENOTTY);
    EXPECT_EQ(kernel.ioctl(client.fd, 0xc0086450, word), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(kernel.ioctl(client.fd, rknpu::ioctl_action, nullptr), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(kernel.ioctl(12345, rknpu::ioctl_action, word), -1);
    EXPECT_EQ(errno, EBADF);
    rknpu::Submit submit{};
    EXPECT_EQ(kernel.ioctl(12345, rknpu::ioctl_submit, &submit), -1);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(KernelMemory, GivesMemoryThatStartsZeroedAndIsTheSameInEveryMapping) {
    Client::Buffer buffer = client.create(5000);
    EXPECT_EQ(buffer.bytes, 8192U) << "sizes are rounded to pages";
    EXPECT_TRUE(std::all_of(buffer.memory, buffer.memory + 8192, [](std::byte b) { return b == std::byte{0}; }));
    rknpu::MemMap map{.handle = buffer.handle, .reserved = 0, .offset = 0};
    ASSERT_EQ(client.call(rknpu::ioctl_mem_map, map), 0);
    auto* again = static_cast<std::byte*>(
        kernel.mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, client.fd, static_cast<off_t>(map.offset)));
    ASSERT_NE(again, MAP_FAILED);
    buffer.memory[17] = std::byte{42};
    EXPECT_EQ(again[17], std::byte{42});
    EXPECT_EQ(kernel.munmap(again, 4096), 0);
    const auto offset = static_cast<off_t>(map.offset);
    EXPECT_EQ(kernel.mmap(nullptr, 3 * 4096, PROT_READ, MAP_SHARED, client.fd, offset), MAP_FAILED);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(kernel.mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, client.fd, offset), MAP_FAILED);
    EXPECT_EQ(kernel.mmap(nullptr, 4096, PROT_READ, MAP_SHARED, client.fd, 0x7f000000), MAP_FAILED);
    Client stranger(kernel);
    EXPECT_EQ(kernel.mmap(nullptr, 4096, PROT_READ, MAP_SHARED, stranger.fd, offset), MAP_FAILED);
    EXPECT_EQ(kernel.mmap(nullptr, 4096, PROT_READ, MAP_SHARED, 12345, 0), MAP_FAILED);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(KernelMemory, CreatesLooksUpAndDestroysObjects) {
    const Client::Buffer buffer = client.create(4096);
    rknpu::MemCreate lookup{};
    lookup.handle = buffer.handle;
    ASSERT_EQ(client.call(rknpu::ioctl_mem_create, lookup), 0);
    EXPECT_EQ(lookup.obj_addr, buffer.token);
    EXPECT_EQ(lookup.dma_addr, buffer.iova);
    lookup.handle = 777;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_create, lookup), EINVAL);

    // The older, shorter struct is the beginning of the newer one.
    rknpu::MemCreate old{};
    old.flags = plain;
    old.size = 4096;
    old.iommu_domain_id = 77;  // beyond what the old struct carries
    ASSERT_EQ(client.call(0xc0286442, old), 0);
    EXPECT_NE(old.handle, buffer.handle);
    EXPECT_LT(old.dma_addr, std::uint64_t{1} << 32);
    EXPECT_EQ(old.iommu_domain_id, 77);

    rknpu::MemCreate bad{};
    bad.size = 0;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_create, bad), EINVAL);
    bad.size = 4096, bad.flags = 1U << 30;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_create, bad), EINVAL);
    bad.flags = plain, bad.iommu_domain_id = 16;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_create, bad), EINVAL);

    rknpu::MemMap map{.handle = 777, .reserved = 0, .offset = 0};
    EXPECT_EQ(client.call(rknpu::ioctl_mem_map, map), EINVAL);

    rknpu::MemDestroy destroy{.handle = old.handle, .reserved = 0, .obj_addr = buffer.token};
    EXPECT_EQ(client.call(rknpu::ioctl_mem_destroy, destroy), EINVAL) << "handle and address of different objects";
    destroy.obj_addr = old.obj_addr;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_destroy, destroy), 0);
    EXPECT_EQ(client.call(rknpu::ioctl_mem_destroy, destroy), EINVAL);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"MEM_DESTROY", "panic"}));
    uapi::drm::GemClose close{.handle = buffer.handle, .padding = 0};
    EXPECT_EQ(client.call(uapi::drm::ioctl_gem_close, close), 0);
    EXPECT_EQ(client.call(uapi::drm::ioctl_gem_close, close), EINVAL);
    EXPECT_EQ(kernel.memory_in_use(), 0U);
}

TEST_F(KernelMemory, RefusesATokenThatItNeverGaveOrThatBelongsToAnotherFile) {
    Client::Buffer buffer = client.create(4096);
    Client stranger(kernel);
    EXPECT_EQ(stranger.sync(buffer, rknpu::sync_to_device), EINVAL);
    buffer.token += 8;
    EXPECT_EQ(client.sync(buffer, rknpu::sync_to_device), EINVAL);
    EXPECT_TRUE(has_finding(kernel.findings(), Severity::hang, {"MEM_SYNC", "panic"}));
    EXPECT_EQ(kernel.findings().size(), 2U);
    kernel.clear_findings();
    EXPECT_TRUE(kernel.findings().empty());
}

TEST_F(KernelMemory, SynchronisesOnlyCacheableObjectsAndRangesInside) {
    const Client::Buffer buffer = client.create(8192);
    EXPECT_EQ(client.sync(buffer, rknpu::sync_to_device), 0);
    EXPECT_EQ(client.sync(buffer, 3), 0);
    EXPECT_EQ(client.sync(buffer, 0), EINVAL);
    EXPECT_EQ(client.sync(buffer, 4), EINVAL);
    EXPECT_EQ(client.sync(buffer, 1, 4096, 4096), 0);
    EXPECT_EQ(client.sync(buffer, 1, 4096, 4097), EINVAL);
    EXPECT_EQ(client.sync(buffer, 1, 8193, 1), EINVAL);
    EXPECT_EQ(client.sync(buffer, 1, ~std::uint64_t{0}, 2), EINVAL);
    const Client::Buffer uncached = client.create(4096, rknpu::mem_non_contiguous);
    EXPECT_EQ(client.sync(uncached, rknpu::sync_to_device), EINVAL);
}

TEST_F(KernelMemory, GivesAddressesFromTheTopAndRunsOutAtFourGibibytes) {
    const Client::Buffer first = client.create(4096);
    const Client::Buffer second = client.create(3 * 4096);
    EXPECT_EQ(first.iova, 0xfffff000U);
    EXPECT_EQ(second.iova, 0xffffc000U);
    std::vector<std::uint32_t> handles;
    int error = 0;
    for (int i = 0; i < 9; ++i) {
        rknpu::MemCreate create{};
        create.flags = plain;
        create.size = std::uint64_t{512} << 20;
        error = client.call(rknpu::ioctl_mem_create, create);
        if (error != 0) {
            break;
        }
        handles.push_back(create.handle);
    }
    EXPECT_EQ(error, ENOMEM);
    EXPECT_EQ(handles.size(), 7U) << "the window is 4 GiB less its first page and what is taken";
    // Another domain has a window of its own.
    rknpu::MemCreate elsewhere{};
    elsewhere.flags = plain;
    elsewhere.size = std::uint64_t{512} << 20;
    elsewhere.iommu_domain_id = 1;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_create, elsewhere), 0);
    // What is freed can be had again.
    for (const std::uint32_t handle : {handles[2], handles[3]}) {
        uapi::drm::GemClose close{.handle = handle, .padding = 0};
        ASSERT_EQ(client.call(uapi::drm::ioctl_gem_close, close), 0);
    }
    rknpu::MemCreate again{};
    again.flags = plain;
    again.size = std::uint64_t{1} << 30;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_create, again), 0);
    again = {};
    again.flags = plain;
    again.size = std::uint64_t{1} << 32;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_create, again), ENOMEM);
}

TEST(KernelMemoryLimits, HasALimitWhenAskedFor) {
    SimOptions options = quiet();
    options.memory_bytes = 1 << 20;
    RknpuKernel kernel(options);
    Client client(kernel);
    const Client::Buffer buffer = client.create((1 << 20) - 4096);
    rknpu::MemCreate create{};
    create.flags = plain;
    create.size = 8192;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_create, create), ENOMEM);
    create.size = 4096;
    EXPECT_EQ(client.call(rknpu::ioctl_mem_create, create), 0);
    EXPECT_EQ(kernel.memory_in_use(), options.memory_bytes);
    (void)buffer;
}

TEST(KernelMemoryLimits, IsGivenBackWhenTheFileIsClosed) {
    RknpuKernel kernel(quiet());
    Client::Buffer buffer;
    {
        Client client(kernel);
        buffer = client.create(1 << 20);
        EXPECT_EQ(kernel.memory_in_use(), 1U << 20);
    }
    EXPECT_EQ(kernel.memory_in_use(), 0U);
    Client next(kernel);
    EXPECT_EQ(next.create(1 << 20).iova, buffer.iova) << "the addresses are free again";
    buffer.memory[0] = std::byte{1};  // a mapping outlives the object; it leads nowhere
}

}  // namespace
}  // namespace npu::sim::test
