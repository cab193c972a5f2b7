// The client of the vendor driver against a scripted kernel: what it tells the driver, and what the driver's failures
// become. drivers_test.cpp has it work on the simulated kernel.
#include "device/rknpu_device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>

#include "device/board.h"
#include "device/host_memory.h"
#include "uapi/drm.h"
#include "uapi/rknpu.h"

namespace npu::device {
namespace {

namespace rk = uapi::rknpu;

// A kernel whose every answer a test may replace; without a replacement it behaves like a small working driver.
class ScriptedKernel : public uapi::Syscalls {
  public:
    std::string node = "/dev/dri/card0";
    std::string driver = "rknpu";
    std::uint32_t version = 908;
    int open_error = 0;
    std::map<std::uint32_t, std::function<int(void*)>> answers;  // by request; returns 0 or an error number
    std::vector<rk::Submit> submissions;
    std::vector<rk::Task> descriptors;
    std::vector<rk::MemSync> syncs;
    int open_descriptors = 0;
    int live_objects = 0;

    int open(const char* path, int) override {
        if (path != node || open_error != 0) {
            errno = path != node ? ENOENT : open_error;
            return -1;
        }
        ++open_descriptors;
        return 7;
    }
    int close(int) override {
        --open_descriptors;
        return 0;
    }
    void* mmap(void*, std::size_t length, int, int, int, off_t) override {
        memory_.resize(length);
        return memory_.data();
    }
    int munmap(void*, std::size_t) override { return 0; }
    int ioctl(int, unsigned long request, void* argument) override {
        const auto number = static_cast<std::uint32_t>(request);
        if (const auto answer = answers.find(number); answer != answers.end()) {
            const int error = answer->second(argument);
            errno = error;
            return error == 0 ? 0 : -1;
        }
        switch (number) {
            case uapi::drm::ioctl_version: {
                auto* v = static_cast<uapi::drm::Version*>(argument);
                std::memcpy(v->name, driver.data(), std::min<std::size_t>(v->name_length, driver.size()));
                return 0;
            }
            case rk::ioctl_action: static_cast<rk::Action*>(argument)->value = version; return 0;
            case rk::ioctl_mem_create: {
                auto* create = static_cast<rk::MemCreate*>(argument);
                create->handle = 1;
                create->obj_addr = 0xffff000000001000;
                create->dma_addr = 0x10000000;
                ++live_objects;
                return 0;
            }
            case rk::ioctl_mem_destroy: --live_objects; return 0;
            case rk::ioctl_mem_sync: syncs.push_back(*static_cast<rk::MemSync*>(argument)); return 0;
            case rk::ioctl_submit: {
                submissions.push_back(*static_cast<rk::Submit*>(argument));
                const auto* first = reinterpret_cast<const rk::Task*>(memory_.data());
                descriptors.assign(first, first + submissions.back().task_number);
                return 0;
            }
            default: return 0;
        }
    }

  private:
    std::vector<std::byte> memory_;  // one live mapping at a time is enough here
};

TEST(Discovery, FindsTheNodeWhoseDriverIsRknpuAndClosesTheOthers) {
    ScriptedKernel kernel;
    kernel.node = "/dev/dri/card1";
    EXPECT_EQ(find_rknpu_node(kernel), "/dev/dri/card1");
    EXPECT_EQ(kernel.open_descriptors, 0);
    kernel.node = "/dev/dri/renderD129";
    EXPECT_EQ(find_rknpu_node(kernel), "/dev/dri/renderD129");
    kernel.driver = "panthor";
    EXPECT_EQ(find_rknpu_node(kernel), std::nullopt);
    EXPECT_EQ(kernel.open_descriptors, 0);
}

TEST(Opening, SaysWhyANodeCannotBeUsed) {
    ScriptedKernel kernel;
    const auto absent = open_rknpu(kernel, "/dev/dri/card9", {});
    ASSERT_FALSE(absent);
    EXPECT_NE(absent.error().message.find("/dev/dri/card9"), std::string::npos);
    kernel.open_error = EACCES;
    const auto forbidden = open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()});
    ASSERT_FALSE(forbidden);
    EXPECT_NE(forbidden.error().message.find("groups video and render"), std::string::npos);
    kernel.open_error = 0;
    kernel.driver = "panthor";
    const auto other = open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()});
    ASSERT_FALSE(other);
    EXPECT_NE(other.error().message.find("'panthor'"), std::string::npos);
    kernel.driver = "rknpu";
    kernel.version = 802;
    const auto old = open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()});
    ASSERT_FALSE(old);
    EXPECT_NE(old.error().message.find("0.8.2"), std::string::npos);
    EXPECT_EQ(kernel.open_descriptors, 0) << "nothing stays open after a refusal";
}

TEST(Opening, DescribesSiliconAndSimulation) {
    ScriptedKernel kernel;
    EXPECT_EQ((*open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()}))->info().description,
              "Rockchip RK3588 (rknpu)");
    const auto simulated = open_rknpu(kernel, kernel.node, {.simulated = true, .chip = &rockchip::rk3588()});
    EXPECT_EQ((*simulated)->info().description, "Rockchip RK3588 (simulated, rknpu)");
    EXPECT_EQ((*simulated)->info().driver_version, "0.9.8");
}

TEST(Memory, ARefusedAllocationSaysHowMuchWasAskedAndWhatToDo) {
    ScriptedKernel kernel;
    kernel.answers[rk::ioctl_mem_create] = [](void*) { return ENOMEM; };
    const auto device = open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()});
    const auto buffer = (*device)->allocate(5000);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code, ErrorCode::out_of_memory);
    EXPECT_NE(buffer.error().message.find("8192 bytes"), std::string::npos) << buffer.error().message;
    EXPECT_NE(buffer.error().message.find("-ngl"), std::string::npos);
}

TEST(Memory, AnAddressBeyondTheWindowIsRefusedAndGivenBack) {
    ScriptedKernel kernel;
    kernel.answers[rk::ioctl_mem_create] = [&](void* argument) {
        auto* create = static_cast<rk::MemCreate*>(argument);
        create->handle = 1;
        create->dma_addr = 0xfffff000;  // two pages from here end beyond 4 GiB
        ++kernel.live_objects;
        return 0;
    };
    const auto device = open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()});
    const auto buffer = (*device)->allocate(8192);
    ASSERT_FALSE(buffer);
    EXPECT_NE(buffer.error().message.find("4 GiB"), std::string::npos);
    EXPECT_EQ(kernel.live_objects, 0);
}

TEST(Jobs, EachNumberOfCoresFillsTheEntriesThatTheDriverReads) {
    for (const std::size_t cores : {1U, 2U, 3U}) {
        ScriptedKernel kernel;
        const auto device = open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()});
        std::vector<TaskChain::Entry> entries;
        for (std::uint32_t i = 0; i < 6; ++i) {
            entries.push_back({0x1000U * i, 108, 0x0d, 0x300});
        }
        std::vector<TaskChain> chains;
        std::size_t first = 0;
        for (std::size_t core = 0; core < cores; ++core) {
            chains.push_back({std::span(entries).subspan(first, core + 1)});  // 1, 2, 3 tasks
            first += core + 1;
        }
        ASSERT_TRUE((*device)->run(chains, std::chrono::milliseconds(1234)));
        const rk::Submit& submit = kernel.submissions.at(0);
        EXPECT_EQ(submit.core_mask, (1U << cores) - 1);
        EXPECT_EQ(submit.timeout, 1234U);
        EXPECT_EQ(submit.task_number, first);
        EXPECT_EQ(submit.flags & rk::job_nonblock, 0U);
        const std::size_t base = cores == 3 ? 2 : 0;
        std::uint32_t start = 0;
        for (std::size_t core = 0; core < cores; ++core) {
            EXPECT_EQ(submit.subcore_task[base + core].task_start, start);
            EXPECT_EQ(submit.subcore_task[base + core].task_number, core + 1);
            start += static_cast<std::uint32_t>(core) + 1;
        }
        for (std::size_t i = 0; i < first; ++i) {
            EXPECT_EQ(kernel.descriptors[i].regcmd_addr, 0x1000U * i);
            EXPECT_EQ(kernel.descriptors[i].regcfg_amount, 108U);
            EXPECT_EQ(kernel.descriptors[i].int_mask, 0x300U);
        }
        ASSERT_FALSE(kernel.syncs.empty());
        EXPECT_EQ(kernel.syncs.back().flags, rk::sync_to_device) << "descriptors are handed over before the job";
        EXPECT_GE(kernel.syncs.back().size, first * sizeof(rk::Task));
    }
}

TEST(Jobs, ATimeoutIsAnErrorOfItsOwnAndSaysHowFarItCame) {
    ScriptedKernel kernel;
    kernel.answers[rk::ioctl_submit] = [](void* argument) {
        static_cast<rk::Submit*>(argument)->task_counter = 2;
        return ETIMEDOUT;
    };
    const auto device = open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()});
    const TaskChain::Entry entry{0x1000, 108, 0x0d, 0x300};
    const TaskChain chain{std::span(&entry, 1)};
    const auto report = (*device)->run({&chain, 1}, std::chrono::milliseconds(50));
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::timeout);
    EXPECT_NE(report.error().message.find("within 50 ms (2 tasks were done)"), std::string::npos);
    kernel.answers[rk::ioctl_submit] = [](void*) { return EINVAL; };
    EXPECT_EQ((*device)->run({&chain, 1}, std::chrono::milliseconds(50)).error().code, ErrorCode::device_failure);
}

TEST(Jobs, AnInterruptedCallIsRetried) {
    ScriptedKernel kernel;
    int interruptions = 3;
    kernel.answers[rk::ioctl_submit] = [&](void*) { return interruptions-- > 0 ? EINTR : 0; };
    const auto device = open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()});
    const TaskChain::Entry entry{0x1000, 108, 0x0d, 0x300};
    const TaskChain chain{std::span(&entry, 1)};
    EXPECT_TRUE((*device)->run({&chain, 1}, std::chrono::milliseconds(50)));
    EXPECT_EQ(interruptions, -1);
}

TEST(Jobs, EmptyAndOversizedJobsAreRefusedBeforeTheDriverSeesThem) {
    ScriptedKernel kernel;
    const auto device = open_rknpu(kernel, kernel.node, {.chip = &rockchip::rk3588()});
    EXPECT_FALSE((*device)->run({}, std::chrono::milliseconds(50)));
    const std::vector<TaskChain::Entry> entries(4096, {0x1000, 108, 0x0d, 0x300});
    const TaskChain chain{entries};
    const auto report = (*device)->run({&chain, 1}, std::chrono::milliseconds(50));
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().message.find("4095"), std::string::npos);
    EXPECT_TRUE(kernel.submissions.empty());
}

TEST(Board, OnlyChipsThatTheProfilesKnowAreAccepted) {
    const std::string path = testing::TempDir() + "/compatible";
    const auto write = [&](const std::string& text) { std::ofstream(path, std::ios::binary) << text; };
    write(std::string("radxa,rock-5b\0rockchip,rk3588\0", 31));
    EXPECT_EQ((*board_chip(path))->name, "RK3588");
    write(std::string("friendlyarm,nanopi-r6s\0rockchip,rk3588s\0", 40));
    EXPECT_TRUE(board_chip(path));
    write(std::string("radxa,zero3\0rockchip,rk3566\0", 28));
    const auto other = board_chip(path);
    ASSERT_FALSE(other);
    EXPECT_NE(other.error().message.find("rockchip,rk3566"), std::string::npos);
    EXPECT_NE(other.error().message.find("GGML_NPU_DEVICE=simulated"), std::string::npos);
    std::remove(path.c_str());
    EXPECT_FALSE(board_chip(path));
}

TEST(HostMemory, IsReadFromTheSystem) {
    const MemoryInfo memory = host_memory();
    EXPECT_GT(memory.total, std::size_t{1} << 28);
    EXPECT_GT(memory.free, 0U);
    EXPECT_LE(memory.free, memory.total);
}

}  // namespace
}  // namespace npu::device
