// The register table (registers.def) in two forms. As *data*, for the disassembler, the checker, the simulator
// and the documents: look a register up by offset and walk its fields. As *names*, for whoever writes or reads
// registers in code: `reg::CNA::DATA_SIZE0::DATAIN_WIDTH` is a field that knows its register, so a builder never
// writes a raw number and a value that does not fit is caught where it is made.
#pragma once

#include <cstdint>
#include <span>

namespace npu::rockchip {

enum class Block : std::uint8_t { PC, CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, DDMA, SDMA, GLOBAL };

const char* block_name(Block block);

// Target field of a command that writes to the block; 0 for blocks that commands cannot reach.
std::uint16_t block_target(Block block);

struct FieldInfo {
    const char* name;
    std::uint8_t high;
    std::uint8_t low;
    const char* meaning;
};

struct RegisterInfo {
    Block block;
    const char* name;
    std::uint16_t offset;
    const char* meaning;
    std::span<const FieldInfo> fields;  // as listed, high bits first within most registers
};

// Every register, in order of offset.
std::span<const RegisterInfo> register_table();

// nullptr when no such register is known.
const RegisterInfo* find_register(std::uint16_t offset);

// The field as something that reads and writes values of its register.
struct Field;
Field field_of(const RegisterInfo& info, const FieldInfo& field);

// A field value on its way into a register: fields of one register are joined with `|`.
struct RegisterValue {
    std::uint16_t offset;
    std::uint32_t value;
    const char* overflowed;  // name of the first field whose value did not fit, or nullptr
};

constexpr RegisterValue operator|(RegisterValue a, RegisterValue b) {
    return {a.offset, a.value | b.value,
            a.overflowed != nullptr ? a.overflowed
                                    : (a.offset == b.offset ? b.overflowed : "fields of two registers joined")};
}

struct Field {
    std::uint16_t offset;
    std::uint8_t high;
    std::uint8_t low;
    const char* name;

    [[nodiscard]] constexpr std::uint32_t maximum() const {
        return high - low == 31 ? 0xffffffffU : (1U << (high - low + 1)) - 1;
    }
    // The field's value, placed; too large a value is marked and refused by whoever builds the program.
    [[nodiscard]] constexpr RegisterValue operator()(std::uint64_t value) const {
        return {offset, (static_cast<std::uint32_t>(value) & maximum()) << low, value <= maximum() ? nullptr : name};
    }
    // A negative number in a field that the hardware reads as two's complement.
    [[nodiscard]] constexpr RegisterValue from_signed(std::int64_t value) const {
        const std::int64_t half = (static_cast<std::int64_t>(maximum()) + 1) / 2;
        return {offset, (static_cast<std::uint32_t>(value) & maximum()) << low,
                value >= -half && value < half ? nullptr : name};
    }
    // Reads the field out of a register's value.
    [[nodiscard]] constexpr std::uint32_t of(std::uint32_t register_value) const {
        return (register_value >> low) & maximum();
    }
};

namespace reg {

#define NPU_REGISTER(block, name, offset_, meaning_) \
    namespace block::name {                          \
    inline constexpr std::uint16_t offset = offset_; \
    }
#define NPU_FIELD(block, register_, name, high, low, meaning_)            \
    namespace block::register_ {                                          \
    inline constexpr Field name{offset, high, low, #register_ "." #name}; \
    }
#include "rockchip/registers.def"
#undef NPU_REGISTER
#undef NPU_FIELD

}  // namespace reg

}  // namespace npu::rockchip
