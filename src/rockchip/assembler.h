// From text to command words: the inverse of the disassembler, for programs that are written or changed by hand.
// One line is one instruction; `#` and `;` begin a comment; names may be written in any case; numbers are decimal or
// 0x hexadecimal, and may be negative where the register or field is read as two's complement.
//
//    CNA.CBUF_CON0 = 0xb1                        a register and its value
//    CNA.CBUF_CON0 WEIGHT_BANK=11 DATA_BANK=1    the same by fields; fields not named are 0
//    CNA.CBUF_CON0 = 0xb1 WEIGHT_BANK=11         both: they must agree
//    0x1040 = 0xb1                               a register by offset; the target follows from its block
//    next 0x1000 amount 55                       first two words of a tail: where the next task lies, and its amount
//    last                                        the same for the last task: no address, amount 0
//    separator                                   third word of a tail
//    enable 0x0d                                 fourth word; or the blocks: enable CNA CORE DPU
//    nop                                         the all-zero word
//    .word 0x0201000000b11040                    any word at all
//
// Everything that `disassemble_word` prints for a word it fully understands is an instruction too. A name that is not
// known is answered with the nearest one, a value that does not fit with the bound of its field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace npu::rockchip {

// The words of one line: none for an empty line or a comment, two for `next` and `last`, else one. Pure; thread-safe.
Result<std::vector<std::uint64_t>> assemble_line(std::string_view line);

// A line that assembles to exactly this word, whatever the word is.
std::string assembly_text(std::uint64_t word);

}  // namespace npu::rockchip
