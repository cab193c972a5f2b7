#include "elf/decode.h"

#include "elf/bytes.h"

namespace npu::elf {

namespace {

constexpr std::uint32_t bits(std::uint32_t word, unsigned high, unsigned low) {
    return (word >> low) & ((std::uint64_t{1} << (high - low + 1)) - 1);
}

constexpr std::uint32_t mask_of(unsigned reg) { return reg < 31 ? std::uint32_t{1} << reg : 0; }

void data_processing_immediate(std::uint32_t word, std::uint64_t address, Instruction& i) {
    i.rd = static_cast<std::uint8_t>(bits(word, 4, 0));
    i.rn = static_cast<std::uint8_t>(bits(word, 9, 5));
    i.wide = (word >> 31) != 0;
    i.writes = mask_of(i.rd);
    if ((word & 0x1f000000) == 0x10000000) {
        const std::int64_t immediate = sign_extend(bits(word, 23, 5) << 2 | bits(word, 30, 29), 21);
        const bool page = (word >> 31) != 0;
        i.op = page ? Op::adrp : Op::adr;
        i.target = page ? (address & ~std::uint64_t{4095}) + static_cast<std::uint64_t>(immediate * 4096)
                        : address + static_cast<std::uint64_t>(immediate);
    } else if ((word & 0x3f800000) == 0x11000000) {
        i.op = Op::add_immediate;
        const std::int64_t amount = std::int64_t{bits(word, 21, 10)} << ((word >> 22 & 1) * 12);
        i.value = (word >> 30 & 1) != 0 ? -amount : amount;
    } else if ((word & 0x1f800000) == 0x12800000) {
        const std::uint32_t kind = bits(word, 30, 29);
        i.shift = static_cast<std::uint8_t>(16 * bits(word, 22, 21));
        const std::uint64_t part = std::uint64_t{bits(word, 20, 5)};
        if (kind == 3) {
            i.op = Op::move_keep;
            i.value = static_cast<std::int64_t>(part);
        } else if (kind != 1) {
            i.op = Op::move_wide;
            const std::uint64_t full = kind == 0 ? ~(part << i.shift) : part << i.shift;
            i.value = static_cast<std::int64_t>(i.wide ? full : full & 0xffffffff);
        }
    }
}

void branches(std::uint32_t word, std::uint64_t address, Instruction& i) {
    const auto relative = [&](std::uint64_t field, unsigned width) {
        i.target = address + static_cast<std::uint64_t>(sign_extend(field, width) * 4);
    };
    if ((word & 0x7c000000) == 0x14000000) {
        const bool links = (word >> 31) != 0;
        i.op = links ? Op::call : Op::jump;
        i.writes = links ? call_clobbers : 0;
        relative(bits(word, 25, 0), 26);
    } else if ((word & 0xff000000) == 0x54000000) {
        i.op = Op::branch_if;
        relative(bits(word, 23, 5), 19);
    } else if ((word & 0x7e000000) == 0x34000000) {
        i.op = Op::compare_branch;
        i.rn = static_cast<std::uint8_t>(bits(word, 4, 0));
        relative(bits(word, 23, 5), 19);
    } else if ((word & 0x7e000000) == 0x36000000) {
        i.op = Op::test_branch;
        i.rn = static_cast<std::uint8_t>(bits(word, 4, 0));
        relative(bits(word, 18, 5), 14);
    } else if ((word & 0xfe000000) == 0xd6000000) {
        i.rn = static_cast<std::uint8_t>(bits(word, 9, 5));
        const std::uint32_t kind = bits(word, 24, 21) & 7;  // bit 3: with pointer authentication
        i.op = kind == 0 ? Op::jump_register : kind == 1 ? Op::call_register : Op::give_back;
        i.writes = kind == 1 ? call_clobbers : 0;
    } else if ((word & 0xfffff01f) == 0xd503201f) {
        i.op = Op::nothing;
        // XPACLRI and the hints that sign or check x17 and x30 change those.
        i.writes = mask_of(17) | mask_of(30);
    } else if ((word & 0xff000000) == 0xd4000000) {
        i.op = (word & 0xffe0001f) == 0xd4200000 ? Op::trap : Op::other;  // BRK; SVC returns with x0 changed
        i.writes = call_clobbers;
    } else if ((word & 0xfff00000) == 0xd5300000 || (word & 0xfff80000) == 0xd5280000) {
        i.writes = mask_of(bits(word, 4, 0));  // MRS, SYSL
    }
}

void single_access(std::uint32_t word, Instruction& i) {
    const bool vector = (word >> 26 & 1) != 0;
    const std::uint32_t size = bits(word, 31, 30);
    const std::uint32_t opcode = bits(word, 23, 22);
    const bool prefetch = !vector && size == 3 && opcode == 2;
    const bool loads = vector ? (opcode & 1) != 0 : opcode != 0;
    if (loads && !vector && !prefetch) {
        i.writes = mask_of(i.rd);
        i.wide = size == 3 && opcode == 1;
    }
    if (vector || prefetch) {
        i.rd = 31;
    }
    if ((word >> 24 & 1) != 0) {
        i.op = loads ? Op::load : Op::store;
        const std::uint32_t scale = vector ? (opcode >> 1) << 2 | size : size;
        i.value = std::int64_t{bits(word, 21, 10)} << scale;
        return;
    }
    const std::uint32_t form = bits(word, 11, 10);
    if ((word >> 21 & 1) == 0) {
        if (form == 0 || form == 3) {  // unscaled, pre-indexed
            i.op = loads ? Op::load : Op::store;
            i.value = sign_extend(bits(word, 20, 12), 9);
        }
        if ((form & 1) != 0) {
            i.writes |= mask_of(i.rn);
        }
    } else if (form == 0) {
        i.writes = mask_of(bits(word, 4, 0));  // atomic read and change
    } else if ((form & 1) != 0) {
        i.writes = mask_of(bits(word, 4, 0)) | mask_of(i.rn);  // LDRAA, LDRAB
    }
}

void loads_and_stores(std::uint32_t word, std::uint64_t address, Instruction& i) {
    i.rd = static_cast<std::uint8_t>(bits(word, 4, 0));
    i.rn = static_cast<std::uint8_t>(bits(word, 9, 5));
    const bool vector = (word >> 26 & 1) != 0;
    const std::uint32_t kind = bits(word, 29, 27);
    if (kind == 7) {
        single_access(word, i);
    } else if (kind == 5) {  // pairs
        const bool loads = (word >> 22 & 1) != 0;
        const std::uint32_t form = bits(word, 24, 23);
        const std::uint32_t width = bits(word, 31, 30);
        if (form >= 2 || form == 0) {
            i.op = loads ? Op::load : Op::store;
            i.value = sign_extend(bits(word, 21, 15), 7) * (std::int64_t{4} << (vector ? width : width >> 1));
        }
        i.wide = !vector && width == 2;
        if (loads && !vector) {
            i.writes = mask_of(i.rd) | mask_of(bits(word, 14, 10));
        }
        if ((form & 1) != 0) {
            i.writes |= mask_of(i.rn);
        }
        if (vector) {
            i.rd = 31;
        }
    } else if ((word & 0x3b000000) == 0x18000000) {
        i.op = Op::load_literal;
        i.target = address + static_cast<std::uint64_t>(sign_extend(bits(word, 23, 5), 19) * 4);
        const std::uint32_t width = bits(word, 31, 30);
        if (vector || width == 3) {  // into a vector register; a prefetch
            i.rd = 31;
        }
        i.wide = !vector && width == 1;
        i.writes = mask_of(i.rd);
    } else if (vector) {
        i.writes = mask_of(i.rn);  // structures of vectors, which may move the base
        i.rd = 31;
    } else {
        // Exclusive and ordered accesses, compare and swap, tags: status or old value in one of these.
        const bool plain_store = (word & 0x3fe00000) == 0x08800000;  // STLR, STLLR
        const std::uint32_t status = bits(word, 20, 16);
        i.writes = plain_store ? 0
                               : mask_of(i.rd) | mask_of(bits(word, 14, 10)) | mask_of(status) | mask_of(status + 1) |
                                     mask_of(i.rn);
        i.rd = 31;
    }
}

void vectors(std::uint32_t word, Instruction& i) {
    const std::uint32_t opcode = bits(word, 18, 16);
    const bool converts = (word & 0x5f20fc00) == 0x1e200000 && opcode != 2 && opcode != 3 && opcode != 7;
    const bool converts_fixed = (word & 0x5f200000) == 0x1e000000 && opcode < 2;
    const bool takes_element = (word & 0x9fe0fc00) == 0x0e003c00 || (word & 0x9fe0fc00) == 0x0e002c00;
    if (converts || converts_fixed || takes_element) {
        i.writes = mask_of(bits(word, 4, 0));
    }
}

}  // namespace

Instruction decode(std::uint32_t word, std::uint64_t address) {
    Instruction i;
    const std::uint32_t group = bits(word, 28, 25);
    if ((group & 0xe) == 0x8) {
        data_processing_immediate(word, address, i);
    } else if ((group & 0xe) == 0xa) {
        branches(word, address, i);
    } else if ((group & 0x5) == 0x4) {
        loads_and_stores(word, address, i);
    } else if ((group & 0x7) == 0x5) {
        i.rd = static_cast<std::uint8_t>(bits(word, 4, 0));
        const bool sets_flags_only = (word & 0x1fe00000) == 0x1a400000;  // CCMP, CCMN
        i.writes = sets_flags_only ? 0 : mask_of(i.rd);
        if ((word & 0x7fe0ffe0) == 0x2a0003e0) {
            i.op = Op::move_register;
            i.rn = static_cast<std::uint8_t>(bits(word, 20, 16));
            i.wide = (word >> 31) != 0;
        }
    } else if ((group & 0x7) == 0x7) {
        vectors(word, i);
    } else if ((word & 0xffff0000) == 0) {
        i.op = Op::trap;  // UDF
    } else {
        i.writes = mask_of(bits(word, 4, 0));  // SVE, which can count into a general register
    }
    return i;
}

std::uint32_t encode_jump(std::uint64_t address, std::uint64_t target) {
    const auto distance = static_cast<std::int64_t>(target - address);
    if (distance % 4 != 0 || distance < -(std::int64_t{1} << 27) || distance >= std::int64_t{1} << 27) {
        return 0;
    }
    return 0x14000000U | (static_cast<std::uint32_t>(distance / 4) & 0x03ffffff);
}

}  // namespace npu::elf
