#include "sim/rv1106.h"

namespace npu::sim {

namespace {

std::uint64_t mix(std::uint64_t state) {
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
    return state ^ (state >> 31);
}

// Target of a command for that offset, from the published programs; 0 where none writes.
std::uint16_t target_of(std::uint16_t offset) {
    switch (offset >> 12) {
        case 1: return rockchip::target::cna;
        case 3: return rockchip::target::core;
        case 4: return rockchip::target::dpu;
        case 5: return rockchip::target::dpu_rdma;
        case 8: return 0x0401;  // a block that no source names: 0x8028 and 0x802c
        default: return 0;
    }
}

}  // namespace

void Rv1106Registers::poison(std::uint64_t seed) {
    seed_ = seed;
    written_.clear();
}

std::uint32_t Rv1106Registers::value(std::uint16_t offset) const {
    const auto found = written_.find(offset);
    return found != written_.end() ? found->second
                                   : static_cast<std::uint32_t>(mix((seed_ << 16 | offset) + 0x9e3779b97f4a7c15U));
}

void Rv1106Registers::apply(const rockchip::Command& command, Judge& judge) {
    const std::uint16_t target = target_of(command.offset);
    if (target == 0 || target != command.target) {
        judge.refuse(
            Severity::unmodelled,
            "command for target 0x%04x, register 0x%04x, value 0x%08x: no published program of this chip writes "
            "there",
            command.target, command.offset, command.value);
        return;
    }
    write(command.offset, command.value);
}

}  // namespace npu::sim
