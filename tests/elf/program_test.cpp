// Files that are less comfortable: without the unwinder's tables, executables, and single instructions.
#include "elf/program.h"

#include "elf/info.h"
#include "elf/references.h"
#include "fixture.h"

namespace npu::elf {
namespace {

using namespace testing;

TEST(Program, WithoutFramesMostFunctionsAreStillFound) {
    NPU_REQUIRE_FIXTURE("shapes_bare.so");
    const Program program = analysed("shapes_bare.so");
    const auto truth = true_functions("shapes_bare.debug.so");
    std::size_t right = 0, by_frame = 0;
    for (const Function& f : program.functions()) {
        right += truth.contains(f.start) ? 1 : 0;
        by_frame += f.source == FunctionSource::frame ? 1 : 0;
    }
    EXPECT_EQ(by_frame, 0U);
    std::printf("    without frames: %zu of %zu beginnings, %zu found in all\n", right, truth.size(),
                program.functions().size());
    EXPECT_GE(static_cast<double>(right), 0.85 * static_cast<double>(truth.size()));
    EXPECT_LE(program.functions().size() - right, truth.size() / 5);
}

TEST(Program, AnExecutableIsReadAndItsImportsHaveTheirVersions) {
    NPU_REQUIRE_FIXTURE("driver");
    const Program program = analysed("driver");
    EXPECT_TRUE(program.image().is_executable_file());
    ASSERT_NE(program.function_at(program.image().entry()), nullptr);
    bool versioned = false, ours = false;
    for (const Symbol& s : program.dynamic().symbols) {
        versioned |= s.name == "strcmp" && s.version == "GLIBC_2.17";
        ours |= s.name == "shapes_soft_max" && !s.defined;
    }
    EXPECT_TRUE(versioned);
    EXPECT_TRUE(ours);
    const auto stub = program.address_of("shapes_soft_max");
    ASSERT_TRUE(stub) << "calls of imports go through stubs, which have the import's name";
    EXPECT_FALSE(program.branches_to(*stub).empty());
}

TEST(Program, HardeningIsSeenWhereItIsAndNotWhereItIsNot) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const auto info = [](const char* name) {
        const Program program = analysed(name);
        return describe(program.image(), program.dynamic(), program.strings());
    };
    const Info hardened = info("shapes.so"), marked = info("shapes_small.so");
    EXPECT_TRUE(hardened.hardening.canary && hardened.hardening.relro && hardened.has_frame_table && hardened.stripped);
    EXPECT_EQ(hardened.build_id.size(), 40U);
    EXPECT_FALSE(hardened.compilers.empty());
    EXPECT_FALSE(info("rooms.so").hardening.canary);
    EXPECT_FALSE(analysed("shapes.debug.so").functions().empty());
    EXPECT_FALSE(info("shapes.debug.so").stripped);
    EXPECT_TRUE(marked.compilers == hardened.compilers);
}

TEST(Program, ACallOfAnAbortingFunctionEndsItsPath) {
    NPU_REQUIRE_FIXTURE("shapes.so");
    const Program program = analysed("shapes.so");
    std::size_t endless = 0;
    for (const auto& [address, f] : true_functions("shapes.debug.so")) {
        if (f.name.starts_with("_Z12shapes_abort")) {
            EXPECT_TRUE(program.ends_program(address));
            ++endless;
        }
        if (f.name == "shapes_soft_max") {
            EXPECT_FALSE(program.ends_program(address));
        }
    }
    EXPECT_EQ(endless, 1U);
}

// Words and meanings as `objdump -d` prints them.
TEST(Decode, ReferencesAndBranchesAreRead) {
    const auto is = [](std::uint32_t word, Op op, std::uint64_t target) {
        const Instruction i = decode(word, 0x10000);
        return i.op == op && i.target == target;
    };
    EXPECT_TRUE(is(0x10000083, Op::adr, 0x10010));             // adr x3, 0x10010
    EXPECT_TRUE(is(0xb0000003, Op::adrp, 0x11000));            // adrp x3, 0x11000
    EXPECT_TRUE(is(0xf0ffffe3, Op::adrp, 0xf000));             // adrp x3, 0xf000
    EXPECT_TRUE(is(0x94000002, Op::call, 0x10008));            // bl
    EXPECT_TRUE(is(0x17ffffff, Op::jump, 0xfffc));             // b
    EXPECT_TRUE(is(0x54000901, Op::branch_if, 0x10120));       // b.ne
    EXPECT_TRUE(is(0xb4000060, Op::compare_branch, 0x1000c));  // cbz x0
    EXPECT_TRUE(is(0x37f80273, Op::test_branch, 0x1004c));     // tbnz w19, #31
    EXPECT_TRUE(is(0x58000040, Op::load_literal, 0x10008));    // ldr x0
    EXPECT_EQ(decode(0xd63f0020, 0).op, Op::call_register);    // blr x1
    EXPECT_EQ(decode(0xd61f0220, 0).op, Op::jump_register);    // br x17
    EXPECT_EQ(decode(0xd65f03c0, 0).op, Op::give_back);        // ret
    EXPECT_EQ(decode(0xd65f0bff, 0).op, Op::give_back);        // retaa
    EXPECT_EQ(decode(0xd4207d00, 0).op, Op::trap);             // brk #0x3e8
    EXPECT_EQ(decode(0x00000000, 0).op, Op::trap);             // udf #0
    EXPECT_EQ(decode(0xf9400c01, 0).value, 24);                // ldr x1, [x0, #24]
    EXPECT_EQ(decode(0xd10043ff, 0).value, -16);               // sub sp, sp, #16
}

TEST(Decode, OverwrittenRegistersAreKnown) {
    const auto writes = [](std::uint32_t word) { return decode(word, 0).writes; };
    const auto reg = [](unsigned r) { return std::uint32_t{1} << r; };
    EXPECT_EQ(writes(0xf9400c01), reg(1));           // ldr x1, [x0, #24]
    EXPECT_EQ(writes(0xf9000c01), 0U);               // str x1, [x0, #24]
    EXPECT_EQ(writes(0xa9400c02), reg(2) | reg(3));  // ldp x2, x3, [x0]
    EXPECT_EQ(writes(0xf8408401), reg(1) | reg(0));  // ldr x1, [x0], #8
    EXPECT_EQ(writes(0x1e380001), reg(1));           // fcvtzs w1, s0
    EXPECT_EQ(writes(0x1e220020), 0U);               // scvtf s0, w1
    EXPECT_EQ(writes(0x9e660001), reg(1));           // fmov x1, d0
    EXPECT_EQ(writes(0xfa401820), 0U);               // ccmp x1, #0, #0, ne
    EXPECT_EQ(writes(0xf8200022) & reg(2), reg(2));  // ldadd x0, x2, [x1]
    EXPECT_EQ(writes(0x94000002), call_clobbers);    // bl
    EXPECT_EQ(writes(0x3d800020), 0U);               // str q0, [x1]
    EXPECT_EQ(encode_jump(0x1000, 0x1008), 0x14000002U);
    EXPECT_EQ(encode_jump(0x1000, 0x0ffc), 0x17ffffffU);
    EXPECT_EQ(encode_jump(0, std::uint64_t{1} << 27), 0U) << "too far";
}

}  // namespace
}  // namespace npu::elf
