#include "rockchip/checker_words.h"

#include <bitset>

#include "base/result.h"

namespace npu::rockchip::check {

namespace {

constexpr std::uint32_t pointer_value = 0xe;  // both ping-pong enables, toggle after each fire: what everybody writes

std::uint32_t bits_outside_fields(const RegisterInfo& info, std::uint32_t value) {
    for (const FieldInfo& field : info.fields) {
        const Field reader{info.offset, field.high, field.low, field.name};
        value &= ~(reader.maximum() << field.low);
    }
    return value;
}

// Registers that a command list has no business writing: pages of 4 KiB begin with status, pointer and enable.
bool check_target(const Command& command, const RegisterInfo*& info, Findings& findings) {
    const auto refuse = [&](const char* consequence, const std::string& why) {
        findings.refuse(command.offset, command.value, consequence, why);
        return false;
    };
    info = find_register(command.offset);
    if (info == nullptr) {
        return refuse(consequence::not_understood,
                      format("target 0x%04x has no such register on this chip", command.target));
    }
    if (command.target != block_target(info->block) || command.target == target::none) {
        return refuse(consequence::not_understood,
                      format("target 0x%04x does not own this register; its block is reached by 0x%04x", command.target,
                             block_target(info->block)));
    }
    if (info->block == Block::PC) {  // the redirect takes effect for the next fetch: only the tail may hold it
        return refuse(consequence::hangs, "PC register in the body of a task; only the tail may redirect the PC");
    }
    if (info->block == Block::PPU || info->block == Block::PPU_RDMA) {
        return refuse(consequence::not_understood, "pooling is not understood by the checker");
    }
    switch (command.offset & 0xfffU) {
        case 0x000: return refuse(consequence::not_understood, "status register, read-only");
        case 0x008:
            return refuse(consequence::not_understood,
                          "a block is fired by the enable word, never by its own register");
        default: break;
    }
    if (command.offset == reg::CNA::S_POINTER::offset || command.offset == reg::CORE::S_POINTER::offset) {
        // The value depends on the core number; measured on hardware: 24 of 24 tasks never completed.
        return refuse(consequence::hangs,
                      "the kernel driver writes this pointer before the job; a command list must not");
    }
    return true;
}

}  // namespace

void apply_body(std::span<const std::uint64_t> body, RegisterFile& file, Findings& findings) {
    std::bitset<0x8000 / 4> seen;
    for (const std::uint64_t word : body) {
        if (word == 0) {
            continue;
        }
        const Command command = decode(word);
        if (command.target == target::separator) {
            findings.refuse(command.offset, command.value, consequence::hangs,
                            "separator word inside a body; it must come right before the enable word");
            continue;
        }
        const RegisterInfo* info = nullptr;
        if (!check_target(command, info, findings)) {
            continue;
        }
        if (const std::uint32_t outside = bits_outside_fields(*info, command.value); outside != 0) {
            findings.refuse(command.offset, command.value, consequence::corrupts,
                            format("bits 0x%08x lie outside every field: a value overflowed its field and wraps, or a "
                                   "feature that no source explains",
                                   outside));
        }
        const std::size_t index = command.offset / 4U;
        if (seen.test(index) && file.value(command.offset) != command.value) {
            // Published: half-patched templates, where registers stand twice.
            findings.warn(command.offset, command.value, consequence::corrupts,
                          format("written twice in one body, before with 0x%08x; the last write wins",
                                 file.value(command.offset)));
        }
        seen.set(index);
        file.write(command.offset, command.value);
    }
}

Tail read_tail(std::span<const std::uint64_t> tail, Findings& findings) {
    Tail result;
    const Command address = decode(tail[0]);
    const Command amount = decode(tail[1]);
    const Command separator = decode(tail[2]);
    const Command enable = decode(tail[3]);
    const auto refuse = [&](const Command& command, const char* why) {
        findings.refuse(command.offset, command.value, consequence::hangs, why);
        return result;
    };
    if (separator != Command{target::separator, 0, 0}) {
        return refuse(separator,
                      "wrong tail: the word before enable must be the separator (target 0x0041, all else 0)");
    }
    if (amount.target != target::pc || amount.offset != offset_pc_register_amounts) {
        return refuse(amount, "wrong tail: the second word must write PC.REGISTER_AMOUNTS");
    }
    if (tail[0] != 0 && (address.target != target::pc || address.offset != offset_pc_base_address)) {
        return refuse(address, "wrong tail: the first word must write PC.BASE_ADDRESS or be zero");
    }
    if (enable.offset != offset_enable) {
        return refuse(enable, "wrong tail: the enable word must have offset 0x0008");
    }
    if ((amount.value >> 16) != 0) {  // appears only in vendor multi-core programs, with a barrier task behind it
        findings.refuse(amount.offset, amount.value, consequence::not_understood,
                        "bits 31:16 belong to the vendor's multi-core co-work, which no source explains");
    }
    result.valid = true;
    result.names_next = tail[0] != 0;
    result.next_address = address.value;
    result.next_amount = amount.value & 0xffffU;
    result.enable = enable.value;
    return result;
}

bool check_enable(std::uint32_t enable, bool mainline_driver, Findings& findings) {
    const auto refuse = [&](const char* consequence, const char* why) {
        findings.refuse(offset_enable, enable, consequence, why);
        return false;
    };
    switch (enable) {
        case enable_convolution:
            if (mainline_driver) {  // published: DPU_RDMA resets to a reader that is enabled and never fed
                return refuse(
                    consequence::hangs,
                    "the mainline driver needs DPU_RDMA programmed with its readers disabled, and enable 0x1d");
            }
            return true;
        case enable_convolution_rdma: return true;
        case enable_bit::dpu | enable_bit::dpu_rdma:
            return refuse(consequence::not_understood, "stand-alone element-wise task (DPU and DPU_RDMA alone)");
        case enable_bit::ppu | enable_bit::ppu_rdma:
            return refuse(consequence::not_understood, "stand-alone pooling task (PPU and PPU_RDMA)");
        case 0: return refuse(consequence::hangs, "fires no block: no interrupt ever comes");
        default:
            return refuse(consequence::not_understood,
                          "not a known set of blocks; known: 0x0d, 0x1d (and 0x18, 0x60, not understood)");
    }
}

void check_pointers(std::span<const std::uint64_t> body, std::uint32_t enable, Findings& findings) {
    const auto check = [&](std::uint16_t block, std::uint16_t pointer) {
        bool first = true;
        for (const std::uint64_t word : body) {
            const Command command = decode(word);
            if (command.target != block) {
                continue;
            }
            if (command.offset == pointer) {
                if (command.value != pointer_value) {
                    findings.refuse(pointer, command.value, consequence::not_understood,
                                    "every program writes 0xe, which toggles the register group after each task");
                } else if (!first) {
                    findings.refuse(pointer, command.value, consequence::not_understood,
                                    "the pointer must be armed before the block's other writes, as in every program");
                }
                return;
            }
            first = false;
        }
        // Published: later tasks of a chain then repeat the first task's output.
        findings.refuse(pointer, 0, consequence::corrupts,
                        "not written in this task: the block repeats what its old group says; write 0xe");
    };
    check(target::dpu, reg::DPU::S_POINTER::offset);
    if ((enable & enable_bit::dpu_rdma) != 0) {
        check(target::dpu_rdma, reg::DPU_RDMA::S_POINTER::offset);
    }
}

}  // namespace npu::rockchip::check
