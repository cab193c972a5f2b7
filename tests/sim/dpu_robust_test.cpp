// Programs damaged at random are harmless: whatever the registers say, reading them gives a task that can be run when its
// streams are mapped, writes stay inside the output stream, and nothing but the declared streams is read.
#include <gtest/gtest.h>

#include <algorithm>

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
        // Objects of their own on the heap: in a sanitizer build whatever leaves them is caught.
        std::vector<std::vector<std::byte>> objects(4, std::vector<std::byte>(0x8000, std::byte{0x3c}));
        MappedMemory memory;
        for (std::uint32_t i = 0; i < 4; ++i) {
            ASSERT_TRUE(memory.map((i + 1) * 0x10000000, objects[i]));
        }
        bench.seen = &memory;
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
        for (const std::size_t inputs : {0U, 1U, 3U}) {  // only the third object is written
            ASSERT_TRUE(std::ranges::all_of(objects[inputs], [](std::byte x) { return x == std::byte{0x3c}; }));
        }
    }
    EXPECT_GT(ran, 150U);
    EXPECT_GT(refused, 150U);
}

}  // namespace
}  // namespace npu::sim::test
