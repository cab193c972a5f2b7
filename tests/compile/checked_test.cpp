// Our programs under the program checker of floor two, which reads words as the hardware would and knows neither
// plans nor layouts: it must find nothing to refuse, and no byte outside the buffers that the plan announces.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/program.h"
#include "rockchip/checker.h"
#include "support.h"

namespace npu::compile {
namespace {

using rockchip::rk3588;
using rockchip::Violation;

constexpr Addresses bases{.features = 0x1000000, .weights = 0x10000000, .output = 0x60000000, .program = 0x40};

// First refusal over all cores, or empty.
std::string refusal(const Plan& plan, const Program& program) {
    const rockchip::CheckBuffer buffers[] = {
        {bases.features, plan.feature_bytes(), false},
        {bases.weights, plan.weight_bytes(), false},
        {bases.output, plan.output_bytes(), true},
        {bases.program, program.words.size() * sizeof(std::uint64_t), false},
    };
    for (const CoreRange& core : program.cores) {
        const TaskEntry& first = program.tasks[core.first_task];
        const std::vector<Violation> violations = check_program({.words = program.words,
                                                                 .words_iova = bases.program,
                                                                 .first_word = first.word_offset,
                                                                 .body_words = first.body_words,
                                                                 .task_number = core.task_count,
                                                                 .interrupt_mask = rockchip::interrupt_dpu,
                                                                 .buffers = buffers},
                                                                rk3588());
        if (const Violation* found = first_refusal(violations); found != nullptr) {
            return found->message;
        }
    }
    return {};
}

TEST(CheckedPrograms, of_random_plans_are_never_refused) {
    test::Random random(40);
    for (int round = 0; round < 250; ++round) {
        PlanOptions options;
        options.cores = random.between(1, 3);
        options.feature = random.coin() ? Arrangement::native : Arrangement::row_major;
        options.output = random.coin() ? Arrangement::native : Arrangement::row_major;
        options.emit_rdma = random.coin();
        options.vendor_preamble = random.coin();
        options.weight_reuse = random.coin();
        const bool byte = random.coin();
        const MatmulShape shape{random.logarithmic(700), random.logarithmic(12000), random.logarithmic(12000),
                                byte ? Precision::int8 : Precision::fp16,
                                random.coin() ? Precision::fp32 : (byte ? Precision::int32 : Precision::fp16)};
        const Result<Plan> plan = plan_matmul(shape, rk3588(), options);
        ASSERT_TRUE(plan) << plan.error().message;
        const Result<Program> program = build_program(*plan, bases, rk3588());
        ASSERT_TRUE(program) << program.error().message;
        ASSERT_EQ(refusal(*plan, *program), "") << "M=" << shape.m << " N=" << shape.n << " K=" << shape.k;
    }
}

TEST(CheckedPrograms, with_a_broken_word_are_refused) {  // positive control
    const Result<Plan> plan = plan_matmul({40, 3000, 9000, Precision::int8, Precision::int32}, rk3588(), {});
    Result<Program> program = build_program(*plan, bases, rk3588());
    ASSERT_EQ(refusal(*plan, *program), "");
    Program broken = *program;
    broken.words[broken.tasks[0].word_offset + broken.tasks[0].body_words] ^= 0x400000ULL;  // next task's address
    EXPECT_NE(refusal(*plan, broken), "");
    broken = *program;
    for (const Relocation& relocation : broken.relocations) {
        if (relocation.buffer == Buffer::output && relocation.addend != 0) {
            broken.words[relocation.word] += std::uint64_t{0x10000000} << 16;
        }
    }
    EXPECT_NE(refusal(*plan, broken), "");
}

}  // namespace
}  // namespace npu::compile
