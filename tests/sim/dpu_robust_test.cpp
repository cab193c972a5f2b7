// Programs damaged at random are harmless: whatever the registers say, reading them gives a task that can be run when its
// streams are mapped, writes stay inside the output stream, and nothing but the declared streams is read.
#include <gtest/gtest.h>

#include "sim/dpu_hazard.h"

namespace npu::sim::test {
namespace {

void damage(Program& program, std::mt19937& random, const Program& base) {
    const std::uint32_t changes = 1 + random() % 3;
    for (std::uint32_t i = 0; i < changes; ++i) {
        const std::uint16_t offset = random() % 3 == 0 ? 0x500c + 4 * (random() % 25) : 0x400c + 4 * (random() % 42);
        if (offset == 0x4020 || offset == 0x5018 || offset == 0x5020 || offset == 0x5038) {
            continue;  // else nearly nothing is mapped
        }
        const Program& known = base;
        std::uint32_t value = random();
        switch (random() % 4) {
            case 0: value = 1U << (random() % 32); break;
            case 1: value = random() % 64; break;
            case 2: value &= 0xff0ff0f7; break;
            default: break;
        }
        program.set(offset, random() % 2 == 0 ? value : value ^ (offset < 0x5000 ? known.get(0x4010) : 0));
    }
}

TEST(DpuRobust, DamagedProgramsLeaveTasksThatAreSafeToRun) {
    std::mt19937 random(1);
    std::size_t ran = 0;
    std::size_t refused = 0;
    for (int round = 0; round < 1500; ++round) {
        DpuBench bench;
        bench.mode = Mode::lenient;
        bench.expects_mapped = false;
        const bool fed = random() % 2 == 0;
        const bool fused = fed && random() % 2 == 0;
        Program base = fused               ? fused_program()
                       : fed               ? idle_rdma_program(bytes())
                       : random() % 2 == 0 ? flying_add(half_cube)
                                           : flying_table();
        Program program = base;
        damage(program, random, base);
        // Small objects: a stream that leaves them is not mapped. The pages beside them trap in a sanitizer build only if
        // the machine reads outside of what it declared, because the bench then has not mapped them either.
        for (const std::uint32_t address : {0x10000000U, 0x20000000U, 0x30000000U, operand}) {
            bench.memory.map(address, 0x8000);
            bench.memory.fill(address, std::byte{0x3c}, 0x8000);
        }
        bench.memory.fill(0x30008000, std::byte{0x5a}, 0x100000);
        const Matmul matmul = fused ? halves() : bytes();
        FedSums sums;
        if (fused) {
            sums.floats.assign(std::size_t{matmul.m} * matmul.n, 1e30F);
        } else {
            sums.integers.assign(std::size_t{matmul.m} * matmul.n, -2147483647);
        }
        const bool windows = fed && !fused && (program.get(0x4050) & 2) == 0;
        Outcome outcome;
        if (!fed) {
            outcome = bench.run_flying(program);
        } else if (!windows) {
            outcome = bench.run_fed(program, feed_of(matmul), sums, 0x1d);
        }
        (outcome.ran ? ran : refused) += 1;
        for (std::uint32_t i = 0; outcome.ran && i < 0x1000; ++i) {
            ASSERT_EQ(*bench.memory.at(0x30008000 + i), std::byte{0x5a}) << "written behind the object";
        }
    }
    EXPECT_GT(ran, 150U);
    EXPECT_GT(refused, 150U);
}

}  // namespace
}  // namespace npu::sim::test
