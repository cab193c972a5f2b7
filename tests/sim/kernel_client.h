// A client of the simulated rknpu driver, and a job that it can submit; shared by the kernel tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <utility>

#include "sim/kernel_rknpu.h"
#include "sim/test_support.h"
#include "uapi/drm.h"

namespace npu::sim::test::vendor {

namespace rknpu = uapi::rknpu;
namespace drm = uapi::drm;

constexpr std::uint32_t plain = rknpu::mem_non_contiguous | rknpu::mem_cacheable | rknpu::mem_zeroing;
constexpr std::uint32_t for_tasks = plain | rknpu::mem_kernel_mapping;

// A client with one open file; all calls return 0 or the errno.
class Client {
  public:
    explicit Client(SimulatedKernel& kernel, const char* path = "/dev/dri/card1")
        : kernel(kernel), fd(kernel.open(path, O_RDWR)) {}
    ~Client() {
        for (const auto& [address, bytes] : mappings_) {
            kernel.munmap(address, bytes);
        }
        close();
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    void close() {
        if (fd >= 0) {
            EXPECT_EQ(kernel.close(std::exchange(fd, -1)), 0);
        }
    }

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

    static rknpu::MemCreate request(std::uint64_t bytes, std::uint32_t flags = plain, std::int32_t domain = 0) {
        rknpu::MemCreate create{};
        create.size = bytes;
        create.flags = flags;
        create.iommu_domain_id = domain;
        return create;
    }
    // The errno of MEM_CREATE, for what should fail.
    int try_create(std::uint64_t bytes, std::uint32_t flags = plain, std::int32_t domain = 0) {
        rknpu::MemCreate create = request(bytes, flags, domain);
        return call(rknpu::ioctl_mem_create, create);
    }
    Buffer create_unmapped(std::uint64_t bytes, std::uint32_t flags = plain, std::int32_t domain = 0) {
        rknpu::MemCreate create = request(bytes, flags, domain);
        EXPECT_EQ(call(rknpu::ioctl_mem_create, create), 0);
        return {create.handle, create.obj_addr, create.dma_addr, create.size, nullptr};
    }
    Buffer create(std::uint64_t bytes, std::uint32_t flags = plain, std::int32_t domain = 0) {
        Buffer buffer = create_unmapped(bytes, flags, domain);
        rknpu::MemMap map{.handle = buffer.handle, .reserved = 0, .offset = 0};
        EXPECT_EQ(call(rknpu::ioctl_mem_map, map), 0);
        void* memory =
            kernel.mmap(nullptr, buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(map.offset));
        EXPECT_NE(memory, MAP_FAILED);
        mappings_.emplace_back(memory, buffer.bytes);
        buffer.memory = static_cast<std::byte*>(memory);
        return buffer;
    }
    void unmap(const Buffer& buffer) {
        EXPECT_EQ(kernel.munmap(buffer.memory, buffer.bytes), 0);
        mappings_.remove({buffer.memory, buffer.bytes});
    }
    int close_handle(const Buffer& buffer) {
        drm::GemClose close{.handle = buffer.handle, .padding = 0};
        return call(drm::ioctl_gem_close, close);
    }
    int destroy(const Buffer& buffer) {
        rknpu::MemDestroy destroy{.handle = buffer.handle, .reserved = 0, .obj_addr = buffer.token};
        return call(rknpu::ioctl_mem_destroy, destroy);
    }
    void release(const Buffer& buffer) {
        unmap(buffer);
        EXPECT_EQ(close_handle(buffer), 0);
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
    int reset() {
        std::uint32_t value = 0;
        return action(rknpu::action_reset, value);
    }
    std::uint32_t live_domain() {
        std::uint32_t value = 99;
        EXPECT_EQ(action(rknpu::action_get_domain, value), 0);
        return value;
    }
    int set_domain(std::uint32_t domain) { return action(rknpu::action_set_domain, domain); }

    SimulatedKernel& kernel;
    int fd;

  private:
    std::list<std::pair<void*, std::size_t>> mappings_;
};

inline SimOptions quiet() {
    SimOptions options;
    options.log_findings = false;
    return options;
}

inline SimOptions with_faults(const char* specification) {
    SimOptions options = quiet();
    options.faults = *Faults::parse(specification);
    return options;
}

// Holds every job that has run its tasks, until opened: between enter() and open() jobs are in flight.
class Gate {
  public:
    // To be used as SimOptions::on_task.
    std::function<void(const TaskWork&)> hook() {
        return [this](const TaskWork&) {
            std::unique_lock lock(mutex_);
            ++waiting_;
            changed_.notify_all();
            changed_.wait(lock, [this] { return open_; });
        };
    }
    // Returns when that many tasks have come to the gate.
    void enter(unsigned tasks = 1) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return waiting_ >= tasks; });
    }
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    unsigned waiting_ = 0;
    bool open_ = false;
};

// A job: `count` independent products, each with buffers of its own, in one chain of lists.
struct Job {
    Job(Client& client, std::uint32_t count, std::uint32_t seed = 1, std::int32_t domain = 0)
        : client(client), domain(domain) {
        std::mt19937 random(seed);
        const Program sample = matmul_program(shape());
        stride = (sample.size() + 4 + 7) / 8 * 64;
        lists = client.create(stride * count, plain, domain);
        descriptors = client.create(sizeof(rknpu::Task) * count, for_tasks, domain);
        for (std::uint32_t i = 0; i < count; ++i) {
            Matmul matmul = shape();
            buffers.push_back({client.create(matmul.a_bytes(), plain, domain),
                               client.create(matmul.b_bytes(), plain, domain),
                               client.create(matmul.c_bytes(), plain, domain)});
            const auto& [a, b, c] = buffers.back();
            matmul.a = static_cast<std::uint32_t>(a.iova);
            matmul.b = static_cast<std::uint32_t>(b.iova);
            matmul.c = static_cast<std::uint32_t>(c.iova);
            operands.push_back(random_operands(matmul, random, Range::full));
            matmuls.push_back(matmul);
            write_operands(i);
            clear(i);
            write_list(i, i + 1 < count);
        }
    }

    static Matmul shape() { return {.input = Precision::int8, .output = Precision::int32, .m = 6, .k = 64, .n = 64}; }
    static std::uint32_t body_words() { return static_cast<std::uint32_t>(matmul_program(shape()).size()); }

    void write_operands(std::uint32_t i) {
        const Matmul& matmul = matmuls[i];
        for (std::uint32_t k = 0; k < matmul.k; ++k) {
            for (std::uint32_t m = 0; m < matmul.m; ++m) {
                write_element(buffers[i][0].memory, matmul.a_bit(m, k), 8, operands[i].a[m * matmul.k + k]);
            }
            for (std::uint32_t n = 0; n < matmul.n; ++n) {
                write_element(buffers[i][1].memory, matmul.b_bit(n, k), 8, operands[i].b[n * matmul.k + k]);
            }
        }
    }
    void clear(std::uint32_t i) { std::memset(buffers[i][2].memory, 0xee, buffers[i][2].bytes); }
    void write_list(std::uint32_t i, bool linked) {
        const Program program = matmul_program(matmuls[i]);
        const auto words = program.words(0x0d, linked ? static_cast<std::uint32_t>(lists.iova + stride * (i + 1)) : 0,
                                         static_cast<std::uint32_t>(program.size() + 4));
        std::memcpy(lists.memory + stride * i, words.data(), words.size() * 8);
        set_task(i, 0x300, static_cast<std::uint32_t>(program.size()));
    }
    void set_task(std::uint32_t i, std::uint32_t int_mask, std::uint32_t words) {
        const rknpu::Task task{.flags = 0,
                               .op_idx = 0,
                               .enable_mask = 0xd,
                               .int_mask = int_mask,
                               .int_clear = 0x1ffff,
                               .int_status = 0,
                               .regcfg_amount = words,
                               .regcfg_offset = 0,
                               .regcmd_addr = lists.iova + stride * i};
        std::memcpy(descriptors.memory + sizeof task * i, &task, sizeof task);
    }
    // The driver waits for interrupts that never come: the job never completes, though its tasks run.
    void make_endless() { set_task(static_cast<std::uint32_t>(matmuls.size()) - 1, 0xc00, body_words()); }
    rknpu::Task task(std::uint32_t i) const {
        rknpu::Task task;
        std::memcpy(&task, descriptors.memory + sizeof task * i, sizeof task);
        return task;
    }
    // Every entry of the five names the whole chain.
    rknpu::Submit arguments(std::uint32_t core_mask = 1, std::uint32_t more_flags = 0) const {
        rknpu::Submit submit{};
        submit.flags = rknpu::job_pc | rknpu::job_pingpong | more_flags;
        submit.timeout = 6000;
        submit.task_number = static_cast<std::uint32_t>(matmuls.size());
        submit.task_obj_addr = descriptors.token;
        submit.iommu_domain_id = static_cast<std::uint32_t>(domain);
        submit.core_mask = core_mask;
        submit.fence_fd = -1;
        std::fill(std::begin(submit.subcore_task), std::end(submit.subcore_task),
                  rknpu::SubcoreTask{0, submit.task_number});
        return submit;
    }
    int submit(std::uint32_t core_mask = 1, std::uint32_t more_flags = 0) {
        auto submission = arguments(core_mask, more_flags);
        return client.call(rknpu::ioctl_submit, submission);
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
    std::int32_t domain;
    std::uint64_t stride = 0;
    Client::Buffer lists;
    Client::Buffer descriptors;
    std::vector<std::array<Client::Buffer, 3>> buffers;
    std::vector<Matmul> matmuls;
    std::vector<Operands> operands;
};

// A kernel with one client.
class KernelFixture : public testing::Test {
  protected:
    bool found(Severity severity, std::vector<std::string> texts) {
        return has_finding(kernel.findings(), severity, std::move(texts));
    }

    RknpuKernel kernel{quiet()};
    Client client{kernel};
};

constexpr std::uint32_t nonblock = rknpu::job_nonblock;

inline bool signalled(int fence) {
    pollfd entry{.fd = fence, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0;
}

inline void wait_for(int fence) {
    pollfd entry{.fd = fence, .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&entry, 1, -1), 1);
}

// A submission with FENCE_OUT; the fence belongs to the caller.
inline int submit_with_fence(const Job& job, std::uint32_t core_mask, int& fence, std::uint32_t more_flags = nonblock) {
    auto arguments = job.arguments(core_mask, rknpu::job_fence_out | more_flags);
    const int error = job.client.call(rknpu::ioctl_submit, arguments);
    fence = arguments.fence_fd;
    return error;
}

inline int submit_behind_fence(const Job& job, std::uint32_t core_mask, int& fence, std::uint32_t more_flags = 0) {
    auto arguments = job.arguments(core_mask, rknpu::job_fence_in | more_flags);
    arguments.fence_fd = fence;
    const int error = job.client.call(rknpu::ioctl_submit, arguments);
    fence = arguments.fence_fd;
    return error;
}

// A kernel whose jobs stay in flight until the gate opens.
class GatedFixture : public testing::Test {
  protected:
    static SimOptions gated(Gate& gate) {
        SimOptions options = quiet();
        options.on_task = gate.hook();
        options.host_threads = 3;
        return options;
    }
    bool found(Severity severity, std::vector<std::string> texts) {
        return has_finding(kernel.findings(), severity, std::move(texts));
    }

    Gate gate;
    RknpuKernel kernel{gated(gate)};
    Client client{kernel};
};

}  // namespace npu::sim::test::vendor
