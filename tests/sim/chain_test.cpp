// Tasks in a row: how the core follows a chain, and what registers carry from one task to the next.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/test_support.h"

namespace npu::sim::test {
namespace {

constexpr std::uint32_t first_list = 0x10000;
constexpr std::uint32_t list_distance = 0x1000;

// Several products with the same shape: the same weights, other features and outputs.
class Chain : public testing::Test {
  protected:
    Matmul task(unsigned index) const {
        Matmul matmul{.input = Precision::int8, .output = Precision::int32, .m = 6, .k = 64, .n = 64};
        matmul.a += 0x100000 * index;
        matmul.c += 0x100000 * index;
        return matmul;
    }

    void SetUp() override {
        std::mt19937 random(1);
        const Operands shared = random_operands(task(0), random, Range::full);
        for (unsigned index = 0; index < 6; ++index) {
            operands_.push_back({random_operands(task(index), random, Range::full).a, shared.b});
            load_operands(memory_, task(index), operands_.back());
        }
    }

    // Puts the lists one page apart and links each to the next.
    void place(const std::vector<Program>& programs) {
        for (std::size_t i = 0; i < programs.size(); ++i) {
            const bool last = i + 1 == programs.size();
            const auto words = programs[i].words(0x0d, last ? 0 : address(i + 1),
                                                 last ? 0 : static_cast<std::uint32_t>(programs[i + 1].size() + 4));
            memory_.map(address(i), words.size() * 8);
            write_words(memory_, address(i), words);
        }
        first_words_ = programs[0].size() + 4;
    }

    static std::uint32_t address(std::size_t index) {
        return first_list + list_distance * static_cast<std::uint32_t>(index);
    }

    KickResult run(std::uint32_t tasks) { return core_.run(kick_at(first_list, first_words_, tasks), memory_); }

    bool right(unsigned index) const {
        return read_product(memory_, task(index)) == reference_product(task(index), operands_[index]);
    }
    bool untouched(unsigned index) const {
        return read_product(memory_, task(index)) == std::vector<std::uint32_t>(6 * 64, 0xeeeeeeeeU);
    }

    // Only what differs from the task two positions earlier.
    Program delta(unsigned index) const {
        Program program;
        program.set(0x4004, 0xe);
        program.set(0x1070, task(index).a);
        program.set(0x4020, task(index).c);
        return program;
    }

    SparseMemory memory_;
    std::vector<Operands> operands_;
    Core core_{CoreOptions{}};
    std::size_t first_words_ = 0;
};

TEST_F(Chain, OfFullTasksComputesAllOfThem) {
    place({matmul_program(task(0)), matmul_program(task(1)), matmul_program(task(2))});
    const KickResult result = run(3);
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    EXPECT_EQ(result.tasks_finished, 3U);
    EXPECT_EQ(result.interrupts, 0x100U) << "the third task runs from register group 0 again";
    EXPECT_TRUE(right(0) && right(1) && right(2));
}

TEST_F(Chain, StopsAtTheTaskNumberEvenWhereTheTailLeadsOn) {
    place({matmul_program(task(0)), matmul_program(task(1)), matmul_program(task(2))});
    const KickResult result = run(2);
    ASSERT_TRUE(result.finished);
    EXPECT_EQ(result.interrupts, 0x200U);
    EXPECT_TRUE(right(0) && right(1) && untouched(2));
}

TEST_F(Chain, HangsWhenTheTaskNumberIsLargerThanTheChain) {
    place({matmul_program(task(0)), matmul_program(task(1))});
    const KickResult result = run(3);
    EXPECT_FALSE(result.finished);
    EXPECT_EQ(result.tasks_finished, 2U);
    EXPECT_TRUE(has_finding(result.findings, Severity::hang, {"TASK_NUMBER is 3", "ends after 2"}));
}

TEST_F(Chain, HangsWhenAnAmountIsTooSmallToReachTheEnableWord) {
    place({matmul_program(task(0)), matmul_program(task(1))});
    auto words = matmul_program(task(0)).words(0x0d, address(1), 40);
    write_words(memory_, address(0), words);
    const KickResult result = run(2);
    EXPECT_FALSE(result.finished);
    EXPECT_EQ(result.tasks_finished, 1U);
    EXPECT_TRUE(untouched(1));
    EXPECT_TRUE(has_finding(result.findings, Severity::hang, {"no enable word", "never started"}));
}

TEST_F(Chain, HangsWhenOnlyTheAmountOfTheNextTaskIsWritten) {
    place({matmul_program(task(0)), matmul_program(task(1))});
    auto words = matmul_program(task(0)).words(0x0d, address(1), 80);
    words[words.size() - 4] = 0;
    write_words(memory_, address(0), words);
    const KickResult result = run(2);
    EXPECT_EQ(result.tasks_finished, 1U);
    EXPECT_TRUE(has_finding(result.findings, Severity::hang, {"chain ends after 1"}));
}

TEST_F(Chain, ToleratesWordsFetchedBeyondTheTailButNotASecondEnableWord) {
    place({matmul_program(task(0))});
    EXPECT_TRUE(core_.run(kick_at(first_list, first_words_ + 8, 1), memory_).finished);
    auto words = matmul_program(task(0)).words();
    words.resize(words.size() + words.size() % 2);
    const auto again = matmul_program(task(1)).words();
    words.insert(words.end(), again.begin(), again.end());
    write_words(memory_, first_list, words);
    const KickResult result = core_.run(kick_at(first_list, words.size(), 1), memory_);
    EXPECT_FALSE(result.finished);
    EXPECT_TRUE(has_finding(result.findings, Severity::hang, {"second enable word"}));
}

TEST_F(Chain, RefusesAListThatIsUnalignedUnmappedOrEndsInUnmappedMemory) {
    place({matmul_program(task(0))});
    EXPECT_TRUE(has_finding(core_.run(kick_at(first_list + 8, first_words_, 1), memory_).findings, Severity::hang,
                            {"not aligned to 16"}));
    EXPECT_TRUE(has_finding(core_.run(kick_at(0x7000, first_words_, 1), memory_).findings, Severity::hang,
                            {"DMA error: command list at 0x00007000"}));
    EXPECT_TRUE(has_finding(core_.run(kick_at(first_list, 4096, 1), memory_).findings, Severity::hang,
                            {"DMA error: command list"}));
    EXPECT_TRUE(untouched(0));
}

TEST_F(Chain, OfTwoFullAndThenIncrementalTasksIsExact) {
    place({matmul_program(task(0)), matmul_program(task(1)), delta(2), delta(3), delta(4)});
    const KickResult result = run(5);
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    for (unsigned index = 0; index < 5; ++index) {
        EXPECT_TRUE(right(index)) << index;
    }
}

TEST_F(Chain, CatchesAnIncrementalTaskAfterOnlyOneFullTask) {
    place({matmul_program(task(0)), delta(1)});
    const KickResult result = run(2);
    EXPECT_FALSE(result.finished);
    EXPECT_EQ(result.tasks_finished, 1U);
    EXPECT_TRUE(untouched(1));
    EXPECT_TRUE(has_finding(result.findings, Severity::hang, {"never written", "group 1"}))
        << list_findings(result.findings);
}

TEST_F(Chain, InheritsFromTheTaskTwoPositionsEarlierAndNotFromThePreviousOne) {
    // The second full task has other weights; the third inherits the address of the first one's.
    Matmul other = task(1);
    other.b = task(0).b + 0x100000;
    std::mt19937 random(9);
    const Operands foreign{operands_[1].a, random_operands(other, random, Range::full).b};
    load_operands(memory_, other, foreign);
    place({matmul_program(task(0)), matmul_program(other), delta(2)});
    ASSERT_TRUE(run(3).finished);
    EXPECT_TRUE(right(2));
    EXPECT_EQ(read_product(memory_, other), reference_product(other, foreign));
}

TEST_F(Chain, KeepsRegistersFromJobToJobUnlessAskedNotTo) {
    place({matmul_program(task(0)), matmul_program(task(1))});
    ASSERT_TRUE(run(2).finished);
    place({delta(2)});
    ASSERT_TRUE(run(1).finished);
    EXPECT_TRUE(right(2));

    core_.soft_reset();
    EXPECT_FALSE(run(1).finished) << "a reset leaves noise";

    Core forgetful({.poison_before_each_kick = true});
    place({matmul_program(task(0)), matmul_program(task(1))});
    ASSERT_TRUE(forgetful.run(kick_at(first_list, first_words_, 2), memory_).finished);
    place({delta(3)});
    EXPECT_FALSE(forgetful.run(kick_at(first_list, first_words_, 1), memory_).finished);
    EXPECT_TRUE(untouched(3));
}

TEST_F(Chain, CatchesEachSingleForgottenRegisterThatMatters) {
    // These have no effect in a plain product: burst lengths, constants of the input converter behind its bypass, what
    // only compressed weights use, and operands of stages that are bypassed.
    const auto inert = [](std::uint16_t offset) {
        const std::vector<std::uint16_t> single = {0x1078, 0x1104, 0x1180, 0x1184, 0x4014, 0x4054};
        const auto within = [offset](std::uint16_t first, std::uint16_t last) {
            return offset >= first && offset <= last;
        };
        return std::ranges::find(single, offset) != single.end() || within(0x1050, 0x105c) || within(0x1140, 0x117c) ||
               within(0x4044, 0x404c) || within(0x4064, 0x406c) || within(0x4074, 0x407c) || within(0x4090, 0x40ac) ||
               within(0x4100, 0x412c);
    };
    const Program full = matmul_program(task(0));
    int caught = 0;
    for (std::uint16_t offset = 0x1008; offset < 0x4200; offset += 4) {
        Program program = full;
        program.erase(offset);
        if (program.size() == full.size() || offset == 0x4004) {
            continue;
        }
        Core core({});
        place({program});
        const KickResult result = core.run(kick_at(first_list, first_words_, 1), memory_);
        // Registers that programs of others leave at their reset value are not worth a hang, but are said.
        const bool unnoticed = result.finished && result.findings.empty();
        EXPECT_EQ(unnoticed, inert(offset)) << std::hex << offset << list_findings(result.findings);
        caught += unnoticed ? 0 : 1;
    }
    EXPECT_GT(caught, 40);
}

TEST_F(Chain, PoisonDiffersByCoreAndReset) {
    Core other({.index = 1});
    const auto value = [](const Core& core) { return core.registers().block(rockchip::Block::CNA).value(0x1070); };
    EXPECT_NE(value(core_), value(other));
    const std::uint32_t before = value(core_);
    core_.soft_reset();
    EXPECT_NE(value(core_), before);
}

TEST_F(Chain, WithWeightReuseIsRightAndReadsTheWeightsOnce) {
    Program second = matmul_program(task(1));
    second.set(0x1040, second.get(0x1040) | 1U << 13);
    place({matmul_program(task(0)), second});
    const KickResult result = run(2);
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    EXPECT_TRUE(right(0) && right(1));
    EXPECT_EQ(result.work[1].weight_bytes, 0U);
}

TEST_F(Chain, RefusesWeightReuseWhenThePreviousTaskHadOtherWeightsOrBanks) {
    Program first = matmul_program(task(0));
    Program second = matmul_program(task(1));
    second.set(0x1040, second.get(0x1040) | 1U << 13);
    second.set(0x1110, task(0).b + 0x1000);
    memory_.map(task(0).b, 0x10000);
    place({first, second});
    EXPECT_TRUE(has_finding(run(2).findings, Severity::corrupt, {"WEIGHT_REUSE", "other weights"}));

    second.set(0x1110, task(0).b);
    second.set(0x1040, 1U << 13 | 0xa2);
    place({first, second});
    EXPECT_TRUE(has_finding(run(2).findings, Severity::corrupt, {"WEIGHT_REUSE", "bank split"}));
    EXPECT_TRUE(untouched(1));
}

TEST_F(Chain, DoesNotCarryReuseOverFromAnEarlierKick) {
    place({matmul_program(task(0))});
    ASSERT_TRUE(run(1).finished);
    Program second = matmul_program(task(1));
    second.set(0x1040, second.get(0x1040) | 1U << 13);
    place({second});
    EXPECT_TRUE(has_finding(run(1).findings, Severity::corrupt, {"WEIGHT_REUSE", "does not exist"}));
}

TEST_F(Chain, WithDataReuseNeedsTheSameFeatures) {
    Matmul same = task(0);
    same.c = task(1).c;
    Program second = matmul_program(same);
    second.set(0x1040, second.get(0x1040) | 1U << 12);
    place({matmul_program(task(0)), second});
    const KickResult result = run(2);
    ASSERT_TRUE(result.finished) << list_findings(result.findings);
    EXPECT_EQ(read_product(memory_, same), reference_product(same, operands_[0]));
    EXPECT_EQ(result.work[1].feature_bytes, 0U);

    second.set(0x1070, task(1).a);
    place({matmul_program(task(0)), second});
    EXPECT_TRUE(has_finding(run(2).findings, Severity::corrupt, {"DATA_REUSE", "other features"}));
}

}  // namespace
}  // namespace npu::sim::test
