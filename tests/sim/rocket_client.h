// A client of the simulated rocket driver, written against the interface alone, and jobs that it can submit; shared by
// the tests of that kernel.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>

#include "sim/kernel_rocket.h"
#include "sim/test_support.h"
#include "uapi/drm.h"
#include "uapi/rocket.h"

namespace npu::sim::test {

namespace rocket = uapi::rocket;

constexpr std::int64_t forever = std::numeric_limits<std::int64_t>::max();

inline std::int64_t monotonic_now() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename T>
std::uint64_t address_of(const T* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

inline SimOptions rocket_options(RocketInterface version = {0, 0}) {
    SimOptions options;
    options.driver = Driver::rocket;
    options.rocket = version;
    options.log_findings = false;
    options.host_threads = 3;
    return options;
}

// One open file. Calls return 0 or the errno.
class RocketClient {
  public:
    explicit RocketClient(SimulatedKernel& kernel) : kernel(kernel), fd(kernel.open("/dev/accel/accel0", O_RDWR)) {}
    ~RocketClient() {
        unmap();
        close();
    }
    RocketClient(const RocketClient&) = delete;
    RocketClient& operator=(const RocketClient&) = delete;

    struct Buffer {
        std::uint32_t handle = 0;
        std::uint64_t iova = 0;
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        std::byte* memory = nullptr;
    };

    template <typename T>
    int call(std::uint32_t request, T& arguments) {
        return kernel.ioctl(fd, request, &arguments) == 0 ? 0 : errno;
    }
    int create_unmapped(std::uint32_t bytes, Buffer& buffer) {
        rocket::CreateBo create{.size = bytes, .handle = 0, .dma_address = 0, .offset = 0};
        const int error = call(rocket::ioctl_create_bo, create);
        buffer = {create.handle, create.dma_address, create.offset, (bytes + 4095ULL) / 4096 * 4096, nullptr};
        return error;
    }
    Buffer create(std::uint64_t bytes) {
        Buffer buffer;
        EXPECT_EQ(create_unmapped(static_cast<std::uint32_t>(bytes), buffer), 0);
        void* memory = kernel.mmap(nullptr, buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                   static_cast<off_t>(buffer.offset));
        EXPECT_NE(memory, MAP_FAILED);
        buffer.memory = static_cast<std::byte*>(memory);
        mapped_.push_back(buffer);
        return buffer;
    }
    int prep(std::uint32_t handle, std::int64_t deadline = forever) {
        rocket::PrepBo prep{.handle = handle, .reserved = 0, .timeout_ns = deadline};
        return call(rocket::ioctl_prep_bo, prep);
    }
    int fini(std::uint32_t handle) {
        rocket::FiniBo fini{.handle = handle, .reserved = 0};
        return call(rocket::ioctl_fini_bo, fini);
    }
    int gem_close(std::uint32_t handle) {
        uapi::drm::GemClose close{.handle = handle, .padding = 0};
        return call(uapi::drm::ioctl_gem_close, close);
    }
    template <typename J>
    int submit(const std::vector<J>& jobs) {
        rocket::Submit submit{.jobs = address_of(jobs.data()),
                              .job_count = static_cast<std::uint32_t>(jobs.size()),
                              .job_struct_size = sizeof(J),
                              .reserved = 0};
        return call(rocket::ioctl_submit, submit);
    }
    void unmap() {
        for (const Buffer& buffer : mapped_) {
            EXPECT_EQ(kernel.munmap(buffer.memory, buffer.bytes), 0);
        }
        mapped_.clear();
    }
    void close() {
        if (fd >= 0) {
            EXPECT_EQ(kernel.close(fd), 0);
        }
        fd = -1;
    }

    SimulatedKernel& kernel;
    int fd;

  private:
    std::vector<Buffer> mapped_;
};

// The register list of the mainline driver's programs: DPU_RDMA configured, its inputs switched off.
inline Program rocket_program(const Matmul& matmul) {
    Program program = matmul_program(matmul);
    program.set(0x5004, 0xe);
    program.set(0x500c, 0);
    program.set(0x5010, matmul.m - 1);
    program.set(0x5014, matmul.n - 1);
    for (const std::uint16_t offset :
         {0x5018, 0x501c, 0x5020, 0x5028, 0x502c, 0x5038, 0x5040, 0x5048, 0x504c, 0x5064, 0x506c}) {
        program.set(offset, 0);
    }
    program.set(0x5034, 1);
    program.set(0x5044, 0x7810);
    program.set(0x5068, 0x01010101);
    return program;
}

// A job: `count` independent int8 products, each a task with operands and output of its own, all in one buffer per kind.
// Each list is linked to the next, so that the job may run chained.
struct RocketWork {
    RocketWork(RocketClient& client, std::uint32_t count, std::uint32_t seed = 1) : client(client) {
        std::mt19937 random(seed);
        words = static_cast<std::uint32_t>(rocket_program(shape()).words(0x1d).size());
        lists = client.create(std::uint64_t{stride} * count);
        a = client.create(std::uint64_t{stride} * count);
        b = client.create(std::uint64_t{b_stride} * count);
        c = client.create(std::uint64_t{stride} * count);
        std::memset(c.memory, 0xee, c.bytes);
        for (std::uint32_t i = 0; i < count; ++i) {
            Matmul matmul = shape();
            matmul.a = static_cast<std::uint32_t>(a.iova + std::uint64_t{stride} * i);
            matmul.b = static_cast<std::uint32_t>(b.iova + std::uint64_t{b_stride} * i);
            matmul.c = static_cast<std::uint32_t>(c.iova + std::uint64_t{stride} * i);
            matmuls.push_back(matmul);
            operands.push_back(random_operands(matmul, random, Range::full));
            for (std::uint32_t k = 0; k < matmul.k; ++k) {
                for (std::uint32_t m = 0; m < matmul.m; ++m) {
                    write_element(a.memory + std::size_t{stride} * i, matmul.a_bit(m, k), 8,
                                  operands[i].a[m * matmul.k + k]);
                }
                for (std::uint32_t n = 0; n < matmul.n; ++n) {
                    write_element(b.memory + std::size_t{b_stride} * i, matmul.b_bit(n, k), 8,
                                  operands[i].b[n * matmul.k + k]);
                }
            }
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            write_list(i, rocket_program(matmuls[i]), 0x1d);
            tasks.push_back({static_cast<std::uint32_t>(lists.iova + std::uint64_t{stride} * i), words});
        }
        in = {lists.handle, a.handle, b.handle};
        out = {c.handle};
    }

    // K spans two groups of 32 channels.
    static Matmul shape() { return {.input = Precision::int8, .output = Precision::int32, .m = 6, .k = 64, .n = 32}; }
    static constexpr std::uint32_t stride = 4096;
    static constexpr std::uint32_t b_stride = 4096;

    void write_list(std::uint32_t i, const Program& program, std::uint32_t enable) {
        const bool last = i + 1 == matmuls.size();
        const auto list = program.words(enable, last ? 0 : static_cast<std::uint32_t>(lists.iova + stride * (i + 1)),
                                        static_cast<std::uint32_t>(words));
        std::memcpy(lists.memory + std::size_t{stride} * i, list.data(), list.size() * 8);
    }
    [[nodiscard]] rocket::Job job() const {
        return {.tasks = address_of(tasks.data()),
                .in_bo_handles = address_of(in.data()),
                .out_bo_handles = address_of(out.data()),
                .task_count = static_cast<std::uint32_t>(tasks.size()),
                .task_struct_size = sizeof(rocket::Task),
                .in_bo_handle_count = static_cast<std::uint32_t>(in.size()),
                .out_bo_handle_count = static_cast<std::uint32_t>(out.size())};
    }
    [[nodiscard]] rocket::JobWithFlags job_with(std::uint32_t flags) const {
        return {.job = job(), .flags = flags, .reserved = 0};
    }
    int submit() { return client.submit(std::vector{job()}); }
    int wait() { return client.prep(c.handle); }
    // What a client does around a job; the first error.
    int run() {
        for (const auto* buffer : {&lists, &a, &b, &c}) {
            if (const int error = client.fini(buffer->handle); error != 0) {
                return error;
            }
        }
        const int error = submit();
        return error != 0 ? error : wait();
    }
    [[nodiscard]] bool right(std::uint32_t i) const {
        std::vector<std::uint32_t> got;
        for (std::uint32_t m = 0; m < shape().m; ++m) {
            for (std::uint32_t n = 0; n < shape().n; ++n) {
                got.push_back(read_element(c.memory + std::size_t{stride} * i, matmuls[i].c_bit(m, n), 32));
            }
        }
        return got == reference_product(matmuls[i], operands[i]);
    }
    [[nodiscard]] bool untouched(std::uint32_t i) const {
        const std::byte* begin = c.memory + std::size_t{stride} * i;
        return std::all_of(begin, begin + stride, [](std::byte value) { return value == std::byte{0xee}; });
    }

    RocketClient& client;
    std::uint32_t words = 0;
    RocketClient::Buffer lists, a, b, c;
    std::vector<Matmul> matmuls;
    std::vector<Operands> operands;
    std::vector<rocket::Task> tasks;
    std::vector<std::uint32_t> in, out;
};

// Holds every job at its end while it is shut, so that a test decides how long a buffer stays busy. A job is held when its
// last task has run and before anybody hears of it.
class Gate {
  public:
    // To be used as SimOptions::on_task.
    std::function<void(const TaskWork&)> hook() {
        return [this](const TaskWork&) {
            std::unique_lock lock(mutex_);
            ++held_;
            changed_.notify_all();
            changed_.wait(lock, [this] { return open_; });
            --held_;
        };
    }
    void shut() {
        const std::lock_guard lock(mutex_);
        open_ = false;
    }
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void wait_until_held(unsigned jobs) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return held_ == jobs; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = true;
    unsigned held_ = 0;
};

// A kernel of interface 0.0 whose jobs a gate can hold, and one client.
class RocketFixture : public testing::Test {
  protected:
    static SimOptions with(SimOptions options, Gate& gate) {
        options.on_task = gate.hook();
        return options;
    }
    Gate gate;
    RocketKernel kernel{with(rocket_options(), gate)};
    RocketClient client{kernel};
};

}  // namespace npu::sim::test
