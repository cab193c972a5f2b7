// What the tests of the driver clients share: each driver on its simulated kernel, a layer of system calls that watches and
// answers in the kernel's place, and a product of two matrices that runs as one chain on one core.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "compile/plan.h"
#include "compile/program.h"
#include "device/rknpu_device.h"
#include "device/rocket_device.h"
#include "rockchip/command.h"
#include "sim/sim.h"

namespace npu::device::test {

constexpr std::chrono::seconds plenty{60};

// Passes system calls on. `before` may answer an ioctl itself, with an error number or 0; `after` sees what the kernel did.
class Watch final : public uapi::Syscalls {
  public:
    explicit Watch(uapi::Syscalls& below) : below_(below) {}

    std::function<std::optional<int>(std::uint32_t request, void* argument)> before;
    std::function<void(std::uint32_t request, void* argument)> after;
    std::vector<std::uint32_t> requests;  // all ioctls, in order
    int open_files = 0;
    int open_error = 0;

    int open(const char* path, int flags) override {
        if (open_error != 0) {
            errno = open_error;
            return -1;
        }
        const int fd = below_.open(path, flags);
        open_files += fd >= 0 ? 1 : 0;
        return fd;
    }
    int close(int fd) override {
        --open_files;
        return below_.close(fd);
    }
    int ioctl(int fd, unsigned long request, void* argument) override {
        const auto number = static_cast<std::uint32_t>(request);
        {
            const std::lock_guard lock(mutex_);
            requests.push_back(number);
            if (const auto answer = before ? before(number, argument) : std::nullopt) {
                errno = *answer;
                return *answer == 0 ? 0 : -1;
            }
        }
        const int result = below_.ioctl(fd, request, argument);
        const int error = errno;
        const std::lock_guard lock(mutex_);
        if (after && result == 0) {
            after(number, argument);
        }
        errno = error;
        return result;
    }
    void* mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) override {
        return below_.mmap(address, length, protection, flags, fd, offset);
    }
    int munmap(void* address, std::size_t length) override { return below_.munmap(address, length); }

    [[nodiscard]] std::size_t count(std::uint32_t request) const {
        return static_cast<std::size_t>(std::ranges::count(requests, request));
    }

  private:
    uapi::Syscalls& below_;
    std::mutex mutex_;
};

// A product of int8 matrices on one core, in buffers of its own: several tasks, K cut in three.
class Product {
  public:
    Product(Device& device, std::uint32_t core, std::uint32_t seed) : core_(core) {
        compile::PlanOptions options;
        options.cores = 1;
        options.emit_rdma = device.info().needs_rdma;
        options.max_k = 96;
        const auto plan = compile::plan_matmul({m, n, k}, *device.info().chip, options);
        EXPECT_TRUE(plan) << plan.error().message;
        plan_ = *plan;
        const auto make = [&](std::size_t bytes) {
            auto buffer = device.allocate(bytes, device.info().space_per_core ? core : 0);
            EXPECT_TRUE(buffer) << buffer.error().message;
            return std::move(*buffer);
        };
        features_ = make(plan_.feature_bytes());
        weights_ = make(plan_.weight_bytes());
        output_ = make(plan_.output_bytes());
        program_ = make(std::size_t{64} * 1024);
        fill(seed);
        build();
    }

    [[nodiscard]] TaskChain chain() const { return {.tasks = entries, .canaries = canaries}; }

    // Puts the pattern of `dirt` where results will be.
    void soil() {
        std::memset(output_->data(), dirt, output_->bytes());
        EXPECT_TRUE(output_->to_device(0, output_->bytes()));
    }
    // Takes the results back and compares all of them with sums of their own.
    [[nodiscard]] bool right() {
        EXPECT_TRUE(output_->from_device(0, output_->bytes()));
        return sums() == reference_;
    }
    // True when no byte of the results was written since soil(); canaries are no results.
    [[nodiscard]] bool untouched() {
        EXPECT_TRUE(output_->from_device(0, output_->bytes()));
        const auto end = output_->data() + (canaries.empty() ? plan_.output_bytes() : canaries[0].offset);
        return std::all_of(output_->data(), end, [](std::byte value) { return value == std::byte{dirt}; });
    }
    [[nodiscard]] std::uint32_t core() const { return core_; }
    [[nodiscard]] Buffer& output() { return *output_; }
    [[nodiscard]] Buffer& program() { return *program_; }
    [[nodiscard]] const std::vector<std::int64_t>& reference() const { return reference_; }

    static constexpr std::uint32_t m = 13;
    static constexpr std::uint32_t n = 70;
    static constexpr std::uint32_t k = 200;
    static constexpr unsigned char dirt = 0xee;

    std::vector<TaskChain::Entry> entries;
    std::vector<Canary> canaries;

  private:
    void fill(std::uint32_t seed) {
        std::mt19937 random(seed);
        const auto matrix = [&](std::uint32_t rows) {
            std::vector<std::int8_t> values(std::size_t{rows} * k);
            for (std::int8_t& value : values) {
                const auto bits = static_cast<std::uint32_t>(random());
                value = bits % 8 == 0   ? std::int8_t{-128}
                        : bits % 8 == 1 ? std::int8_t{127}
                                        : static_cast<std::int8_t>(bits >> 8);
            }
            return values;
        };
        const std::vector<std::int8_t> a = matrix(m);
        const std::vector<std::int8_t> b = matrix(n);
        for (std::uint32_t row = 0; row < m; ++row) {
            for (std::uint32_t column = 0; column < n; ++column) {
                std::int64_t sum = 0;
                for (std::uint32_t i = 0; i < k; ++i) {
                    sum += std::int64_t{a[row * k + i]} * b[column * k + i];
                }
                reference_.push_back(sum);
            }
        }
        for (std::uint32_t i = 0; i < k; ++i) {
            std::size_t tile = 0;
            while (i >= plan_.k_tiles[tile].k0 + plan_.k_tiles[tile].k) {
                ++tile;
            }
            for (std::uint32_t row = 0; row < m; ++row) {
                features_->data()[plan_.feature_layout().offset(row, i)] = static_cast<std::byte>(a[row * k + i]);
            }
            for (std::uint32_t column = 0; column < n; ++column) {
                weights_->data()[plan_.weight_offset(tile) +
                                 plan_.weight_layout(tile).offset(column, i - plan_.k_tiles[tile].k0)] =
                    static_cast<std::byte>(b[column * k + i]);
            }
        }
        EXPECT_TRUE(features_->to_device(0, features_->bytes()));
        EXPECT_TRUE(weights_->to_device(0, weights_->bytes()));
    }

    void build() {
        const auto program = compile::build_program(
            plan_, {features_->iova(), weights_->iova(), output_->iova(), program_->iova()}, rockchip::rk3588());
        ASSERT_TRUE(program) << program.error().message;
        ASSERT_LE(program->words.size() * 8, program_->bytes());
        std::memcpy(program_->data(), program->words.data(), program->words.size() * 8);
        ASSERT_TRUE(program_->to_device(0, program_->bytes()));
        for (const compile::TaskEntry& task : program->tasks) {
            entries.push_back({program_->iova() + std::uint64_t{task.word_offset} * 8, task.body_words, task.enable,
                               rockchip::interrupt_dpu});
        }
        ASSERT_GE(entries.size(), 3U);
        const compile::TaskTile& last = plan_.cores.at(0).back();
        const std::size_t place =
            plan_.output_offset(last.k_tile) + plan_.output_layout().offset(last.m0 + last.m - 1, last.n0 + last.n - 1);
        canaries.push_back({output_.get(), place / 8 * 8});
    }

    [[nodiscard]] std::vector<std::int64_t> sums() const {
        std::vector<std::int64_t> sums;
        for (std::uint32_t row = 0; row < m; ++row) {
            for (std::uint32_t column = 0; column < n; ++column) {
                std::int64_t sum = 0;
                for (std::size_t tile = 0; tile < plan_.k_tiles.size(); ++tile) {
                    std::int32_t part = 0;
                    std::memcpy(&part,
                                output_->data() + plan_.output_offset(tile) + plan_.output_layout().offset(row, column),
                                sizeof part);
                    sum += part;
                }
                sums.push_back(sum);
            }
        }
        return sums;
    }

    std::uint32_t core_;
    compile::Plan plan_;
    std::vector<std::int64_t> reference_;
    std::unique_ptr<Buffer> features_, weights_, output_, program_;
};

inline sim::SimOptions rocket_options(std::uint32_t major, std::uint32_t minor) {
    sim::SimOptions options;
    options.driver = sim::Driver::rocket;
    options.rocket = {major, minor};
    return options;
}

// A device on its simulated kernel, watched. The kernel sees only what was handed over.
class SimulatedDevice : public testing::Test {
  protected:
    static sim::SimOptions with_faults(sim::SimOptions options, const char* faults) {
        const auto parsed = sim::Faults::parse(faults);
        EXPECT_TRUE(parsed) << faults;
        options.faults = *parsed;
        return options;
    }

    void make_kernel(sim::SimOptions options) {
        device_.reset();
        options.strict_sync = true;
        options.poison_before_each_kick = true;
        options.host_threads = 3;
        options.log_findings = false;
        driver_ = options.driver;
        kernel_ = sim::make_simulated_kernel(options);
        watch_ = std::make_unique<Watch>(*kernel_);
    }
    Result<std::unique_ptr<Device>> open_device(std::size_t memory_limit = 0) {
        const std::string node = sim::usual_path(driver_);
        const auto* chip = &rockchip::rk3588();
        return driver_ == sim::Driver::rknpu
                   ? open_rknpu(*watch_, node, {.simulated = true, .memory_limit = memory_limit, .chip = chip})
                   : open_rocket(*watch_, node, {.simulated = true, .memory_limit = memory_limit, .chip = chip});
    }
    void open(sim::SimOptions options) {
        make_kernel(std::move(options));
        auto device = open_device();
        ASSERT_TRUE(device) << device.error().message;
        device_ = std::move(*device);
    }
    Result<JobReport> run(const std::vector<TaskChain>& chains, std::chrono::milliseconds deadline = plenty) {
        return device_->run(chains, deadline);
    }
    // Of a refused, failed or late job.
    Error error_of(const std::vector<TaskChain>& chains, std::chrono::milliseconds deadline = plenty) {
        const auto report = run(chains, deadline);
        EXPECT_FALSE(report);
        return report ? Error{} : report.error();
    }

    sim::Driver driver_ = sim::Driver::rknpu;
    std::unique_ptr<sim::SimulatedKernel> kernel_;
    std::unique_ptr<Watch> watch_;
    std::unique_ptr<Device> device_;
};

// Interface 0.0, and 1.5 with everything that patched kernels add; the parameter is the minor version.
class BothRocketInterfaces : public SimulatedDevice, public testing::WithParamInterface<std::uint32_t> {
  protected:
    static bool patched() { return GetParam() != 0; }
    static sim::SimOptions options() { return rocket_options(patched() ? 1 : 0, GetParam()); }
};
inline const auto rocket_interfaces = testing::Values(0U, 5U);
inline std::string rocket_interface_name(const testing::TestParamInfo<std::uint32_t>& info) {
    return info.param == 0 ? "upstream" : "patched";
}

inline testing::AssertionResult says(const Error& error, ErrorCode code, const std::string& text) {
    if (error.code == code && error.message.find(text) != std::string::npos) {
        return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << error_code_name(error.code) << ": " << error.message;
}

}  // namespace npu::device::test
