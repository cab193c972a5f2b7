// The product's own client of the vendor driver (device/rknpu_device.h) over the C library's system calls, as on a board:
// nothing here knows of a simulated kernel. Shows that the preload library stands where a kernel would.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "check.h"
#include "device/rknpu_device.h"
#include "matmul.h"
#include "uapi/syscalls.h"

namespace {

using namespace npu;  // NOLINT(google-build-using-namespace)

int wrong_results(device::Device& device, Type type) {
    Matrices matrices;
    fill(&matrices, type, 77);
    auto features = device.allocate(4096);
    auto weights = device.allocate(8192);
    auto results = device.allocate(4096);
    auto commands = device.allocate(4096);
    if (!features || !weights || !results || !commands) {
        return -1;
    }
    store_features(reinterpret_cast<std::uint8_t*>((*features)->data()), &matrices);
    store_weights(reinterpret_cast<std::uint8_t*>((*weights)->data()), &matrices);
    std::memset((*results)->data(), 0x5a, (*results)->bytes());
    Program program;
    build(&program, type, static_cast<std::uint32_t>((*features)->iova()),
          static_cast<std::uint32_t>((*weights)->iova()), static_cast<std::uint32_t>((*results)->iova()), 0);
    std::memcpy((*commands)->data(), program.words, static_cast<std::size_t>(program.count) * 8);
    for (const auto* buffer : {&features, &weights, &results, &commands}) {
        if (!(**buffer)->to_device(0, (**buffer)->bytes())) {
            return -1;
        }
    }
    const device::TaskChain::Entry task{.iova = (*commands)->iova(),
                                        .body_words = static_cast<std::uint32_t>(program.count) - 4,
                                        .enable = 0xd,
                                        .interrupts = 0x300};
    const device::TaskChain chain{.tasks = {&task, 1}};
    if (!device.run({&chain, 1}, std::chrono::seconds(10)) || !(*results)->from_device(0, (*results)->bytes())) {
        return -1;
    }
    return count_wrong((*results)->data(), &matrices);
}

}  // namespace

int main() {
    test_name = "device";
    uapi::Syscalls& calls = uapi::libc_syscalls();
    const auto node = device::find_rknpu_node(calls);
    CHECK(node.has_value());
    if (!node) {
        return 1;
    }
    auto device = device::open_rknpu(calls, *node, {});  // reads the chip from the device tree
    if (!device) {
        std::fprintf(stderr, "%s\n", device.error().message.c_str());
        return 1;
    }
    CHECK((*device)->info().driver_version == "0.9.8");
    CHECK((*device)->info().chip == &rockchip::rk3588());
    CHECK(!(*device)->info().simulated);
    CHECK_EQUAL(wrong_results(**device, INT8), 0);
    CHECK_EQUAL(wrong_results(**device, FP16), 0);
    return failures == 0 ? 0 : 1;
}
