// `npu registers`: the register table as a page to read. docs/registers.md is what it prints.
#include <algorithm>
#include <string>
#include <vector>

#include "commands.h"
#include "program_file.h"
#include "rockchip/command.h"
#include "rockchip/registers.h"

namespace npu::tools {

namespace {

using rockchip::Block;
using rockchip::FieldInfo;
using rockchip::RegisterInfo;

constexpr const char* introduction = R"(# Registers of the RK3588 NPU

This page is printed by `npu registers` from the register table (`src/rockchip/registers.def`); do not edit it.

## How to read it

A core of the NPU consists of blocks, and each block has a page of registers. A *command program* is a list of 64-bit
words, each of which writes one register: bits 63:48 name the *target* (the block), bits 47:16 are the *value*, bits 15:0
the *offset* of the register. `npu disasm` prints a program in the names of this page, and `npu asm` reads them back:

    CNA.CBUF_CON0 = 0x000000b1  WEIGHT_BANK=11  DATA_BANK=1

is the word `0x0201000000b11040`: target `0x0201` is CNA, offset `0x1040` is CBUF_CON0, and of its value `0xb1` bits 7:4
are WEIGHT_BANK and bits 3:0 DATA_BANK.

| column | what it says |
|---|---|
| offset | inside a core's window of 64 KiB; the same in the word and for the CPU |
| register | name; **bold**. The line tells what the register is for |
| bits | of the field in the register, highest first; bits that no line names are 0 in every program |
| field | name |
| meaning | what the value says. "Minus one" means that the register holds one less |

Registers that repeat stand once, with all their offsets. *Not explained* says that no source tells more than the name.
What is called **UNKNOWN** has no name in any source: somebody writes it, and the meaning says who writes what. Sizes in
*atoms* count 16 bytes. Sources are the register manual, both kernel drivers, captured programs, programs of generators
that ran on hardware, and published measurements; where they disagree the more specific one stands here.

Most blocks hold two *groups* of their registers. While one group is being executed, writes go to the other; S_POINTER
says how the two alternate. A register that a task does not write keeps the value that the task before the last one left
in its group, whoever submitted that.
)";

struct Chapter {
    Block block;
    const char* about;
};

constexpr Chapter chapters[] = {
    {Block::PC,
     "Fetches command programs and counts tasks. The drivers write it; a program writes only BASE_ADDRESS and "
     "REGISTER_AMOUNTS, in the first two words of a task's tail."},
    {Block::CNA, "Reads features and weights into the on-chip buffer and feeds the array."},
    {Block::CORE, "The array of multipliers and its accumulators."},
    {Block::DPU,
     "Takes the sums of the array, or a tensor from memory, through the stages weight zero point (CPEND), BS, "
     "BN, EW with lookup tables (LUT) and output converter, and writes the result."},
    {Block::DPU_RDMA,
     "Reads operands for the DPU: MRDMA the main one, BRDMA and NRDMA those per channel for BS and BN, "
     "ERDMA the one of EW."},
    {Block::PPU, "Pooling."},
    {Block::PPU_RDMA, "Reads the input of the PPU."},
    {Block::DDMA, "Traffic to memory. The CPU alone reaches it, and no program needs it."},
    {Block::SDMA, "Traffic to on-chip memory. The CPU alone reaches it, and no program needs it."},
    {Block::GLOBAL,
     "Starts blocks together. The CPU alone reaches it; the enable word of a program (target `0x0081`, offset "
     "`0x0008`) carries the same bits."},
};

std::string bits_text(const FieldInfo& field) {
    return field.high == field.low ? format("%u", field.high) : format("%u:%u", field.high, field.low);
}

bool same_fields(const RegisterInfo& a, const RegisterInfo& b) {
    return std::ranges::equal(a.fields, b.fields, [](const FieldInfo& x, const FieldInfo& y) {
        return x.high == y.high && x.low == y.low && std::string_view(x.name) == y.name &&
               std::string_view(x.meaning) == y.meaning;
    });
}

std::string_view without_number(std::string_view name) {
    return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

// DCOMP_AMOUNT0 and DCOMP_AMOUNT1: one after the other, alike but for the numbers at the end of their names.
bool numbered_alike(const RegisterInfo& a, const RegisterInfo& b) {
    return b.offset == a.offset + 4 && without_number(a.name) == without_number(b.name) &&
           std::string_view(a.name) != without_number(a.name) &&
           std::ranges::equal(a.fields, b.fields, [](const FieldInfo& x, const FieldInfo& y) {
               return x.high == y.high && x.low == y.low && std::string_view(x.meaning) == y.meaning &&
                      without_number(x.name) == without_number(y.name);
           });
}

std::string field_lines(const RegisterInfo& first, const RegisterInfo& last) {
    std::string text;
    for (std::size_t i = 0; i < first.fields.size(); ++i) {
        const FieldInfo& field = first.fields[i];
        std::string name = field.name;
        if (name != last.fields[i].name) {
            name += std::string(" … ") + last.fields[i].name;
        }
        text += format("| | | %s | %s | %s |\n", bits_text(field).c_str(), name.c_str(), field.meaning);
    }
    return text;
}

std::string register_line(const std::string& offset, const std::string& name, const char* meaning) {
    return format("| %s | **%s** | | | %s |\n", offset.c_str(), name.c_str(), meaning);
}

constexpr const char* table_head = "| offset | register | bits | field | meaning |\n|---|---|---|---|---|\n";

// The lines of registers in order of offset.
std::string table(const std::vector<const RegisterInfo*>& registers) {
    std::string text = table_head;
    for (std::size_t i = 0; i < registers.size();) {
        const RegisterInfo& first = *registers[i];
        std::size_t end = i + 1;
        while (end < registers.size() && numbered_alike(*registers[end - 1], *registers[end])) {
            ++end;
        }
        if (end > i + 1) {
            const RegisterInfo& last = *registers[end - 1];
            const bool same_meaning = std::string_view(first.meaning) == last.meaning;
            text += register_line(
                format("`0x%04x` … `0x%04x`", first.offset, last.offset),
                std::string(first.name) + "** … **" + last.name,
                same_meaning ? first.meaning : (std::string(first.meaning) + " … " + last.meaning).c_str());
            text += field_lines(first, last);
            i = end;
            continue;
        }
        while (end < registers.size() && same_fields(first, *registers[end])) {
            ++end;
        }
        for (; i < end; ++i) {
            text += register_line(format("`0x%04x`", registers[i]->offset), registers[i]->name, registers[i]->meaning);
        }
        text += field_lines(first, first);
    }
    return text;
}

std::vector<const RegisterInfo*> registers_of(Block block) {
    std::vector<const RegisterInfo*> registers;
    for (const RegisterInfo& entry : rockchip::register_table()) {
        if (entry.block == block) {
            registers.push_back(&entry);
        }
    }
    return registers;
}

// Status, pointer and enable are the same in six blocks; described once, they are left out of each block where they
// are exactly that.
bool common(const RegisterInfo& entry) {
    const std::uint16_t place = entry.offset & 0xfffU;
    const bool in_group_block = entry.offset >= 0x1000 && entry.offset < 0x8000;
    const RegisterInfo* model = rockchip::find_register(static_cast<std::uint16_t>(0x4000 + place));
    return in_group_block && place <= 0x008 && model != nullptr && same_fields(entry, *model) &&
           std::string_view(entry.meaning) == model->meaning;
}

std::string common_chapter() {
    std::string text =
        "\n## Status, pointer and enable\n\nAt the head of each of the pages CNA `0x1000`, CORE `0x3000`, "
        "DPU `0x4000`, DPU_RDMA `0x5000`, PPU `0x6000` and PPU_RDMA `0x7000`; the offsets here are those of "
        "the DPU. CNA and CORE have one field more and are listed with their blocks.\n\n";
    std::vector<const RegisterInfo*> registers = registers_of(Block::DPU);
    std::erase_if(registers, [](const RegisterInfo* entry) { return (entry->offset & 0xfffU) > 0x008; });
    return text + table(registers);
}

// Two blocks whose registers are alike at the same places.
bool alike(const std::vector<const RegisterInfo*>& a, const std::vector<const RegisterInfo*>& b) {
    return std::ranges::equal(a, b, [](const RegisterInfo* x, const RegisterInfo* y) {
        return (x->offset & 0xfffU) == (y->offset & 0xfffU) && std::string_view(x->name) == y->name &&
               same_fields(*x, *y);
    });
}

std::string chapter_text(const Chapter& chapter, const Chapter* previous) {
    std::vector<const RegisterInfo*> registers = registers_of(chapter.block);
    const unsigned page = registers.front()->offset & 0xf000U;
    std::string text = format("\n## %s: `0x%04x`", rockchip::block_name(chapter.block), page);
    if (const std::uint16_t target = rockchip::block_target(chapter.block); target != rockchip::target::none) {
        text += format(", target `0x%04x`", target);
    }
    text += std::string("\n\n") + chapter.about + "\n\n";
    if (previous != nullptr && alike(registers, registers_of(previous->block))) {
        return text +
               format("The registers are those of %s, `0x1000` further on.\n", rockchip::block_name(previous->block));
    }
    std::erase_if(registers, [](const RegisterInfo* entry) { return common(*entry); });
    return text + table(registers);
}

std::string page() {
    std::string text = introduction;
    text += common_chapter();
    for (std::size_t i = 0; i < std::size(chapters); ++i) {
        text += chapter_text(chapters[i], i == 0 ? nullptr : &chapters[i - 1]);
    }
    return text;
}

}  // namespace

void add_registers(CLI::App& program) {
    CLI::App* command = program.add_subcommand("registers", "Prints every register and field of the NPU as Markdown");
    command->footer("docs/registers.md is this output: npu registers > docs/registers.md");
    command->callback([] {
        if (const Result<void> written = write_file("-", page()); !written) {
            fail(written.error().message);
        }
    });
}

}  // namespace npu::tools
