// The checker as a function of any input at all: bounded, and without a crash.
#include <random>

#include "rockchip/sample_blocks.h"
#include "rockchip/sample_chain.h"

namespace npu::rockchip::test {
namespace {

TEST(Checker, keeps_a_bounded_number_of_violations_and_never_loses_the_first_refusal) {
    std::vector<SampleShape> shapes;
    for (std::uint32_t i = 0; i < 600; ++i) {
        shapes.push_back({.output_address = 0x01800000 + i * 0x1000});
    }
    SampleProgram program(shapes);
    EXPECT_TRUE(program.check().empty());
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        for (Command& command : program.task(i).body) {
            command.value = command.offset == 0x1040 ? 0x1b : command.value;  // a warning each
        }
    }
    program.set(0x301c, 1, 599);
    const std::vector<Violation> violations = program.check();
    EXPECT_EQ(violations.size(), violation_limit + 1);
    const Violation* refusal = first_refusal(violations);
    ASSERT_NE(refusal, nullptr);
    EXPECT_EQ(refusal->task, 599U);
}

// One task of each kind.
SampleProgram mixed() {
    SampleProgram program(
        std::vector<SampleTask>{sample_convolution({.output_address = 0x01a00000}), sample_element_wise({}),
                                sample_convolution({.channels = 64, .depthwise = true, .output_address = 0x01b00000}),
                                sample_pooling({.output_address = 0x01c00000})});
    program.input.interrupt_mask = interrupt_ppu;
    return program;
}

TEST(Checker, passes_a_chain_of_all_kinds_of_tasks) {
    SampleProgram program = mixed();
    EXPECT_TRUE(program.check().empty()) << messages(program.check());
}

TEST(Checker, never_fails_on_random_words_or_random_changes) {
    std::mt19937_64 random(7);
    for (int round = 0; round < 6000; ++round) {
        SampleProgram program = round % 2 == 0 ? chain() : mixed();
        for (int change = 0; change < 4; ++change) {
            std::uint64_t& word = program.words[random() % program.words.size()];
            switch (random() % 4) {
                case 0: word = random(); break;
                case 1: word ^= std::uint64_t{1} << (random() % 64); break;
                case 2: word = 0; break;
                default: word = program.words[random() % program.words.size()]; break;
            }
        }
        program.input.body_words += static_cast<std::uint32_t>(random() % 8 == 0 ? random() : 0);
        program.input.words_iova += random() % 8 == 0 ? random() % 0x100000000 : 0;
        program.input.task_number += static_cast<std::uint32_t>(random() % 3);
        for (const Violation& violation : program.check()) {
            EXPECT_FALSE(violation.message.empty());
            EXPECT_STRNE(violation.consequence, "");
        }
    }
}

}  // namespace
}  // namespace npu::rockchip::test
