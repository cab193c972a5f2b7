#include "rockchip/checker_words.h"

#include <bitset>

#include "base/result.h"
#include "rockchip/disassembler.h"

namespace npu::rockchip::check {

namespace {

constexpr std::uint32_t pointer_alternates =
    0xe;  // both ping-pong enables, toggle after each fire: what everybody writes
constexpr std::uint32_t pointer_returns = 0x30;  // back to group 0 and no ping-pong: vendor programs with tables

// Registers that a command list has no business writing: pages of 4 KiB begin with status, pointer and enable.
bool check_target(const Command& command, const RegisterInfo*& info, Findings& findings) {
    const auto refuse = [&](const char* consequence, const char* source, const std::string& why) {
        findings.refuse(command.offset, command.value, consequence, source, why);
        return false;
    };
    info = find_register(command.offset);
    if (info == nullptr) {
        return refuse(consequence::not_understood, source::manual,
                      format("target 0x%04x has no such register on this chip", command.target));
    }
    if (command.target != block_target(info->block) || command.target == target::none) {
        return refuse(consequence::not_understood, source::manual,
                      format("target 0x%04x does not own this register; its block is reached by 0x%04x", command.target,
                             block_target(info->block)));
    }
    if (info->block == Block::PC) {  // the redirect takes effect for the next fetch: only the tail may hold it
        return refuse(consequence::hangs, source::manual,
                      "PC register in the body of a task; only the tail may redirect the PC");
    }
    switch (command.offset & 0xfffU) {
        case 0x000: return refuse(consequence::not_understood, source::manual, "status register, read-only");
        case 0x008:
            return refuse(consequence::not_understood, source::programs,
                          "a block is fired by the enable word, never by its own register");
        default: break;
    }
    if (command.offset == reg::CNA::S_POINTER::offset || command.offset == reg::CORE::S_POINTER::offset) {
        // The value depends on the core number; 24 of 24 tasks never completed.
        return refuse(consequence::hangs, source::measured,
                      "the kernel driver writes this pointer before the job; a command list must not");
    }
    return true;
}

bool is_table_access(std::uint16_t offset) {  // written once per entry
    return offset == reg::DPU::LUT_ACCESS_CFG::offset || offset == reg::DPU::LUT_ACCESS_DATA::offset;
}

}  // namespace

void apply_body(std::span<const std::uint64_t> body, RegisterFile& file, Findings& findings) {
    std::bitset<0x8000 / 4> seen;
    for (const std::uint64_t word : body) {
        if (is_padding(word)) {
            continue;
        }
        const Command command = decode(word);
        if (command.target == target::separator) {
            findings.refuse(command.offset, command.value, consequence::hangs, source::manual,
                            "separator word inside a body; it must come right before the enable word");
            continue;
        }
        const RegisterInfo* info = nullptr;
        if (!check_target(command, info, findings)) {
            continue;
        }
        if (const std::uint32_t outside = bits_outside_fields(*info, command.value); outside != 0) {
            findings.refuse(command.offset, command.value, consequence::corrupts, source::manual,
                            format("bits 0x%08x lie outside every field: a value overflowed its field and wraps, or a "
                                   "feature that no source explains",
                                   outside));
        }
        const std::size_t index = command.offset / 4U;
        if (seen.test(index) && file.value(command.offset) != command.value && !is_table_access(command.offset)) {
            // Half-patched templates, where registers stand twice.
            findings.warn(command.offset, command.value, consequence::corrupts, source::measured,
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
        findings.refuse(command.offset, command.value, consequence::hangs, source::manual, why);
        return result;
    };
    const bool names_next = !is_padding(tail[0]);
    if (separator != Command{target::separator, 0, 0}) {
        return refuse(separator,
                      "wrong tail: the word before enable must be the separator (target 0x0041, all else 0)");
    }
    if (amount.target != target::pc || amount.offset != offset_pc_register_amounts) {
        return refuse(amount, "wrong tail: the second word must write PC.REGISTER_AMOUNTS");
    }
    if (names_next && (address.target != target::pc || address.offset != offset_pc_base_address)) {
        return refuse(address, "wrong tail: the first word must write PC.BASE_ADDRESS or be zero");
    }
    if (enable.offset != offset_enable) {
        return refuse(enable, "wrong tail: the enable word must have offset 0x0008");
    }
    if ((amount.value >> 16) != 0) {  // appears only in vendor multi-core programs, with a barrier task behind it
        findings.refuse(amount.offset, amount.value, consequence::not_understood, source::none,
                        "bits 31:16 belong to the vendor's multi-core co-work, which no source explains");
    }
    result.valid = true;
    result.names_next = names_next;
    result.next_address = names_next ? address.value : 0;
    result.next_amount = amount.value & 0xffffU;
    result.enable = enable.value;
    return result;
}

bool check_enable(std::uint32_t enable, const CheckInput& input, Findings& findings) {
    const auto refuse = [&](const char* consequence, const char* source, const char* why) {
        findings.refuse(offset_enable, enable, consequence, source, why);
        return false;
    };
    switch (enable) {
        case enable_convolution:
            if (input.mainline_driver) {  // DPU_RDMA resets to a reader that is enabled and never fed
                return refuse(
                    consequence::hangs, source::measured,
                    "the mainline driver needs DPU_RDMA programmed with its readers disabled, and enable 0x1d");
            }
            return true;
        case enable_convolution_rdma:
        case enable_element_wise: return true;
        case enable_pooling:
            if (input.mainline_driver && input.interrupt_mask != interrupt_ppu) {
                return refuse(consequence::hangs, source::kernel,
                              "the mainline driver completes on DPU interrupts only; pooling needs a patched driver, "
                              "which takes the mask 0xc00");
            }
            return true;
        case 0: return refuse(consequence::hangs, source::manual, "fires no block: no interrupt ever comes");
        default:
            return refuse(consequence::not_understood, source::none,
                          "not a known set of blocks; known: 0x0d and 0x1d (convolution), 0x18 (element-wise), 0x60 "
                          "(pooling)");
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
                if (command.value != pointer_alternates && command.value != pointer_returns) {
                    findings.refuse(pointer, command.value, consequence::not_understood, source::programs,
                                    "every program writes 0xe, which toggles the register group after each task, or "
                                    "0x30, which stays in group 0");
                } else if (!first) {
                    findings.refuse(pointer, command.value, consequence::not_understood, source::programs,
                                    "the pointer must be armed before the block's other writes, as in every program");
                }
                return;
            }
            first = false;
        }
        // Later tasks of a chain then repeat the first task's output.
        findings.refuse(pointer, 0, consequence::corrupts, source::measured,
                        "not written in this task: the block repeats what its old group says; write 0xe");
    };
    static constexpr struct {
        std::uint32_t bit;
        std::uint16_t target, pointer;
    } blocks[] = {{enable_bit::dpu, target::dpu, reg::DPU::S_POINTER::offset},
                  {enable_bit::dpu_rdma, target::dpu_rdma, reg::DPU_RDMA::S_POINTER::offset},
                  {enable_bit::ppu, target::ppu, reg::PPU::S_POINTER::offset},
                  {enable_bit::ppu_rdma, target::ppu_rdma, reg::PPU_RDMA::S_POINTER::offset}};
    for (const auto& entry : blocks) {
        if ((enable & entry.bit) != 0) {
            check(entry.target, entry.pointer);
        }
    }
}

}  // namespace npu::rockchip::check
