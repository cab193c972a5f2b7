// What the checker collects while it reads: the violations, and the register file of one core as the chain under
// check has written it. Internal to the checker.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rockchip/checker.h"
#include "rockchip/registers.h"

namespace npu::rockchip::check {

class Findings {
  public:
    void set_task(std::size_t task) { task_ = task; }
    [[nodiscard]] std::size_t task() const { return task_; }

    void refuse(std::uint16_t offset, std::uint32_t value, const char* consequence, const std::string& why) {
        add(Severity::refuse, offset, value, consequence, why);
    }
    void warn(std::uint16_t offset, std::uint32_t value, const char* consequence, const std::string& why) {
        add(Severity::warn, offset, value, consequence, why);
    }

    [[nodiscard]] std::size_t refusals() const { return refusals_; }
    std::vector<Violation> take() { return std::move(violations_); }

  private:
    void add(Severity severity, std::uint16_t offset, std::uint32_t value, const char* consequence,
             const std::string& why);

    std::size_t task_ = 0;
    std::size_t refusals_ = 0;
    std::vector<Violation> violations_;
};

// Two shadow groups per block. A write goes to the group that the block's pointer selects; firing a block hands
// that group to the executer and toggles the pointer (S_POINTER = 0xe). Register manual; persistence and toggling
// measured on hardware by two independent projects.
class RegisterFile {
  public:
    RegisterFile() : values_(2 * registers), written_(2 * registers, false) {}

    // Only for offsets of the register table that commands can reach (below 0x8000).
    void write(std::uint16_t offset, std::uint32_t value) {
        const std::size_t index = slot(offset);
        values_[index] = value;
        written_[index] = true;
    }
    // Whether this chain wrote the register in the group that is being written now.
    [[nodiscard]] bool written(std::uint16_t offset) const { return written_[slot(offset)]; }
    [[nodiscard]] std::uint32_t value(std::uint16_t offset) const { return values_[slot(offset)]; }
    [[nodiscard]] std::uint32_t of(const Field& field) const { return field.of(value(field.offset)); }

    // Toggles the pointers of the blocks in an enable value.
    void fire(std::uint32_t enable);

  private:
    static constexpr std::size_t registers = 0x8000 / 4;

    [[nodiscard]] std::size_t slot(std::uint16_t offset) const {
        const std::size_t group = pointer_[(offset >> 12) & 7U] ? 1 : 0;
        return group * registers + (offset & 0x7fffU) / 4;
    }

    std::bitset<8> pointer_;  // by block page: 1 CNA, 3 CORE, 4 DPU, 5 DPU_RDMA, 6 PPU, 7 PPU_RDMA
    std::vector<std::uint32_t> values_;
    std::vector<bool> written_;
};

}  // namespace npu::rockchip::check
