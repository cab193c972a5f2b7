// The few AArch64 encodings that references, calls and guards need. Reading a binary's structure does not take a
// disassembler: an address is made by ADR, by ADRP and an addition or a load, or by a load from a literal; control moves by
// a dozen branches. Of everything else one must know only which general registers it overwrites, so that a value is not
// believed longer than it lives. Where an encoding is not known for certain, more registers count as written than are.
//
// Source of the encodings: Arm Architecture Reference Manual for A-profile (DDI 0487), chapter C4 "A64 Instruction Set
// Encoding".
#pragma once

#include <cstdint>

namespace npu::elf {

enum class Op : std::uint8_t {
    other,
    adr,             // rd = target
    adrp,            // rd = target, a multiple of 4096
    add_immediate,   // rd = rn + value; value is negative for SUB
    move_register,   // rd = rn
    move_wide,       // rd = value (MOVZ, MOVN)
    move_keep,       // rd = rd with 16 bits replaced (MOVK): value, shift
    load,            // [rn + value] -> rd (and another, for pairs)
    store,           // likewise
    load_literal,    // [target] -> rd
    call,            // BL target
    jump,            // B target
    branch_if,       // B.cond target
    compare_branch,  // CBZ, CBNZ rn, target
    test_branch,     // TBZ, TBNZ rn, target
    call_register,   // BLR rn
    jump_register,   // BR rn
    give_back,       // RET
    trap,            // UDF, BRK
    nothing,         // NOP, BTI and other hints
};

struct Instruction {
    Op op = Op::other;
    std::uint8_t rd = 31;  // 31 where there is none: the zero register or the stack pointer
    std::uint8_t rn = 31;
    std::uint8_t shift = 0;  // of move_keep
    bool wide = false;       // 64-bit form (loads: into an X register)
    std::int64_t value = 0;
    std::uint64_t target = 0;
    std::uint32_t writes = 0;  // bit i: x<i> is overwritten

    [[nodiscard]] bool is_conditional() const {
        return op == Op::branch_if || op == Op::compare_branch || op == Op::test_branch;
    }
    // Nothing runs behind it.
    [[nodiscard]] bool ends_flow() const {
        return op == Op::jump || op == Op::jump_register || op == Op::give_back || op == Op::trap;
    }
};

// `address` is where the word stands, which relative targets count from.
Instruction decode(std::uint32_t word, std::uint64_t address);

// Registers that a called function may change: x0 to x18 and x30 (AAPCS64).
inline constexpr std::uint32_t call_clobbers = 0x4007ffff;

inline constexpr std::uint32_t nop_word = 0xd503201f;

// The word of `B target` at an address; 0 when the distance does not fit (±128 MiB).
std::uint32_t encode_jump(std::uint64_t address, std::uint64_t target);

}  // namespace npu::elf
