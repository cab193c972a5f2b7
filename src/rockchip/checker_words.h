// Rules about single words and about the shape of a task: known targets and registers, values that fit their
// fields, pointers armed, tail in order. Internal to the checker.
#pragma once

#include <cstdint>
#include <span>

#include "rockchip/checker_findings.h"

namespace npu::rockchip::check {

// Applies the words of one body to the register file, and checks each.
void apply_body(std::span<const std::uint64_t> body, RegisterFile& file, Findings& findings);

// What the four-word tail says.
struct Tail {
    bool valid = false;       // the four words are where the PC needs them
    bool names_next = false;  // an address is given
    std::uint32_t next_address = 0;
    std::uint32_t next_amount = 0;
    std::uint32_t enable = 0;
};

Tail read_tail(std::span<const std::uint64_t> tail, Findings& findings);

// Whether the blocks that fire form an operation that is understood, and that the driver of `input` completes.
bool check_enable(std::uint32_t enable, const CheckInput& input, Findings& findings);

// The blocks whose pointers a command list must arm (DPU, DPU_RDMA, PPU, PPU_RDMA) must be armed in this body, before
// their other writes.
void check_pointers(std::span<const std::uint64_t> body, std::uint32_t enable, Findings& findings);

}  // namespace npu::rockchip::check
