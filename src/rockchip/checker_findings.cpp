#include "rockchip/checker_findings.h"

#include "base/result.h"

namespace npu::rockchip::check {

namespace {

std::string register_label(std::uint16_t offset) {
    const RegisterInfo* info = find_register(offset);
    return info != nullptr ? format("%s.%s", block_name(info->block), info->name)
                           : format("unknown register 0x%04x", offset);
}

}  // namespace

void Findings::add(Severity severity, std::uint16_t offset, std::uint32_t value, const char* consequence,
                   const std::string& why) {
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
    violation.message = format("task %zu: %s = 0x%08x: %s (%s)", task_, register_label(offset).c_str(), value,
                               why.c_str(), consequence);
    violations_.push_back(std::move(violation));
}

void RegisterFile::fire(std::uint32_t enable) {
    struct Page {
        std::uint32_t bit;
        std::size_t page;
    };
    static constexpr Page pages[] = {{enable_bit::cna, 1},      {enable_bit::core, 3}, {enable_bit::dpu, 4},
                                     {enable_bit::dpu_rdma, 5}, {enable_bit::ppu, 6},  {enable_bit::ppu_rdma, 7}};
    for (const Page& entry : pages) {
        if ((enable & entry.bit) != 0) {
            pointer_.flip(entry.page);
        }
    }
}

}  // namespace npu::rockchip::check
