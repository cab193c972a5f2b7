// Strict and lenient: the same findings, but only strict mode lets them stop a task.
#include <gtest/gtest.h>

#include "sim/test_support.h"

namespace npu::sim::test {
namespace {

constexpr std::uint32_t list = 0x10000;

struct Done {
    KickResult result;
    bool right = false;
};

Done run(Mode mode, std::uint16_t offset, std::uint32_t value) {
    const Matmul matmul{.input = Precision::int8, .output = Precision::int32, .m = 8, .k = 96, .n = 64};
    std::mt19937 random(5);
    const Operands operands = random_operands(matmul, random, Range::full);
    SparseMemory memory;
    load_operands(memory, matmul, operands);
    Program program = matmul_program(matmul);
    if (offset != 0) {
        program.set(offset, value);
    }
    const auto words = program.words();
    memory.map(list, words.size() * 8);
    write_words(memory, list, words);
    CoreOptions options;
    options.mode = mode;
    Core core(options);
    Done done;
    done.result = core.run(kick_at(list, words.size()), memory);
    done.right = read_product(memory, matmul) == reference_product(matmul, operands);
    return done;
}

TEST(Mode, LenientRunsWhatStrictRefusesAndKeepsTheFinding) {
    ASSERT_TRUE(run(Mode::strict, 0, 0).right);  // positive control
    const struct {
        std::uint16_t offset;
        std::uint32_t value;
        Severity severity;
        const char* name;
    } cases[] = {
        {0x1040, 0x1b1, Severity::corrupt, "CNA.CBUF_CON0"},                  // FC_DATA_BANK
        {0x403c, 31 << 16 | 63, Severity::corrupt, "DPU.DATA_CUBE_CHANNEL"},  // ORIG_CHANNEL
    };
    for (const auto& c : cases) {
        const Done strict = run(Mode::strict, c.offset, c.value);
        EXPECT_FALSE(strict.result.finished) << c.name;
        EXPECT_TRUE(has_finding(strict.result.findings, c.severity, {c.name})) << list_findings(strict.result.findings);
        const Done lenient = run(Mode::lenient, c.offset, c.value);
        EXPECT_TRUE(lenient.result.finished) << list_findings(lenient.result.findings);
        EXPECT_TRUE(has_finding(lenient.result.findings, c.severity, {c.name}))
            << list_findings(lenient.result.findings);
    }
    EXPECT_TRUE(run(Mode::lenient, 0x1040, 0x1b1).right) << "as if nothing were wrong";
}

TEST(Mode, NeitherTouchesMemoryThatIsNotThere) {
    for (const Mode mode : {Mode::strict, Mode::lenient}) {
        const Done done = run(mode, 0x4020, 0x70000000);
        EXPECT_FALSE(done.result.finished);
        EXPECT_TRUE(done.result.dma_error);
        EXPECT_TRUE(has_finding(done.result.findings, Severity::hang, {"DMA error", "DPU.DST_BASE_ADDR"}))
            << list_findings(done.result.findings);
    }
}

}  // namespace
}  // namespace npu::sim::test
