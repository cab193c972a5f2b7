// Small vocabulary for reading registers and judging what they hold in one go. Used by the readers of each block.
#pragma once

#include "rockchip/registers.h"
#include "sim/finding.h"
#include "sim/register_state.h"

namespace npu::sim {

class RegisterCheck {
  public:
    RegisterCheck(RegisterReader& reader, Judge& judge) : read(reader), judge(judge) {}

    // The whole register must hold `wanted`.
    void expect(std::uint16_t offset, std::uint32_t wanted, Severity severity, const char* why) {
        const std::uint32_t value = read(offset);
        if (value != wanted) {
            judge.refuse_register(severity, offset, value, "must be 0x%x: %s", wanted, why);
        }
    }

    // The bits outside `known` must be zero. Returns the register.
    std::uint32_t only(std::uint16_t offset, std::uint32_t known, const char* why) {
        const std::uint32_t value = read(offset);
        if ((value & ~known) != 0) {
            judge.refuse_register(Severity::hang, offset, value, "bits 0x%x must be 0: %s", value & ~known, why);
        }
        return value;
    }

    RegisterReader& read;
    Judge& judge;
};

}  // namespace npu::sim
