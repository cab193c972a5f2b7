// A register command is a 64-bit word in memory: which block, which register, which value. The PC block
// fetches a list of them and applies each; a word for the pseudo-block `enable` starts the blocks it names.
//
//    63        48 47                    16 15         0
//   +------------+------------------------+------------+
//   | target 16  |        value 32        | offset 16  |
//   +------------+------------------------+------------+
//
// A task is a body of register writes followed by a four-word tail: address of the next task (or 0), fetch
// amount of the next task (or 0), a separator, the enable word. Amounts count 128-bit beats minus one.
// Source: register manual chapter 36; checked against every captured program in the test data.
#pragma once

#include <cstdint>

namespace npu::rockchip {

// Block selects of the target field.
namespace target {
inline constexpr std::uint16_t pc = 0x0101;
inline constexpr std::uint16_t cna = 0x0201;
inline constexpr std::uint16_t core = 0x0801;
inline constexpr std::uint16_t dpu = 0x1001;
inline constexpr std::uint16_t dpu_rdma = 0x2001;
inline constexpr std::uint16_t ppu = 0x4001;
inline constexpr std::uint16_t ppu_rdma = 0x8001;
inline constexpr std::uint16_t separator = 0x0041;  // must come right before enable; value and offset 0
inline constexpr std::uint16_t enable = 0x0081;     // offset 0x0008, value = enable bits
inline constexpr std::uint16_t none = 0x0000;       // the all-zero word is padding
}  // namespace target

// Bits of the enable word, laid out as the GLOBAL operation-enable register.
namespace enable_bit {
inline constexpr std::uint32_t cna = 1U << 0;
inline constexpr std::uint32_t core = 1U << 2;
inline constexpr std::uint32_t dpu = 1U << 3;
inline constexpr std::uint32_t dpu_rdma = 1U << 4;
inline constexpr std::uint32_t ppu = 1U << 5;
inline constexpr std::uint32_t ppu_rdma = 1U << 6;
}  // namespace enable_bit

// What a convolution or matmul fires on the vendor driver, and on the mainline driver (with DPU_RDMA).
inline constexpr std::uint32_t enable_convolution = enable_bit::cna | enable_bit::core | enable_bit::dpu;
inline constexpr std::uint32_t enable_convolution_rdma = enable_convolution | enable_bit::dpu_rdma;
inline constexpr std::uint32_t enable_element_wise = enable_bit::dpu | enable_bit::dpu_rdma;
inline constexpr std::uint32_t enable_pooling = enable_bit::ppu | enable_bit::ppu_rdma;

// Interrupt bits: one pair (register group 0 and 1) per block.
inline constexpr std::uint32_t interrupt_dpu = 0x300;
inline constexpr std::uint32_t interrupt_ppu = 0xc00;
inline constexpr std::uint32_t interrupt_clear_all = 0x1ffff;

inline constexpr std::uint32_t tail_words = 4;
inline constexpr std::uint16_t offset_enable = 0x0008;
inline constexpr std::uint16_t offset_pc_base_address = 0x0010;
inline constexpr std::uint16_t offset_pc_register_amounts = 0x0014;

// One decoded command.
struct Command {
    std::uint16_t target = 0;
    std::uint16_t offset = 0;
    std::uint32_t value = 0;
    friend constexpr bool operator==(const Command&, const Command&) = default;
};

constexpr std::uint64_t encode(Command command) {
    return (std::uint64_t{command.target} << 48) | (std::uint64_t{command.value} << 16) | command.offset;
}

constexpr Command decode(std::uint64_t word) {
    return Command{static_cast<std::uint16_t>(word >> 48), static_cast<std::uint16_t>(word),
                   static_cast<std::uint32_t>(word >> 16)};
}

// Value of the PC's amount register for a task of `words` words, tail included: 128-bit beats minus one.
constexpr std::uint32_t fetch_amount(std::uint32_t words) { return (words + 1) / 2 - 1; }

// Words that the PC fetches for an amount value.
constexpr std::uint32_t words_fetched(std::uint32_t amount) { return (amount + 1) * 2; }

}  // namespace npu::rockchip
