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

    // `consequence` and `source` are constants of checker.h.
    void refuse(std::uint16_t offset, std::uint32_t value, const char* consequence, const char* source,
                const std::string& why) {
        add(Severity::refuse, offset, value, consequence, source, why);
    }
    void warn(std::uint16_t offset, std::uint32_t value, const char* consequence, const char* source,
              const std::string& why) {
        add(Severity::warn, offset, value, consequence, source, why);
    }

    [[nodiscard]] std::size_t refusals() const { return refusals_; }
    std::vector<Violation> take() { return std::move(violations_); }

  private:
    void add(Severity severity, std::uint16_t offset, std::uint32_t value, const char* consequence, const char* source,
             const std::string& why);

    std::size_t task_ = 0;
    std::size_t refusals_ = 0;
    std::vector<Violation> violations_;
};

// Two shadow groups per block. A write goes to the group that the block's pointer selects; firing a block hands
// that group to the executer and, while the pointer alternates (S_POINTER = 0xe), toggles it. S_POINTER = 0x30 returns
// to group 0 and stays there, as vendor programs with lookup tables do. Register manual; persistence and toggling
// measured on hardware by two independent projects. The groups begin alternating, because the kernel drivers arm CNA
// and CORE and a task must arm the others itself.
//
// Also counts what the chain has loaded into the lookup tables, which are memory behind two registers.
class RegisterFile {
  public:
    RegisterFile() : values_(2 * registers), written_(2 * registers, false) {}

    // Only for offsets of the register table that commands can reach (below 0x8000).
    void write(std::uint16_t offset, std::uint32_t value);
    // Whether this chain wrote the register in the group that is being written now.
    [[nodiscard]] bool written(std::uint16_t offset) const { return written_[slot(offset)]; }
    [[nodiscard]] std::uint32_t value(std::uint16_t offset) const { return values_[slot(offset)]; }
    [[nodiscard]] std::uint32_t of(const Field& field) const { return field.of(value(field.offset)); }

    // Toggles the alternating pointers of the blocks in an enable value.
    void fire(std::uint32_t enable);

    // Entries that this chain has loaded into table 0 (LE) or 1 (LO).
    [[nodiscard]] std::uint32_t table_entries(std::size_t table) const { return table_entries_[table]; }

  private:
    static constexpr std::size_t registers = 0x8000 / 4;

    [[nodiscard]] std::size_t slot(std::uint16_t offset) const {
        const std::size_t group = pointer_[(offset >> 12) & 7U] ? 1 : 0;
        return group * registers + (offset & 0x7fffU) / 4;
    }
    void set_pointer(std::size_t page, std::uint32_t value);

    std::bitset<8> pointer_;  // by block page: 1 CNA, 3 CORE, 4 DPU, 5 DPU_RDMA, 6 PPU, 7 PPU_RDMA
    std::bitset<8> fixed_;    // the pointer does not alternate
    std::array<std::uint32_t, 2> table_entries_{};
    std::size_t table_ = 0;         // being loaded
    std::uint32_t table_next_ = 0;  // entry that the next write goes to
    bool table_write_ = false;      // access type is write
    std::vector<std::uint32_t> values_;
    std::vector<bool> written_;
};

// What rules about one task read registers with and report through.
class Reader {
  public:
    Reader(const RegisterFile& file, std::uint32_t enable, const ChipProfile& chip, Findings& findings)
        : chip(chip), file(file), findings(findings), enable_(enable) {}

    [[nodiscard]] std::uint32_t of(const Field& field) const { return file.of(field); }
    [[nodiscard]] bool is_set(const Field& field) const { return file.of(field) != 0; }
    [[nodiscard]] std::uint32_t value(std::uint16_t offset) const { return file.value(offset); }
    [[nodiscard]] bool fires(std::uint32_t block) const { return (enable_ & block) != 0; }

    void refuse(const Field& field, const char* consequence, const char* source, const std::string& why) const {
        findings.refuse(field.offset, value(field.offset), consequence, source, why);
    }
    void warn(const Field& field, const char* consequence, const char* source, const std::string& why) const {
        findings.warn(field.offset, value(field.offset), consequence, source, why);
    }
    // Two registers say the same thing; this one must say `expected`, which `what` names.
    bool agree(const Field& field, std::uint64_t expected, const char* what) const;
    // The field is 0 in every program; anything else means something that no source explains.
    bool unexplained(const Field& field, const char* what) const;

    const ChipProfile& chip;
    const RegisterFile& file;
    Findings& findings;

  private:
    std::uint32_t enable_;
};

}  // namespace npu::rockchip::check
