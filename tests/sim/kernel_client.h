// A client of the simulated rknpu driver, and a job that it can submit; shared by the kernel tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fcntl.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "sim/kernel_rknpu.h"
#include "sim/test_support.h"
#include "uapi/drm.h"

namespace npu::sim::test {

namespace rknpu = uapi::rknpu;

constexpr std::uint32_t plain = rknpu::mem_non_contiguous | rknpu::mem_cacheable | rknpu::mem_zeroing;
constexpr std::uint32_t for_tasks = plain | rknpu::mem_kernel_mapping;

// A client with one open file; all calls return 0 or the errno.
class Client {
  public:
    explicit Client(SimulatedKernel& kernel) : kernel(kernel), fd(kernel.open("/dev/dri/card1", O_RDWR)) {}
    ~Client() { kernel.close(fd); }

    template <typename T>
    int call(std::uint32_t request, T& arguments) {
        return kernel.ioctl(fd, request, &arguments) == 0 ? 0 : errno;
    }

    struct Buffer {
        std::uint32_t handle = 0;
        std::uint64_t token = 0;
        std::uint64_t iova = 0;
        std::uint64_t bytes = 0;
        std::byte* memory = nullptr;
    };

    Buffer create(std::uint64_t bytes, std::uint32_t flags = plain, std::int32_t domain = 0) {
        rknpu::MemCreate create{.handle = 0,
                                .flags = flags,
                                .size = bytes,
                                .obj_addr = 0,
                                .dma_addr = 0,
                                .sram_size = 0,
                                .iommu_domain_id = domain,
                                .core_mask = 0};
        EXPECT_EQ(call(rknpu::ioctl_mem_create, create), 0);
        rknpu::MemMap map{.handle = create.handle, .reserved = 0, .offset = 0};
        EXPECT_EQ(call(rknpu::ioctl_mem_map, map), 0);
        void* memory =
            kernel.mmap(nullptr, create.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(map.offset));
        EXPECT_NE(memory, MAP_FAILED);
        return {create.handle, create.obj_addr, create.dma_addr, create.size, static_cast<std::byte*>(memory)};
    }
    int sync(const Buffer& buffer, std::uint32_t flags, std::uint64_t offset = 0, std::uint64_t bytes = 0) {
        rknpu::MemSync sync{.flags = flags,
                            .reserved = 0,
                            .obj_addr = buffer.token,
                            .offset = offset,
                            .size = bytes == 0 ? buffer.bytes : bytes};
        return call(rknpu::ioctl_mem_sync, sync);
    }
    int action(std::uint32_t number, std::uint32_t& value) {
        rknpu::Action action{.flags = number, .value = value};
        const int result = call(rknpu::ioctl_action, action);
        value = action.value;
        return result;
    }

    SimulatedKernel& kernel;
    int fd;
};

inline SimOptions quiet() {
    SimOptions options;
    options.log_findings = false;
    return options;
}

// A job: `count` independent products, each with buffers of its own, in one chain of lists.
struct Job {
    Job(Client& client, std::uint32_t count, std::uint32_t seed = 1) : client(client) {
        std::mt19937 random(seed);
        const Program sample = matmul_program(shape());
        stride = (sample.size() + 4 + 7) / 8 * 64;
        lists = client.create(stride * count);
        descriptors = client.create(sizeof(rknpu::Task) * count, for_tasks);
        for (std::uint32_t i = 0; i < count; ++i) {
            Matmul matmul = shape();
            buffers.push_back(
                {client.create(matmul.a_bytes()), client.create(matmul.b_bytes()), client.create(matmul.c_bytes())});
            auto& [a, b, c] = buffers.back();
            matmul.a = static_cast<std::uint32_t>(a.iova);
            matmul.b = static_cast<std::uint32_t>(b.iova);
            matmul.c = static_cast<std::uint32_t>(c.iova);
            operands.push_back(random_operands(matmul, random, Range::full));
            for (std::uint32_t k = 0; k < matmul.k; ++k) {
                for (std::uint32_t m = 0; m < matmul.m; ++m) {
                    write_element(a.memory, matmul.a_bit(m, k), 8, operands[i].a[m * matmul.k + k]);
                }
                for (std::uint32_t n = 0; n < matmul.n; ++n) {
                    write_element(b.memory, matmul.b_bit(n, k), 8, operands[i].b[n * matmul.k + k]);
                }
            }
            std::memset(c.memory, 0xee, c.bytes);
            matmuls.push_back(matmul);
            write_list(i, i + 1 < count);
        }
    }

    static Matmul shape() { return {.input = Precision::int8, .output = Precision::int32, .m = 6, .k = 64, .n = 64}; }

    void write_list(std::uint32_t i, bool linked) {
        const Program program = matmul_program(matmuls[i]);
        const auto words = program.words(0x0d, linked ? static_cast<std::uint32_t>(lists.iova + stride * (i + 1)) : 0,
                                         static_cast<std::uint32_t>(program.size() + 4));
        std::memcpy(lists.memory + stride * i, words.data(), words.size() * 8);
        set_task(i, 0x300, static_cast<std::uint32_t>(program.size()));
    }
    void set_task(std::uint32_t i, std::uint32_t int_mask, std::uint32_t body_words) {
        const rknpu::Task task{.flags = 0,
                               .op_idx = 0,
                               .enable_mask = 0xd,
                               .int_mask = int_mask,
                               .int_clear = 0x1ffff,
                               .int_status = 0,
                               .regcfg_amount = body_words,
                               .regcfg_offset = 0,
                               .regcmd_addr = lists.iova + stride * i};
        std::memcpy(descriptors.memory + sizeof task * i, &task, sizeof task);
    }
    rknpu::Task task(std::uint32_t i) const {
        rknpu::Task task;
        std::memcpy(&task, descriptors.memory + sizeof task * i, sizeof task);
        return task;
    }
    rknpu::Submit arguments(std::uint32_t core_mask = 1) const {
        rknpu::Submit submit{};
        submit.flags = rknpu::job_pc | rknpu::job_pingpong;
        submit.timeout = 6000;
        submit.task_number = static_cast<std::uint32_t>(matmuls.size());
        submit.task_obj_addr = descriptors.token;
        submit.core_mask = core_mask;
        submit.fence_fd = -1;
        submit.subcore_task[0] = {0, submit.task_number};
        return submit;
    }
    bool right(std::uint32_t i) const {
        std::vector<std::uint32_t> got;
        for (std::uint32_t m = 0; m < shape().m; ++m) {
            for (std::uint32_t n = 0; n < shape().n; ++n) {
                got.push_back(read_element(buffers[i][2].memory, matmuls[i].c_bit(m, n), 32));
            }
        }
        return got == reference_product(matmuls[i], operands[i]);
    }
    bool untouched(std::uint32_t i) const {
        return std::all_of(buffers[i][2].memory, buffers[i][2].memory + buffers[i][2].bytes,
                           [](std::byte value) { return value == std::byte{0xee}; });
    }

    Client& client;
    std::uint64_t stride = 0;
    Client::Buffer lists;
    Client::Buffer descriptors;
    std::vector<std::array<Client::Buffer, 3>> buffers;
    std::vector<Matmul> matmuls;
    std::vector<Operands> operands;
};

// A kernel with one client; the suites of both files use it.
class KernelFixture : public testing::Test {
  protected:
    RknpuKernel kernel{quiet()};
    Client client{kernel};
};

}  // namespace npu::sim::test
