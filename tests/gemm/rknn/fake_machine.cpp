#include "fake_machine.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>

#include "compile/program.h"
#include "device/rknpu_device.h"
#include "rockchip/registers.h"
#include "sim/kernel_rknpu.h"

namespace fake {

namespace {

using npu::ErrorCode;
using npu::Result;
using npu::rockchip::Precision;

struct Machine {
    std::unique_ptr<npu::sim::SimulatedKernel> kernel;
    std::unique_ptr<npu::device::Device> device;
};

Result<Machine> open() {
    npu::sim::SimOptions options;
    options.strict_sync = true;
    Machine machine;
    machine.kernel = npu::sim::make_simulated_kernel(options);
    NPU_ASSIGN(machine.device, npu::device::open_rknpu(*machine.kernel, *npu::device::find_rknpu_node(*machine.kernel),
                                                       {.simulated = true, .chip = &npu::rockchip::rk3588()}));
    return machine;
}

Result<void> multiply(npu::device::Device& device, const npu::compile::MatmulShape& shape,
                      const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b,
                      std::vector<std::uint8_t>& c) {
    npu::compile::PlanOptions options;
    options.cores = 1;
    options.max_k = shape.k;
    NPU_ASSIGN(const npu::compile::Plan plan, npu::compile::plan_matmul(shape, npu::rockchip::rk3588(), options));
    if (plan.k_tiles.size() != 1 || plan.feature_bytes() > a.size() || plan.weight_bytes() != b.size() ||
        plan.output_bytes() > c.size()) {
        return npu::make_error(ErrorCode::unsupported, "M %u, N %u, K %u is more than one K tile, or not whole blocks",
                               shape.m, shape.n, shape.k);
    }
    NPU_ASSIGN(const auto features, device.allocate(a.size()));
    NPU_ASSIGN(const auto weights, device.allocate(b.size()));
    NPU_ASSIGN(const auto output, device.allocate(c.size()));
    NPU_ASSIGN(npu::compile::Program program, npu::compile::build_program(plan, {}, npu::rockchip::rk3588()));
    const std::size_t program_bytes = program.words.size() * sizeof(program.words[0]);
    NPU_ASSIGN(const auto words, device.allocate(program_bytes));
    NPU_TRY(npu::compile::relocate(program, {features->iova(), weights->iova(), output->iova(), words->iova()}));
    std::memcpy(features->data(), a.data(), a.size());
    std::memcpy(weights->data(), b.data(), b.size());
    std::memcpy(words->data(), program.words.data(), program_bytes);
    NPU_TRY(features->to_device(0, a.size()));
    NPU_TRY(weights->to_device(0, b.size()));
    NPU_TRY(words->to_device(0, program_bytes));
    std::vector<npu::device::TaskChain::Entry> entries;
    for (const npu::compile::TaskEntry& task : program.tasks) {
        entries.push_back({words->iova() + task.word_offset * sizeof(program.words[0]), task.body_words, task.enable,
                           npu::rockchip::interrupt_dpu});
    }
    const npu::device::TaskChain chain{entries};
    NPU_TRY(device.run({&chain, 1}, std::chrono::seconds(60)));
    NPU_TRY(output->from_device(0, c.size()));
    std::memcpy(c.data(), output->data(), c.size());
    return {};
}

}  // namespace

std::string multiply_on_machine(bool halves, std::uint32_t m, std::uint32_t n, std::uint32_t k,
                                const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b,
                                std::vector<std::uint8_t>& c) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    static Result<Machine> machine = open();
    if (!machine) {
        return machine.error().message;
    }
    const npu::compile::MatmulShape shape{m, n, k, halves ? Precision::fp16 : Precision::int8,
                                          halves ? Precision::fp32 : Precision::int32};
    const Result<void> done = multiply(*machine->device, shape, a, b, c);
    return done ? "" : done.error().message;
}

}  // namespace fake
