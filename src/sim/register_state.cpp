#include "sim/register_state.h"

#include <algorithm>
#include <cassert>

namespace npu::sim {

namespace {

constexpr std::uint16_t s_pointer_low = 0x004;
// Fields of S_POINTER, the same in every block.
constexpr std::uint32_t s_pointer_group = 0x1;
constexpr std::uint32_t s_pointer_alternates = 0x2;
constexpr std::uint32_t s_executer_alternates = 0x4;
constexpr std::uint32_t s_pointer_clear = 0x10;
constexpr std::uint32_t s_executer_clear = 0x20;
constexpr std::uint32_t s_pointer_ping_pong = 0xe;

std::uint64_t split_mix(std::uint64_t& state) {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31);
}

}  // namespace

void BlockRegisters::poison(std::uint64_t seed) {
    for (auto& group : groups_) {
        for (std::uint32_t& value : group) {
            value = static_cast<std::uint32_t>(split_mix(seed));
        }
    }
    written_ = {};
    pointer_ = 0;
    executer_ = 0;
    armed_ = false;
    s_pointer_ = 0;
}

void BlockRegisters::write(std::uint16_t offset, std::uint32_t value) {
    if ((offset & 0xfffU) == s_pointer_low) {
        s_pointer_ = value;
        armed_ = true;
        if ((value & s_pointer_clear) != 0) {
            pointer_ = 0;
        } else if ((value & s_pointer_alternates) == 0) {
            pointer_ = value & s_pointer_group;
        }
        if ((value & s_executer_clear) != 0) {
            executer_ = 0;
        }
        return;
    }
    assert(index(offset) < count);
    groups_[pointer_][index(offset)] = value;
    written_[pointer_].set(index(offset));
}

void BlockRegisters::started() {
    pointer_ ^= (s_pointer_ & s_pointer_alternates) != 0 ? 1U : 0U;
    executer_ ^= (s_pointer_ & s_executer_alternates) != 0 ? 1U : 0U;
    armed_ = false;
}

void RegisterState::poison(std::uint64_t seed) {
    for (BlockRegisters& block : blocks_) {
        block.poison(split_mix(seed));
    }
}

void RegisterState::armed_by_kernel(unsigned core) {
    const std::uint32_t value = s_pointer_ping_pong + 0x10000000U * core;
    block(rockchip::Block::CNA).write(rockchip::reg::CNA::S_POINTER::offset, value);
    block(rockchip::Block::CORE).write(rockchip::reg::CORE::S_POINTER::offset, value);
}

BlockRegisters& RegisterState::block(rockchip::Block block) {
    const auto number = static_cast<std::size_t>(block) - static_cast<std::size_t>(rockchip::Block::CNA);
    assert(number < blocks_.size());
    return blocks_[number];
}

const BlockRegisters& RegisterState::block(rockchip::Block block) const {
    return const_cast<RegisterState*>(this)->block(block);
}

rockchip::Block block_of(std::uint16_t offset) {
    switch (offset >> 12) {
        case 1: return rockchip::Block::CNA;
        case 3: return rockchip::Block::CORE;
        case 4: return rockchip::Block::DPU;
        case 5: return rockchip::Block::DPU_RDMA;
        case 6: return rockchip::Block::PPU;
        case 7: return rockchip::Block::PPU_RDMA;
        default: return rockchip::Block::PC;
    }
}

std::uint32_t RegisterReader::operator()(std::uint16_t offset) {
    const BlockRegisters& block = state_.block(block_of(offset));
    if (block.written(offset)) {
        return block.value(offset);
    }
    if (std::ranges::find(missing_, offset) == missing_.end()) {
        missing_.push_back(offset);
    }
    return mode_ == Mode::lenient ? 0 : block.value(offset);
}

}  // namespace npu::sim
