// The simulated rknpu driver: buffers as descriptors (PRIME), between files and from other exporters.
#include <gtest/gtest.h>
#include <unistd.h>

#include "sim/kernel_client.h"

namespace npu::sim::test::vendor {
namespace {

class RknpuPrime : public KernelFixture {
  protected:
    static int export_handle(Client& from, std::uint32_t handle, int& fd,
                             std::uint32_t flags = drm::prime_close_on_exec | drm::prime_read_write) {
        drm::PrimeHandle arguments{.handle = handle, .flags = flags, .fd = -1};
        const int error = from.call(drm::ioctl_prime_handle_to_fd, arguments);
        fd = arguments.fd;
        return error;
    }
    static int import(Client& to, int fd, std::uint32_t& handle) {
        drm::PrimeHandle arguments{.handle = 0, .flags = 0, .fd = fd};
        const int error = to.call(drm::ioctl_prime_fd_to_handle, arguments);
        handle = arguments.handle;
        return error;
    }
    // MEM_CREATE with the handle: what an importer does to learn the addresses.
    static Client::Buffer look_up(Client& client, std::uint32_t handle) {
        rknpu::MemCreate lookup{};
        lookup.handle = handle;
        EXPECT_EQ(client.call(rknpu::ioctl_mem_create, lookup), 0);
        EXPECT_EQ(lookup.handle, handle);
        return {lookup.handle, lookup.obj_addr, lookup.dma_addr, lookup.size, nullptr};
    }
    static int memory_file(std::size_t bytes) {
        const int fd = ::memfd_create("another exporter", MFD_CLOEXEC);
        EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
        return fd;
    }
};

TEST_F(RknpuPrime, ADescriptorHasTheSizeAndTheBytesOfItsObject) {
    const Client::Buffer buffer = client.create(8192);
    buffer.memory[4097] = std::byte{9};
    int fd = -1;
    ASSERT_EQ(export_handle(client, buffer.handle, fd), 0);
    EXPECT_TRUE(kernel.owns(fd));
    EXPECT_EQ(::lseek(fd, 0, SEEK_END), 8192);
    EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    auto* second_page =
        static_cast<std::byte*>(kernel.mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096));
    ASSERT_NE(second_page, MAP_FAILED);
    EXPECT_EQ(second_page[1], std::byte{9});
    second_page[2] = std::byte{8};
    EXPECT_EQ(buffer.memory[4098], std::byte{8});
    EXPECT_EQ(kernel.mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 4096), MAP_FAILED);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(kernel.munmap(second_page, 4096), 0);
    EXPECT_EQ(kernel.close(fd), 0);
    EXPECT_FALSE(kernel.owns(fd));
    EXPECT_EQ(kernel.close(fd), -1);
}

TEST_F(RknpuPrime, ErrorsAreThoseOfDrm) {
    const Client::Buffer buffer = client.create(4096);
    int fd = -1;
    EXPECT_EQ(export_handle(client, 777, fd), ENOENT);
    EXPECT_EQ(export_handle(client, buffer.handle, fd, 1), EINVAL) << "an unknown flag";
    ASSERT_EQ(export_handle(client, buffer.handle, fd, 0), 0);
    EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_EQ(kernel.mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    EXPECT_EQ(errno, EACCES) << "exported without DRM_RDWR";
    void* readable = kernel.mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(readable, MAP_FAILED);
    EXPECT_EQ(kernel.munmap(readable, 4096), 0);
    std::uint32_t handle = 0;
    EXPECT_EQ(import(client, 12345, handle), EBADF);
    EXPECT_EQ(import(client, client.fd, handle), EINVAL) << "a device is no buffer";
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    EXPECT_EQ(import(client, null, handle), EINVAL);
    ::close(null);
    std::uint64_t word = 0;
    EXPECT_EQ(kernel.ioctl(fd, rknpu::ioctl_action, &word), -1);
    EXPECT_EQ(errno, ENOTTY) << "a buffer is no device";
    EXPECT_EQ(kernel.close(fd), 0);
}

TEST_F(RknpuPrime, AnImportIsTheSameObjectAndInItsOwnFileTheSameHandle) {
    const Client::Buffer buffer = client.create(4096);
    int fd = -1;
    ASSERT_EQ(export_handle(client, buffer.handle, fd), 0);
    std::uint32_t handle = 0;
    ASSERT_EQ(import(client, fd, handle), 0);
    EXPECT_EQ(handle, buffer.handle);
    Client other(kernel);
    (void)other.create_unmapped(4096);
    ASSERT_EQ(import(other, fd, handle), 0);
    const Client::Buffer imported = look_up(other, handle);
    EXPECT_EQ(imported.token, buffer.token);
    EXPECT_EQ(imported.iova, buffer.iova);
    EXPECT_EQ(imported.bytes, 4096U);
    std::uint32_t again = 0;
    ASSERT_EQ(import(other, fd, again), 0);
    EXPECT_EQ(again, handle);
    EXPECT_EQ(other.sync(imported, 3), 0);
    EXPECT_EQ(kernel.close(fd), 0);
}

TEST_F(RknpuPrime, AnObjectLivesWhileADescriptorOrAHandleOfAnyFileDoes) {
    Client other(kernel);
    Client::Buffer buffer = client.create_unmapped(4096);
    int fd = -1;
    ASSERT_EQ(export_handle(client, buffer.handle, fd), 0);
    ASSERT_EQ(client.close_handle(buffer), 0);
    EXPECT_EQ(kernel.memory_in_use(), 4096U);
    std::uint32_t handle = 0;
    ASSERT_EQ(import(other, fd, handle), 0);
    client.close();
    EXPECT_EQ(kernel.close(fd), 0);
    EXPECT_EQ(kernel.memory_in_use(), 4096U);
    buffer.handle = handle;
    EXPECT_EQ(other.close_handle(buffer), 0);
    EXPECT_EQ(kernel.memory_in_use(), 0U);
}

TEST_F(RknpuPrime, JobsOfAnotherFileReachWhatItImports) {
    Client other(kernel);
    Job job(client, 1);
    // The other file has task list and command list of its own, and imports the operands.
    const Client::Buffer lists = other.create(job.lists.bytes);
    const Client::Buffer descriptors = other.create(job.descriptors.bytes, for_tasks);
    std::memcpy(lists.memory, job.lists.memory, lists.bytes);
    rknpu::Task task = job.task(0);
    task.regcmd_addr = lists.iova;
    std::memcpy(descriptors.memory, &task, sizeof task);
    auto arguments = job.arguments();
    EXPECT_EQ(other.call(rknpu::ioctl_submit, arguments), EINVAL) << "a token of another file";
    EXPECT_TRUE(found(Severity::hang, {"SUBMIT", "panic"}));
    arguments.task_obj_addr = descriptors.token;
    EXPECT_EQ(other.call(rknpu::ioctl_submit, arguments), ETIMEDOUT) << "operands of another file";
    for (const Client::Buffer& buffer : job.buffers[0]) {
        int fd = -1;
        ASSERT_EQ(export_handle(client, buffer.handle, fd), 0);
        std::uint32_t handle = 0;
        ASSERT_EQ(import(other, fd, handle), 0);
        EXPECT_EQ(kernel.close(fd), 0);
    }
    EXPECT_EQ(other.call(rknpu::ioctl_submit, arguments), 0) << list_findings(kernel.findings());
    EXPECT_TRUE(job.right(0));
}

TEST_F(RknpuPrime, MemoryOfAnotherExporterIsMappedIntoTheLiveDomain) {
    const int fd = memory_file(10000);
    std::uint32_t handle = 0;
    ASSERT_EQ(import(client, fd, handle), 0);
    const Client::Buffer imported = look_up(client, handle);
    EXPECT_EQ(imported.bytes, 12288U);
    std::uint32_t again = 0;
    ASSERT_EQ(import(client, fd, again), 0);
    EXPECT_EQ(again, handle);
    rknpu::MemMap map{.handle = handle, .reserved = 0, .offset = 0};
    EXPECT_EQ(client.call(rknpu::ioctl_mem_map, map), EINVAL) << "mapped by its exporter only";
    EXPECT_EQ(client.sync(imported, 3), EINVAL);
    EXPECT_TRUE(found(Severity::corrupt, {"imported", "exporter"}));
    int exported = -1;
    ASSERT_EQ(export_handle(client, handle, exported), 0);
    EXPECT_FALSE(kernel.owns(exported)) << "it is the exporter's again";
    ::close(exported);

    // As operand: weights of a job come from there.
    Job job(client, 1);
    auto* memory = static_cast<std::byte*>(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ASSERT_NE(memory, MAP_FAILED);
    std::memcpy(memory, job.buffers[0][1].memory, job.matmuls[0].b_bytes());
    std::memset(job.buffers[0][1].memory, 0, job.matmuls[0].b_bytes());
    ASSERT_EQ(job.submit(), 0);
    EXPECT_FALSE(job.right(0));
    job.matmuls[0].b = static_cast<std::uint32_t>(imported.iova);
    job.write_list(0, false);
    ASSERT_EQ(job.submit(), 0) << list_findings(kernel.findings());
    EXPECT_TRUE(job.right(0));
    ::munmap(memory, 8192);
    ::close(fd);
    // In another domain only when that one is live.
    ASSERT_EQ(client.set_domain(3), 0);
    (void)client.create_unmapped(65536, plain, 3);
    const int second = memory_file(4096);
    ASSERT_EQ(import(client, second, handle), 0);
    ::close(second);
    job.matmuls[0].b = static_cast<std::uint32_t>(look_up(client, handle).iova);
    job.write_list(0, false);
    EXPECT_EQ(job.submit(), ETIMEDOUT);
    EXPECT_FALSE(found(Severity::corrupt, {"first thing in domain"}));
}

TEST_F(RknpuPrime, WarnsOfAnImportIntoAnEmptyDomain) {
    ASSERT_EQ(client.set_domain(3), 0);
    const int fd = memory_file(4096);
    std::uint32_t handle = 0;
    ASSERT_EQ(import(client, fd, handle), 0);
    ::close(fd);
    EXPECT_TRUE(found(Severity::corrupt, {"first thing in domain 3", "64 KiB"}));
}

TEST_F(RknpuPrime, AnImportedTaskListHasNoKernelMapping) {
    Job job(client, 1);
    const int fd = memory_file(4096);
    const rknpu::Task task = job.task(0);
    ASSERT_EQ(::pwrite(fd, &task, sizeof task, 0), static_cast<ssize_t>(sizeof task));
    std::uint32_t handle = 0;
    ASSERT_EQ(import(client, fd, handle), 0);
    ::close(fd);
    auto arguments = job.arguments();
    arguments.task_obj_addr = look_up(client, handle).token;
    EXPECT_EQ(client.call(rknpu::ioctl_submit, arguments), EINVAL);
    EXPECT_TRUE(found(Severity::hang, {"kernel mapping", "imported"}));
}

TEST_F(RknpuPrime, DmaBufSyncMovesBytesAsMemSyncDoes) {
    SimOptions options = quiet();
    options.strict_sync = true;
    RknpuKernel strict(options);
    Client user(strict);
    Job job(user, 1);
    for (const Client::Buffer& buffer : {job.lists, job.buffers[0][0], job.buffers[0][1], job.buffers[0][2]}) {
        ASSERT_EQ(user.sync(buffer, rknpu::sync_to_device), 0);
    }
    // The CPU changes the weights after they were handed over.
    std::vector<std::byte> right(job.buffers[0][1].memory, job.buffers[0][1].memory + job.buffers[0][1].bytes);
    std::memset(job.buffers[0][1].memory, 1, job.buffers[0][1].bytes);
    ASSERT_EQ(user.sync(job.buffers[0][1], rknpu::sync_to_device), 0);
    std::memcpy(job.buffers[0][1].memory, right.data(), right.size());
    int weights = -1;
    int outputs = -1;
    ASSERT_EQ(export_handle(user, job.buffers[0][1].handle, weights), 0);
    ASSERT_EQ(export_handle(user, job.buffers[0][2].handle, outputs), 0);
    const auto sync = [&](int fd, std::uint64_t flags) {
        drm::DmaBufSync arguments{.flags = flags};
        return strict.ioctl(fd, drm::ioctl_dma_buf_sync, &arguments) == 0 ? 0 : errno;
    };
    EXPECT_EQ(sync(weights, 0), EINVAL);
    EXPECT_EQ(sync(weights, 8), EINVAL);
    EXPECT_EQ(strict.ioctl(weights, drm::ioctl_dma_buf_sync, nullptr), -1);
    EXPECT_EQ(errno, EFAULT);
    const auto run = [&] {
        EXPECT_EQ(job.submit(), 0) << list_findings(strict.findings());
        EXPECT_EQ(sync(outputs, drm::dma_buf_sync_read), 0);
        return job.right(0);
    };
    EXPECT_FALSE(run()) << "the weights are not there yet";
    EXPECT_EQ(sync(weights, drm::dma_buf_sync_write | drm::dma_buf_sync_end), 0);
    EXPECT_TRUE(run());
    strict.close(weights);
    strict.close(outputs);
}

}  // namespace
}  // namespace npu::sim::test::vendor
