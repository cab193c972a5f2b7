// The simulated rocket driver through its system calls: files, buffer objects, addresses, mappings.
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <set>
#include <string>
#include <thread>

#include "sim/rocket_client.h"

namespace npu::sim::test {
namespace {

class RocketMemoryCalls : public RocketFixture {
  protected:
    // A page that nobody may touch behind one that everybody may.
    RocketMemoryCalls() {
        void* pages = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        edge = static_cast<std::byte*>(pages) + 4096;
        EXPECT_EQ(::mprotect(edge, 4096, PROT_NONE), 0);
    }
    ~RocketMemoryCalls() override { ::munmap(edge - 4096, 8192); }
    std::byte* edge;
};

TEST_F(RocketMemoryCalls, OpensOnlyItsOwnNodeAndGivesRealDescriptors) {
    EXPECT_EQ(kernel.open("/dev/dri/card1", O_RDWR), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(kernel.open(nullptr, O_RDWR), -1);
    EXPECT_TRUE(kernel.owns(client.fd));
    EXPECT_NE(::fcntl(client.fd, F_GETFD) & FD_CLOEXEC, 0);
    const int fd = client.fd;
    client.close();
    EXPECT_FALSE(kernel.owns(fd));
    EXPECT_EQ(kernel.close(fd), -1);
    EXPECT_EQ(errno, EBADF);
    char byte = 0;
    EXPECT_EQ(kernel.ioctl(fd, rocket::ioctl_fini_bo, &byte), -1);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(RocketMemoryCalls, IsWhatTheFactoryMakesForThisDriver) {
    const auto made = make_simulated_kernel(rocket_options({1, 5}));
    RocketClient user(*made);
    uapi::drm::Version version{};
    EXPECT_EQ(user.call(uapi::drm::ioctl_version, version), 0);
    EXPECT_EQ(version.minor, 5);
}

TEST_F(RocketMemoryCalls, AnswersTheVersionAsDrmDoes) {
    std::string name(20, '#');
    std::string description(4, '#');
    uapi::drm::Version version{};
    version.major = version.minor = version.patch = 77;
    version.name = name.data();
    version.name_length = name.size();
    version.description = description.data();
    version.description_length = description.size();
    ASSERT_EQ(client.call(uapi::drm::ioctl_version, version), 0);
    EXPECT_EQ(version.major, 0);
    EXPECT_EQ(version.minor, 0);
    EXPECT_EQ(version.patch, 0);
    EXPECT_EQ(version.name_length, 6U);
    EXPECT_EQ(name, "rocket##############") << "not terminated";
    EXPECT_EQ(version.description_length, 10U);
    EXPECT_EQ(description, "rock") << "cut to what fits";
    EXPECT_GT(version.date_length, 0U) << "lengths are answered without a buffer too";
    version.name = reinterpret_cast<char*>(edge);
    version.name_length = 6;
    EXPECT_EQ(client.call(uapi::drm::ioctl_version, version), EFAULT);
}

TEST_F(RocketMemoryCalls, GivesAddressesFromZeroUpwardsPerFile) {
    RocketClient other(kernel);
    RocketClient::Buffer first;
    RocketClient::Buffer second;
    RocketClient::Buffer foreign;
    ASSERT_EQ(client.create_unmapped(1, first), 0);
    ASSERT_EQ(client.create_unmapped(4097, second), 0);
    ASSERT_EQ(other.create_unmapped(4096, foreign), 0);
    EXPECT_EQ(first.iova, 0U);
    EXPECT_EQ(second.iova, 4096U);
    EXPECT_EQ(foreign.iova, 0U);
    EXPECT_EQ(first.handle, 1U);
    EXPECT_EQ(second.handle, 2U);
    EXPECT_EQ(foreign.handle, 1U);
    EXPECT_NE(first.offset, foreign.offset);
    EXPECT_EQ(kernel.memory_in_use(), 4096U + 8192 + 4096);

    // The smallest gap is used again, and the lowest free handle.
    RocketClient::Buffer third;
    RocketClient::Buffer large;
    ASSERT_EQ(client.create_unmapped(4096, third), 0);
    ASSERT_EQ(client.gem_close(first.handle), 0);
    ASSERT_EQ(client.gem_close(second.handle), 0);
    ASSERT_EQ(client.create_unmapped(1 << 20, large), 0);
    EXPECT_EQ(large.iova, third.iova + 4096) << "the gap of three pages is too small";
    EXPECT_EQ(large.handle, 1U);
    ASSERT_EQ(client.create_unmapped(12288, first), 0);
    EXPECT_EQ(first.iova, 0U);
    EXPECT_EQ(first.handle, 2U);
}

TEST_F(RocketMemoryCalls, RefusesEmptyObjectsAndAFullWindow) {
    RocketClient::Buffer buffer;
    EXPECT_EQ(client.create_unmapped(0, buffer), EINVAL);
    RocketClient::Buffer half;
    RocketClient::Buffer rest;
    ASSERT_EQ(client.create_unmapped(0x80000000U, half), 0);
    ASSERT_EQ(client.create_unmapped(0x7ffff000U, rest), 0);
    EXPECT_EQ(client.create_unmapped(8192, buffer), ENOSPC) << "a page is left";
    EXPECT_EQ(client.create_unmapped(4096, buffer), 0);
    EXPECT_EQ(buffer.iova, 0xfffff000U);
    RocketClient other(kernel);
    EXPECT_EQ(other.create_unmapped(8192, buffer), 0) << "a window of its own";
    EXPECT_EQ(client.gem_close(half.handle), 0);
    EXPECT_EQ(client.create_unmapped(8192, buffer), 0);
    EXPECT_EQ(buffer.iova, 0U);

    RocketClient whole(kernel);
    EXPECT_EQ(whole.create_unmapped(0xffffffffU, buffer), 0) << "rounded up to the whole window";
    EXPECT_EQ(whole.create_unmapped(1, buffer), ENOSPC);
}

TEST(RocketMemoryLimit, AnswersNoMemory) {
    SimOptions options = rocket_options();
    options.memory_bytes = 3 * 4096;
    RocketKernel kernel(options);
    RocketClient client(kernel);
    RocketClient::Buffer buffer;
    EXPECT_EQ(client.create_unmapped(8192, buffer), 0);
    EXPECT_EQ(client.create_unmapped(8192, buffer), ENOMEM);
    EXPECT_EQ(client.create_unmapped(4096, buffer), 0);
    EXPECT_EQ(buffer.iova, 8192U) << "the refused object left no trace";
    EXPECT_EQ(kernel.memory_in_use(), 3U * 4096);
}

TEST_F(RocketMemoryCalls, CopiesStructsOfOtherSizesAsDrmDoes) {
    // Larger: what the driver does not know stays as it was.
    struct Large {
        rocket::CreateBo create;
        std::uint64_t more;
    } large{.create = {.size = 4096, .handle = 9, .dma_address = 9, .offset = 9}, .more = 0x1234};
    constexpr std::uint32_t large_request = (rocket::ioctl_create_bo & ~0x3fff0000U) | sizeof(Large) << 16;
    ASSERT_EQ(client.call(large_request, large), 0);
    EXPECT_EQ(large.create.handle, 1U);
    EXPECT_EQ(large.create.dma_address, 0U);
    EXPECT_EQ(large.more, 0x1234U);
    // Smaller: only what fits comes back.
    rocket::CreateBo small{.size = 4096, .handle = 9, .dma_address = 9, .offset = 9};
    ASSERT_EQ(client.call((rocket::ioctl_create_bo & ~0x3fff0000U) | 8U << 16, small), 0);
    EXPECT_EQ(small.handle, 2U);
    EXPECT_EQ(small.dma_address, 9U);
    // A wait without its deadline is a look.
    rocket::PrepBo prep{.handle = 1, .reserved = 0, .timeout_ns = -1};
    EXPECT_EQ(client.call((rocket::ioctl_prep_bo & ~0x3fff0000U) | 8U << 16, prep), 0);
    // A request in the other direction only: nothing is read, the handle is 0.
    EXPECT_EQ(client.call((rocket::ioctl_fini_bo & ~0xc0000000U) | 0x80000000U, prep), ENOENT);
}

TEST_F(RocketMemoryCalls, AnswersBadPointersAndNumbersWithAnErrno) {
    EXPECT_EQ(kernel.ioctl(client.fd, rocket::ioctl_create_bo, nullptr), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(kernel.ioctl(client.fd, rocket::ioctl_create_bo, edge - 8), -1) << "half of the struct";
    EXPECT_EQ(errno, EFAULT);
    std::memset(edge - 24, 1, 24);
    EXPECT_EQ(kernel.ioctl(client.fd, rocket::ioctl_create_bo, edge - 24), 0) << "the control: it just fits";
    ASSERT_EQ(::mprotect(edge - 4096, 4096, PROT_READ), 0);
    EXPECT_EQ(kernel.ioctl(client.fd, rocket::ioctl_create_bo, edge - 24), -1) << "the answer cannot be written";
    EXPECT_EQ(errno, EFAULT);
    std::array<std::byte, 64> bytes{};
    EXPECT_EQ(kernel.ioctl(client.fd, 0xc0407800, bytes.data()), -1) << "another subsystem's";
    EXPECT_EQ(errno, ENOTTY);
    for (const std::uint32_t number : {0x01U, 0x2dU, 0x44U, 0x45U, 0x46U, 0x9fU}) {
        EXPECT_EQ(kernel.ioctl(client.fd, 0xc0206400 | number, bytes.data()), -1) << number;
        EXPECT_EQ(errno, EINVAL) << number;
    }
}

TEST_F(RocketMemoryCalls, ChecksHandlesAndReservedFields) {
    const auto buffer = client.create(4096);
    EXPECT_EQ(client.prep(buffer.handle + 1), ENOENT);
    EXPECT_EQ(client.fini(buffer.handle + 1), ENOENT);
    EXPECT_EQ(client.prep(0), ENOENT);
    EXPECT_EQ(client.gem_close(buffer.handle + 1), EINVAL);
    rocket::PrepBo prep{.handle = buffer.handle, .reserved = 1, .timeout_ns = 0};
    EXPECT_EQ(client.call(rocket::ioctl_prep_bo, prep), EINVAL);
    rocket::FiniBo fini{.handle = buffer.handle, .reserved = 1};
    EXPECT_EQ(client.call(rocket::ioctl_fini_bo, fini), EINVAL);
    EXPECT_EQ(client.prep(buffer.handle, 0), 0);
    EXPECT_EQ(client.fini(buffer.handle), 0);
    EXPECT_EQ(client.gem_close(buffer.handle), 0);
    EXPECT_EQ(client.gem_close(buffer.handle), EINVAL);
    EXPECT_EQ(client.prep(buffer.handle, 0), ENOENT);
}

TEST_F(RocketMemoryCalls, MapsByTheFakeOffsetOnly) {
    RocketClient::Buffer buffer;
    ASSERT_EQ(client.create_unmapped(8192, buffer), 0);
    RocketClient other(kernel);
    const auto map = [&](int fd, std::uint64_t offset, std::size_t bytes, int flags = MAP_SHARED) {
        void* memory = kernel.mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
        if (memory == MAP_FAILED) {
            return errno;
        }
        EXPECT_EQ(kernel.munmap(memory, bytes), 0);
        return 0;
    };
    EXPECT_EQ(map(client.fd, buffer.offset, 8192), 0);
    EXPECT_EQ(map(client.fd, buffer.offset, 4096), 0);
    EXPECT_EQ(map(client.fd, buffer.offset, 8193), EINVAL);
    EXPECT_EQ(map(client.fd, buffer.offset, 0), EINVAL);
    EXPECT_EQ(map(client.fd, buffer.offset + 4096, 4096), EINVAL);
    EXPECT_EQ(map(client.fd, buffer.iova, 4096), EINVAL);
    EXPECT_EQ(map(client.fd, buffer.offset, 4096, MAP_PRIVATE), EINVAL);
    EXPECT_EQ(map(other.fd, buffer.offset, 4096), EACCES) << "another file's object";
    EXPECT_EQ(map(-1, buffer.offset, 4096), EBADF);
}

TEST_F(RocketMemoryCalls, KeepsAnObjectAsLongAsAMappingShowsIt) {
    RocketClient::Buffer buffer;
    ASSERT_EQ(client.create_unmapped(4 * 4096, buffer), 0);
    auto* memory = static_cast<std::byte*>(kernel.mmap(nullptr, buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                                       client.fd, static_cast<off_t>(buffer.offset)));
    std::memset(memory, 0x5c, buffer.bytes);
    ASSERT_EQ(client.gem_close(buffer.handle), 0);
    EXPECT_EQ(kernel.memory_in_use(), buffer.bytes);
    RocketClient::Buffer next;
    ASSERT_EQ(client.create_unmapped(4096, next), 0);
    EXPECT_EQ(next.iova, buffer.iova + buffer.bytes) << "the addresses are still taken";
    ASSERT_EQ(client.gem_close(next.handle), 0);
    client.close();
    EXPECT_EQ(memory[0], std::byte{0x5c});
    ASSERT_EQ(kernel.munmap(memory, 4096), 0);
    ASSERT_EQ(kernel.munmap(memory + 2 * 4096, 4096), 0);
    EXPECT_EQ(memory[4096], std::byte{0x5c});
    EXPECT_EQ(memory[3 * 4096], std::byte{0x5c});
    EXPECT_EQ(kernel.memory_in_use(), buffer.bytes) << "two pieces are left";
    ASSERT_EQ(kernel.munmap(memory, 4 * 4096), 0);
    EXPECT_EQ(kernel.memory_in_use(), 0U);
}

TEST_F(RocketMemoryCalls, FreesEverythingWhenFilesCloseInAnyOrder) {
    std::vector<std::unique_ptr<RocketClient>> clients;
    std::set<int> descriptors;
    for (int i = 0; i < 65; ++i) {
        clients.push_back(std::make_unique<RocketClient>(kernel));
        descriptors.insert(clients.back()->fd);
        for (int k = 0; k < 3; ++k) {
            clients.back()->create(4096 * (k + 1));
        }
    }
    EXPECT_EQ(descriptors.size(), 65U);
    EXPECT_EQ(kernel.memory_in_use(), 65U * 6 * 4096);
    for (std::size_t i = 0; i < clients.size(); i += 2) {
        clients[i].reset();
    }
    for (auto one = clients.rbegin(); one != clients.rend(); ++one) {
        one->reset();
    }
    EXPECT_EQ(kernel.memory_in_use(), 0U);
}

TEST(BottomUpWindow, GivesOutTheWholeWindowAndJoinsWhatComesBack) {
    BottomUpWindow window;
    std::vector<std::uint64_t> starts;
    for (int i = 0; i < 4; ++i) {
        starts.push_back(window.allocate(std::uint64_t{1} << 30).value());
    }
    EXPECT_EQ(starts, (std::vector<std::uint64_t>{0, 0x40000000, 0x80000000, 0xc0000000}));
    EXPECT_FALSE(window.allocate(4096));
    window.free(starts[1], std::uint64_t{1} << 30);
    window.free(starts[3], std::uint64_t{1} << 30);
    EXPECT_FALSE(window.allocate(std::uint64_t{1} << 31)) << "two gaps, not one";
    window.free(starts[2], std::uint64_t{1} << 30);
    EXPECT_EQ(window.allocate(std::uint64_t{3} << 30), 0x40000000U);
}

// Synchronisation at the level of the object: what the NPU wrote beside the CPU's changes survives.
TEST(CacheLines, WriteBackOnlyWhatTheCpuChanged) {
    const auto object = BufferObject::create(std::make_shared<BackingFile>(), 4096, true, true);
    std::byte* cpu = object->cpu_view().data();
    std::byte* device = object->device_view().data();
    cpu[0] = std::byte{1};
    device[64] = std::byte{2};
    device[32] = std::byte{3};  // in the line that the CPU changed: lost, as on silicon
    object->to_device(0, 4096);
    EXPECT_EQ(device[0], std::byte{1});
    EXPECT_EQ(device[32], std::byte{0});
    EXPECT_EQ(device[64], std::byte{2});
    EXPECT_EQ(cpu[64], std::byte{0}) << "stale until it is synchronised back";
    cpu[128] = std::byte{4};  // a change that was not written back is dropped
    object->from_device(0, 4096);
    EXPECT_EQ(cpu[64], std::byte{2});
    EXPECT_EQ(cpu[128], std::byte{0});
    cpu[200] = std::byte{5};
    cpu[300] = std::byte{6};
    object->to_device(192, 64);
    EXPECT_EQ(device[200], std::byte{5});
    EXPECT_EQ(device[300], std::byte{0}) << "outside the range";
}

TEST(CacheLines, AreAllWrittenTheFirstTimeWhereMemoryHeldNoise) {
    const auto object = BufferObject::create(std::make_shared<BackingFile>(), 4096, true, false);
    const std::vector<std::byte> before(object->cpu_view().begin(), object->cpu_view().end());
    EXPECT_NE(std::memcmp(before.data(), object->device_view().data(), 4096), 0);
    object->to_device(0, 4096);
    EXPECT_EQ(std::memcmp(before.data(), object->device_view().data(), 4096), 0);
}

}  // namespace
}  // namespace npu::sim::test
