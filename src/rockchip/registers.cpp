#include "rockchip/registers.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "rockchip/command.h"

namespace npu::rockchip {

namespace {

struct FieldRow {
    Block block;
    std::string_view register_name;
    FieldInfo info;
};

constexpr FieldRow field_rows[] = {
#define NPU_REGISTER(block, name, offset, meaning)
#define NPU_FIELD(block, register_, name, high, low, meaning) {Block::block, #register_, {#name, high, low, meaning}},
#include "rockchip/registers.def"
#undef NPU_REGISTER
#undef NPU_FIELD
};

constexpr RegisterInfo register_rows[] = {
#define NPU_REGISTER(block, name, offset, meaning) {Block::block, #name, offset, meaning, {}},
#define NPU_FIELD(block, register_, name, high, low, meaning)
#include "rockchip/registers.def"
#undef NPU_REGISTER
#undef NPU_FIELD
};

struct Table {
    std::vector<FieldInfo> fields;
    std::vector<RegisterInfo> registers;

    Table() : registers(std::begin(register_rows), std::end(register_rows)) {
        fields.reserve(std::size(field_rows));  // spans below point into it
        std::size_t next = 0;
        for (RegisterInfo& entry : registers) {  // fields follow their register in the table
            const std::size_t first = next;
            while (next < std::size(field_rows) && field_rows[next].block == entry.block &&
                   field_rows[next].register_name == entry.name) {
                fields.push_back(field_rows[next++].info);
            }
            entry.fields = std::span(fields).subspan(first, next - first);
        }
        std::ranges::sort(registers, {}, &RegisterInfo::offset);
    }
};

const Table& table() {
    static const Table instance;
    return instance;
}

}  // namespace

const char* block_name(Block block) {
    static constexpr const char* names[] = {"PC",  "CNA",      "CORE", "DPU",  "DPU_RDMA",
                                            "PPU", "PPU_RDMA", "DDMA", "SDMA", "GLOBAL"};
    return names[static_cast<std::size_t>(block)];
}

std::uint16_t block_target(Block block) {
    switch (block) {
        case Block::PC: return target::pc;
        case Block::CNA: return target::cna;
        case Block::CORE: return target::core;
        case Block::DPU: return target::dpu;
        case Block::DPU_RDMA: return target::dpu_rdma;
        case Block::PPU: return target::ppu;
        case Block::PPU_RDMA: return target::ppu_rdma;
        default: return target::none;
    }
}

std::span<const RegisterInfo> register_table() { return table().registers; }

const RegisterInfo* find_register(std::uint16_t offset) {
    const auto& registers = table().registers;
    const auto found = std::ranges::lower_bound(registers, offset, {}, &RegisterInfo::offset);
    return found != registers.end() && found->offset == offset ? &*found : nullptr;
}

Field field_of(const RegisterInfo& info, const FieldInfo& field) {
    return {info.offset, field.high, field.low, field.name};
}

}  // namespace npu::rockchip
