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

TEST(CheckedPrograms, that_add_on_the_chip_are_never_refused) {
    test::Random random(41);
    for (int round = 0; round < 120; ++round) {
        const bool byte = random.coin();
        PlanOptions options{.cores = random.between(1, 3)};
        options.reduction = byte ? Reduction::flying_add : Reduction::accumulate;
        options.output = byte && random.coin() ? Arrangement::row_major : Arrangement::native;
        options.split = options.output == Arrangement::row_major ? Split::rows : Split::channels;
        options.emit_rdma = random.coin();
        options.max_k = random.between(2, 16) * 32;
        // Rows that one task holds, so that none of fp16 gets fewer than twelve.
        const MatmulShape shape{random.logarithmic(300), random.logarithmic(4000), random.logarithmic(4000),
                                byte ? Precision::int8 : Precision::fp16, byte ? Precision::int32 : Precision::fp16};
        const Result<Plan> plan = plan_matmul(shape, rk3588(), options);
        ASSERT_TRUE(plan) << plan.error().message;
        const Result<Program> program = build_program(*plan, bases, rk3588());
        ASSERT_TRUE(program) << program.error().message;
        ASSERT_EQ(refusal(*plan, *program), "") << "M=" << shape.m << " N=" << shape.n << " K=" << shape.k;
    }
}

// The plan's first core with one register of its last task set, or moved by as many bytes.
std::string refusal_with(const Plan& plan, std::uint16_t offset, std::uint32_t value, bool move = false) {
    Program program = *build_program(plan, bases, rk3588());
    const CoreRange& core = program.cores[0];
    const TaskEntry& last = program.tasks[core.first_task + core.task_count - 1];
    for (std::uint32_t i = 0; i < last.body_words; ++i) {
        rockchip::Command command = rockchip::decode(program.words[last.word_offset + i]);
        if (command.offset == offset) {
            command.value = move ? command.value + value : value;
            program.words[last.word_offset + i] = rockchip::encode(command);
        }
    }
    return refusal(plan, program);
}

TEST(CheckedPrograms, that_add_on_the_chip_are_refused_when_broken) {  // positive control
    PlanOptions options{.cores = 1, .max_k = 512, .reduction = Reduction::flying_add};
    const MatmulShape shape{40, 96, 1500, Precision::int8, Precision::int32};
    const Plan plan = *plan_matmul(shape, rk3588(), options);
    const auto says = [](const std::string& message, const char* part) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    ASSERT_EQ(refusal_with(plan, 0x5044, 0x27881), "") << "the word it has";
    says(refusal_with(plan, 0x5044, 0x27981), "with bit 0 set the task never completes");
    says(refusal_with(plan, 0x4070, 0x10c202c0), "becomes garbage");
    const auto whole = static_cast<std::uint32_t>(plan.output_bytes());
    says(refusal_with(plan, 0x5018, whole, true), "lies in no single buffer");
    says(refusal_with(plan, 0x5038, whole, true), "lies in no single buffer");
    says(refusal_with(plan, 0x4020, bases.weights), "in a buffer that the device may not write");
    says(refusal_with(plan, 0x5038, bases.output + static_cast<std::uint32_t>(plan.result_offset(0)) + 16),
         "over its own element-wise operands");

    options.reduction = Reduction::accumulate;
    const Plan half = *plan_matmul({40, 96, 1500, Precision::fp16, Precision::fp16}, rk3588(), options);
    ASSERT_EQ(refusal_with(half, 0x5044, 0x17d40), "") << "the word it has";
    const auto in_place = static_cast<std::uint32_t>(bases.output + half.output_offset(1));  // where the sums are
    says(refusal_with(half, 0x4020, in_place), "over its own element-wise operands");
    says(refusal_with(half, 0x504c, 0), "SURF_NOTCH_ADDR is 0");
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
