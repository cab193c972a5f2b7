// From command words back to what they mean: which register of which block gets which value, and what its fields
// say. The names come from the register table alone, so a word that the table does not know is printed as unknown
// and never guessed at; no input makes the disassembler fail. One line a word:
//
//      6  0201001000501010  CNA.CONV_CON2 = 0x00000050  FEATURE_GRAINS=5
//    111  00810000000d0008  enable 0x0d: CNA CORE DPU
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rockchip/command.h"
#include "rockchip/registers.h"

namespace npu::rockchip {

// Words that do nothing: the all-zero word, and target 0x0001 with nothing else, which one generator ends tasks with.
constexpr bool is_padding(std::uint64_t word) { return word == 0 || word == std::uint64_t{0x0001} << 48; }

// "CNA.CBUF_CON0", or "unknown register 0x2010".
std::string register_label(std::uint16_t offset);

// The names of the blocks that an enable value fires: "CNA CORE DPU"; bits that name no block follow as
// "unknown bits 0x82". Empty for 0.
std::string enabled_blocks(std::uint32_t enable);

// The fields of a value that are not zero: "  WEIGHT_BANK=11  DATA_BANK=1". A field that is the whole register is
// left out, because it says nothing more.
std::string disassemble_fields(const RegisterInfo& info, std::uint32_t value);

// Bits of a value that lie in no field of the register.
std::uint32_t bits_outside_fields(const RegisterInfo& info, std::uint32_t value);

// One command without index and word: "CNA.CBUF_CON0 = 0x000000b1  WEIGHT_BANK=11 DATA_BANK=1". Fields that are
// zero are left out; `with_meaning` adds the register's meaning after a semicolon, where the table has one.
std::string disassemble_word(std::uint64_t word, bool with_meaning = false);

// Every word on a line of its own. `first_index` is the number of the first line.
std::string disassemble(std::span<const std::uint64_t> words, bool with_meaning = false, std::size_t first_index = 0);

// One task of a stream, found by its enable word. Tails are read, not followed: the stream is cut in memory order.
struct TaskView {
    std::size_t first = 0;                 // index of the task's first word in the stream
    std::span<const std::uint64_t> words;  // body and tail
    std::size_t body_words = 0;            // without the tail; all words when there is no valid tail
    bool has_tail = false;                 // the last four words are: next address or 0, amount, separator, enable
    bool chained = false;                  // the tail names a next task
    std::uint32_t next_address = 0;
    std::uint32_t next_amount = 0;
    std::uint32_t enable = 0;  // 0 when the stream ends without an enable word
};

// Cuts a stream after every enable word. Padding between tasks belongs to no task.
std::vector<TaskView> split_tasks(std::span<const std::uint64_t> words);

}  // namespace npu::rockchip
