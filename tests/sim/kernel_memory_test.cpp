// The simulated rknpu driver: buffer objects, their addresses, mappings and cache synchronisation.
#include <gtest/gtest.h>
#include <unistd.h>

#include "sim/kernel_client.h"

namespace npu::sim::test::vendor {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint32_t paged = plain | rknpu::mem_iova_limit_alignment;

class KernelMemory : public KernelFixture {};

TEST_F(KernelMemory, StartsZeroedAndIsTheSameInEveryMapping) {
    const Client::Buffer buffer = client.create(5000);
    EXPECT_EQ(buffer.bytes, 8192U) << "sizes are rounded to pages";
    EXPECT_TRUE(std::all_of(buffer.memory, buffer.memory + 8192, [](std::byte b) { return b == std::byte{0}; }));
    rknpu::MemMap map{.handle = buffer.handle, .reserved = 0, .offset = 0};
    ASSERT_EQ(client.call(rknpu::ioctl_mem_map, map), 0);
    EXPECT_GE(map.offset, std::uint64_t{1} << 32) << "as every DRM driver's";
    const auto offset = static_cast<off_t>(map.offset);
    auto* again =
        static_cast<std::byte*>(kernel.mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, client.fd, offset));
    ASSERT_NE(again, MAP_FAILED);
    buffer.memory[17] = std::byte{42};
    EXPECT_EQ(again[17], std::byte{42});
    EXPECT_EQ(kernel.munmap(again, 4096), 0);

    const auto refused = [&](std::size_t length, int flags, int fd, off_t at) {
        EXPECT_EQ(kernel.mmap(nullptr, length, PROT_READ, flags, fd, at), MAP_FAILED);
        return errno;
    };
    EXPECT_EQ(refused(3 * 4096, MAP_SHARED, client.fd, offset), EINVAL);
    EXPECT_EQ(refused(0, MAP_SHARED, client.fd, offset), EINVAL);
    EXPECT_EQ(refused(4096, MAP_PRIVATE, client.fd, offset), EINVAL);
    EXPECT_EQ(refused(4096, MAP_SHARED, client.fd, 0x7f000000), EINVAL);
    EXPECT_EQ(refused(4096, MAP_SHARED, client.fd, offset + 4096), EINVAL) << "offsets name objects, not bytes";
    Client stranger(kernel);
    EXPECT_EQ(refused(4096, MAP_SHARED, stranger.fd, offset), EACCES);
    EXPECT_EQ(refused(4096, MAP_SHARED, 12345, 0), EBADF);
}

TEST_F(KernelMemory, LooksUpAHandleInsteadOfCreating) {
    const Client::Buffer buffer = client.create(8192);
    rknpu::MemCreate lookup{};
    lookup.handle = buffer.handle;
    ASSERT_EQ(client.call(rknpu::ioctl_mem_create, lookup), 0);
    EXPECT_EQ(lookup.handle, buffer.handle);
    EXPECT_EQ(lookup.obj_addr, buffer.token);
    EXPECT_EQ(lookup.dma_addr, buffer.iova);
    EXPECT_EQ(lookup.size, 8192U);
    EXPECT_EQ(kernel.memory_in_use(), 8192U);
    EXPECT_TRUE(kernel.findings().empty());
    // A handle that does not exist is as good as none: the driver makes an object.
    rknpu::MemCreate unknown = Client::request(4096);
    unknown.handle = 777;
    ASSERT_EQ(client.call(rknpu::ioctl_mem_create, unknown), 0);
    EXPECT_EQ(unknown.handle, 2U);
    EXPECT_TRUE(found(Severity::warning, {"MEM_CREATE", "handle 777"}));
}

TEST_F(KernelMemory, AcceptsTheOlderShorterStruct) {
    rknpu::MemCreate old = Client::request(4096, plain, 77);  // beyond what the old struct carries
    ASSERT_EQ(client.call(rknpu::ioctl_old_mem_create, old), 0);
    EXPECT_EQ(old.handle, 1U);
    EXPECT_EQ(old.size, 4096U);
    EXPECT_LT(old.dma_addr, std::uint64_t{1} << 32);
    EXPECT_EQ(old.iommu_domain_id, 77);
}

TEST_F(KernelMemory, ChecksTheArgumentsOfCreate) {
    EXPECT_EQ(client.try_create(0), EINVAL);
    EXPECT_EQ(client.try_create(4096, 1U << 11), EINVAL);
    EXPECT_EQ(client.try_create(4096, 1U << 31), EINVAL);
    EXPECT_EQ(client.try_create(4096, plain, 16), EINVAL);
    EXPECT_EQ(client.try_create(4096, plain, -2), EINVAL);
    EXPECT_EQ(kernel.memory_in_use(), 0U);
    EXPECT_EQ(client.try_create(4096, rknpu::mem_all_flags), 0) << "all flags that exist";
    EXPECT_EQ(client.try_create(4096, 0), 0);
    EXPECT_EQ(client.try_create(4096, plain, 15), 0);
    rknpu::MemMap map{.handle = 777, .reserved = 0, .offset = 0};
    EXPECT_EQ(client.call(rknpu::ioctl_mem_map, map), EINVAL);
}

TEST_F(KernelMemory, HandlesAreTheLowestNumbersThatAreFree) {
    const Client::Buffer a = client.create_unmapped(4096);
    const Client::Buffer b = client.create_unmapped(4096);
    const Client::Buffer c = client.create_unmapped(4096);
    EXPECT_EQ(a.handle, 1U);
    EXPECT_EQ(c.handle, 3U);
    ASSERT_EQ(client.close_handle(b), 0);
    ASSERT_EQ(client.close_handle(a), 0);
    const Client::Buffer again = client.create_unmapped(4096);
    EXPECT_EQ(again.handle, 1U);
    EXPECT_NE(again.token, a.token) << "but an object is never the one that was";
}

TEST_F(KernelMemory, DestroysByHandleAndRefusesAWrongAddress) {
    const Client::Buffer buffer = client.create_unmapped(4096);
    const Client::Buffer other = client.create_unmapped(4096);
    Client::Buffer mixed = buffer;
    mixed.token = other.token;
    EXPECT_EQ(client.destroy(mixed), EINVAL);
    EXPECT_TRUE(found(Severity::hang, {"MEM_DESTROY", "panic"}));
    EXPECT_EQ(client.destroy(buffer), 0);
    EXPECT_EQ(client.destroy(buffer), EINVAL);
    Client::Buffer without_address = other;
    without_address.token = 0;
    EXPECT_EQ(client.destroy(without_address), 0);
    EXPECT_EQ(client.close_handle(other), EINVAL);
    EXPECT_EQ(kernel.memory_in_use(), 0U);
}

TEST_F(KernelMemory, AMappingKeepsTheObjectWhenItsHandleIsGone) {
    const Client::Buffer buffer = client.create(3 * 4096);
    buffer.memory[5000] = std::byte{7};
    ASSERT_EQ(client.close_handle(buffer), 0);
    EXPECT_EQ(kernel.memory_in_use(), 3U * 4096);
    EXPECT_EQ(buffer.memory[5000], std::byte{7});
    EXPECT_EQ(client.sync(buffer, rknpu::sync_to_device), EINVAL) << "but not its address";
    const Client::Buffer next = client.create_unmapped(3 * 4096);
    EXPECT_NE(next.iova, buffer.iova);
    EXPECT_EQ(kernel.munmap(buffer.memory, 4096), 0);  // piece by piece
    EXPECT_EQ(kernel.memory_in_use(), 6U * 4096);
    EXPECT_EQ(buffer.memory[5000], std::byte{7});
    client.unmap(buffer);
    EXPECT_EQ(kernel.memory_in_use(), 3U * 4096);
    EXPECT_EQ(client.create_unmapped(3 * 4096).iova, buffer.iova) << "now the addresses are free";
}

TEST_F(KernelMemory, RefusesATokenThatItNeverGaveOrThatBelongsToAnotherFile) {
    Client::Buffer buffer = client.create(4096);
    Client stranger(kernel);
    EXPECT_EQ(stranger.sync(buffer, rknpu::sync_to_device), EINVAL);
    EXPECT_EQ(client.sync(buffer, rknpu::sync_to_device), 0);
    buffer.token += 8;
    EXPECT_EQ(client.sync(buffer, rknpu::sync_to_device), EINVAL);
    EXPECT_TRUE(found(Severity::hang, {"MEM_SYNC", "panic"}));
    EXPECT_EQ(kernel.findings().size(), 2U);
    kernel.clear_findings();
    EXPECT_TRUE(kernel.findings().empty());
}

TEST_F(KernelMemory, SynchronisesOnlyCacheableObjectsAndRangesInside) {
    const Client::Buffer buffer = client.create(8192);
    EXPECT_EQ(client.sync(buffer, rknpu::sync_to_device), 0);
    EXPECT_EQ(client.sync(buffer, 3), 0);
    EXPECT_EQ(client.sync(buffer, 1, 4096, 4096), 0);
    EXPECT_TRUE(kernel.findings().empty());
    EXPECT_EQ(client.sync(buffer, 1, 4096, 4097), EINVAL);
    EXPECT_EQ(client.sync(buffer, 1, 8193, 1), EINVAL);
    EXPECT_EQ(client.sync(buffer, 1, ~std::uint64_t{0}, 2), EINVAL);
    EXPECT_TRUE(found(Severity::corrupt, {"MEM_SYNC", "leaves the object"}));
    kernel.clear_findings();
    for (const std::uint32_t flags : {0U, 4U}) {
        EXPECT_EQ(client.sync(buffer, flags), 0);
        EXPECT_TRUE(found(Severity::corrupt, {"names no direction"}));
        kernel.clear_findings();
    }
    const Client::Buffer uncached = client.create(4096, rknpu::mem_non_contiguous);
    EXPECT_EQ(client.sync(uncached, rknpu::sync_to_device), EINVAL);
}

TEST_F(KernelMemory, AddressesComeFromTheTopAndAreAlignedToTheSize) {
    const Client::Buffer a = client.create_unmapped(4096, paged);
    EXPECT_EQ(a.iova, 0xfffff000U);
    const Client::Buffer b = client.create_unmapped(3 * mib, paged);
    EXPECT_EQ(b.iova, 0xfffff000U - 3 * mib) << "page by page where asked for";
    const Client::Buffer c = client.create_unmapped(3 * mib);
    EXPECT_EQ(c.iova % (4 * mib), 0U) << "else by the size rounded up to a power of two";
    EXPECT_LE(c.iova + c.bytes, b.iova);
    const Client::Buffer d = client.create_unmapped(4096);
    EXPECT_GT(d.iova, c.iova) << "gaps are used";
    EXPECT_LT(d.iova, b.iova);
}

TEST_F(KernelMemory, ADomainIsFullAtFourGibibytesAndSaysSo) {
    std::vector<Client::Buffer> buffers;
    for (int i = 0; i < 7; ++i) {
        buffers.push_back(client.create_unmapped(512 * mib));
    }
    EXPECT_EQ(client.try_create(512 * mib), EFAULT) << "the lowest page is never given out";
    EXPECT_TRUE(found(Severity::warning, {"no room", "domain 0", "7 objects"}));
    EXPECT_EQ(client.try_create(512 * mib, plain & ~rknpu::mem_non_contiguous), ENOMEM);
    EXPECT_EQ(client.try_create(512 * mib, plain, 1), 0) << "another domain has a window of its own";
    EXPECT_EQ(client.try_create(511 * mib, paged), 0) << "the rest of this one";
    ASSERT_EQ(client.close_handle(buffers[2]), 0);
    ASSERT_EQ(client.close_handle(buffers[3]), 0);
    EXPECT_EQ(client.try_create(1024 * mib, paged), 0) << "what is freed can be had again";
}

TEST_F(KernelMemory, OneLargeObjectDoesNotFitWhereManySmallOnesDo) {
    EXPECT_EQ(client.try_create(3085697024, plain, 2), EFAULT) << "wants an address that is a multiple of 4 GiB";
    EXPECT_EQ(client.try_create(3085697024, paged, 2), 0);
    EXPECT_EQ(client.try_create(2048 * mib, plain, 3), 0);
    EXPECT_EQ(client.try_create(2048 * mib, plain, 3), EFAULT);
    for (const std::uint64_t too_large : {std::uint64_t{1} << 32, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
        EXPECT_EQ(client.try_create(too_large, paged), EFAULT) << too_large;
    }
}

TEST(KernelMemoryLimits, HaveANumberWhenAskedFor) {
    SimOptions options = quiet();
    options.memory_bytes = mib;
    RknpuKernel kernel(options);
    Client client(kernel);
    (void)client.create(mib - 4096);
    EXPECT_EQ(client.try_create(8192), ENOMEM);
    EXPECT_EQ(client.try_create(4096), 0);
    EXPECT_EQ(kernel.memory_in_use(), options.memory_bytes);
}

TEST(KernelMemoryLimits, AreGivenBackWhenTheFileIsClosed) {
    RknpuKernel kernel(quiet());
    Client::Buffer buffer;
    {
        Client client(kernel);
        buffer = client.create(mib);
        (void)client.create_unmapped(mib);
        EXPECT_EQ(kernel.memory_in_use(), 2 * mib);
        client.close();
        EXPECT_EQ(kernel.memory_in_use(), mib) << "what is mapped stays";
        buffer.memory[0] = std::byte{1};
    }
    EXPECT_EQ(kernel.memory_in_use(), 0U);
    Client next(kernel);
    EXPECT_EQ(next.create(mib).iova, buffer.iova) << "the addresses are free again";
}

TEST(KernelMemoryLimits, SramIsGivenToThoseWhoTryWhileItLasts) {
    RknpuKernel kernel(quiet(), {.sram_bytes = rk3588_sram_bytes});
    Client client(kernel);
    const auto sram = [&](std::uint32_t number) {
        std::uint32_t value = 0;
        EXPECT_EQ(client.action(number, value), 0);
        return value;
    };
    EXPECT_EQ(sram(rknpu::action_get_sram_total), 956U << 10);
    rknpu::MemCreate create = Client::request(4096);
    create.sram_size = 4096;
    ASSERT_EQ(client.call(rknpu::ioctl_mem_create, create), 0);
    EXPECT_EQ(create.sram_size, 0U) << "only with the flag";
    create = Client::request(65536, plain | rknpu::mem_try_sram);
    create.sram_size = 5000;
    ASSERT_EQ(client.call(rknpu::ioctl_mem_create, create), 0);
    EXPECT_EQ(create.sram_size, 8192U) << "as much as asked for, in pages";
    create = Client::request(2 * mib, plain | rknpu::mem_try_sram);
    ASSERT_EQ(client.call(rknpu::ioctl_mem_create, create), 0);
    EXPECT_EQ(create.sram_size, (956U << 10) - 8192) << "or what is left";
    EXPECT_EQ(sram(rknpu::action_get_sram_free), 0U);
    drm::GemClose close{.handle = create.handle, .padding = 0};
    ASSERT_EQ(client.call(drm::ioctl_gem_close, close), 0);
    EXPECT_EQ(sram(rknpu::action_get_sram_free), (956U << 10) - 8192);
}

TEST(StrictSync, ShowsEachMissingSynchronisation) {
    SimOptions options = quiet();
    options.strict_sync = true;
    RknpuKernel kernel(options);
    Client client(kernel);
    Job job(client, 1);
    EXPECT_EQ(job.submit(), ETIMEDOUT) << "the NPU does not see the list yet";
    EXPECT_EQ(client.sync(job.lists, rknpu::sync_to_device), 0);
    EXPECT_EQ(job.submit(), 0) << list_findings(kernel.findings()) << "the driver reads descriptors as the CPU does";
    EXPECT_EQ(client.sync(job.buffers[0][2], rknpu::sync_from_device), 0);
    EXPECT_FALSE(job.right(0)) << "features and weights were not synchronised";
    EXPECT_EQ(client.sync(job.buffers[0][0], rknpu::sync_to_device), 0);
    EXPECT_EQ(client.sync(job.buffers[0][1], rknpu::sync_to_device), 0);
    EXPECT_EQ(job.submit(), 0);
    EXPECT_FALSE(job.right(0)) << "the CPU does not see the result yet";
    EXPECT_EQ(client.sync(job.buffers[0][2], rknpu::sync_from_device, 0, 64), 0);
    EXPECT_FALSE(job.right(0)) << "only a part of it";
    EXPECT_EQ(client.sync(job.buffers[0][2], rknpu::sync_from_device), 0);
    EXPECT_TRUE(job.right(0));
}

TEST(StrictSync, MovesWholeCacheLines) {
    SimOptions options = quiet();
    options.strict_sync = true;
    RknpuKernel kernel(options);
    Client client(kernel);
    Job job(client, 1);
    ASSERT_EQ(client.sync(job.lists, rknpu::sync_to_device, 8, job.lists.bytes - 16), 0);
    for (const Client::Buffer& buffer : job.buffers[0]) {
        ASSERT_EQ(client.sync(buffer, rknpu::sync_to_device), 0);
    }
    EXPECT_EQ(job.submit(), 0) << list_findings(kernel.findings());
    ASSERT_EQ(client.sync(job.buffers[0][2], rknpu::sync_from_device, 1, job.buffers[0][2].bytes - 2), 0);
    EXPECT_TRUE(job.right(0));
}

TEST(StrictSync, WarnsOfDirtyLinesInOutputs) {
    SimOptions options = quiet();
    options.strict_sync = true;
    RknpuKernel kernel(options);
    Client client(kernel);
    Job job(client, 1);
    const auto run = [&](bool clean_output) {
        job.clear(0);
        for (const Client::Buffer& buffer : {job.lists, job.buffers[0][0], job.buffers[0][1]}) {
            EXPECT_EQ(client.sync(buffer, rknpu::sync_to_device), 0);
        }
        if (clean_output) {
            EXPECT_EQ(client.sync(job.buffers[0][2], rknpu::sync_to_device), 0);
        }
        EXPECT_EQ(job.submit(), 0) << list_findings(kernel.findings());
        EXPECT_EQ(client.sync(job.buffers[0][2], rknpu::sync_from_device), 0);
        EXPECT_TRUE(job.right(0));
        return has_finding(kernel.findings(), Severity::warning, {"did not synchronise it to the device"});
    };
    EXPECT_FALSE(run(true));
    std::ranges::rotate(job.operands[0].a, job.operands[0].a.begin() + 1);  // another product
    job.write_operands(0);
    EXPECT_TRUE(run(false)) << "a recycled output";
}

TEST(StrictSync, GivesNoiseWhereZeroingWasNotAskedFor) {
    SimOptions options = quiet();
    options.strict_sync = true;
    RknpuKernel kernel(options);
    Client client(kernel);
    EXPECT_NE(client.create(4096, rknpu::mem_cacheable).memory[0], std::byte{0});
    EXPECT_EQ(client.create(4096, plain).memory[0], std::byte{0});
}

}  // namespace
}  // namespace npu::sim::test::vendor
