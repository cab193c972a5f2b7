#include "rockchip/checker_findings.h"

#include <algorithm>

#include "base/result.h"
#include "rockchip/disassembler.h"

namespace npu::rockchip::check {

void Findings::add(Severity severity, std::uint16_t offset, std::uint32_t value, const char* consequence,
                   const char* source, const std::string& why) {
    const bool first_refusal = severity == Severity::refuse && refusals_++ == 0;
    if (violations_.size() >= violation_limit && !first_refusal) {
        return;
    }
    Violation violation;
    violation.severity = severity;
    violation.task = task_;
    violation.offset = offset;
    violation.value = value;
    violation.consequence = consequence;
    violation.source = source;
    violation.message = format("task %zu: %s = 0x%08x: %s (%s; source: %s)", task_, register_label(offset).c_str(),
                               value, why.c_str(), consequence, source);
    violations_.push_back(std::move(violation));
}

void RegisterFile::write(std::uint16_t offset, std::uint32_t value) {
    const std::size_t index = slot(offset);
    values_[index] = value;
    written_[index] = true;
    if ((offset & 0xfffU) == 0x004) {
        set_pointer(offset >> 12, value);
    } else if (offset == reg::DPU::LUT_ACCESS_CFG::offset) {
        table_write_ = reg::DPU::LUT_ACCESS_CFG::LUT_ACCESS_TYPE.of(value) != 0;
        table_ = reg::DPU::LUT_ACCESS_CFG::LUT_TABLE_ID.of(value);
        table_next_ = reg::DPU::LUT_ACCESS_CFG::LUT_ADDR.of(value);
    } else if (offset == reg::DPU::LUT_ACCESS_DATA::offset && table_write_) {
        table_entries_[table_] = std::max(table_entries_[table_], ++table_next_);
    }
}

void RegisterFile::set_pointer(std::size_t page, std::uint32_t value) {
    namespace pointer = reg::DPU::S_POINTER;  // the same in every block
    fixed_[page] = pointer::POINTER_PP_EN.of(value) == 0;
    if (pointer::POINTER_PP_CLEAR.of(value) != 0) {
        pointer_[page] = false;
    } else if (fixed_[page]) {
        pointer_[page] = pointer::POINTER.of(value) != 0;
    }
}

void RegisterFile::fire(std::uint32_t enable) {
    struct Page {
        std::uint32_t bit;
        std::size_t page;
    };
    static constexpr Page pages[] = {{enable_bit::cna, 1},      {enable_bit::core, 3}, {enable_bit::dpu, 4},
                                     {enable_bit::dpu_rdma, 5}, {enable_bit::ppu, 6},  {enable_bit::ppu_rdma, 7}};
    for (const Page& entry : pages) {
        if ((enable & entry.bit) != 0 && !fixed_[entry.page]) {
            pointer_.flip(entry.page);
        }
    }
}

bool Reader::agree(const Field& field, std::uint64_t expected, const char* what) const {
    const std::uint32_t found = of(field);
    if (found == expected) {
        return true;
    }
    refuse(field, consequence::corrupts, source::programs,
           format("%s is %u; %s is %llu by the task's other registers", field.name, found, what,
                  static_cast<unsigned long long>(expected)));
    return false;
}

bool Reader::unexplained(const Field& field, const char* what) const {
    if (!is_set(field)) {
        return false;
    }
    refuse(field, consequence::not_understood, source::none, format("%s is %u: %s", field.name, of(field), what));
    return true;
}

}  // namespace npu::rockchip::check
