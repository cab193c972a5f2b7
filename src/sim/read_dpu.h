// Shared by the readers of the DPU's registers: read_dpu.cpp (mode, formats, size), read_dpu_stages.cpp (OW, BS, BN),
// read_dpu_element_wise.cpp (EW, look-up tables), read_dpu_rdma.cpp (what DMA brings) and read_dpu_output.cpp (converter,
// writer). They run in this order. A register that does not influence the task is not read, so that a program need not
// write it; one that does and whose value no source explains is refused, never guessed.
#pragma once

#include <cstdint>

#include "rockchip/command.h"
#include "sim/convolution.h"
#include "sim/dpu_task.h"

namespace npu::sim {

struct DpuReading {
    RegisterCheck& check;
    std::uint32_t enable;
    const Convolution* feed;  // nullptr in flying mode
    DpuTask& task;

    [[nodiscard]] bool has_rdma() const { return (enable & rockchip::enable_bit::dpu_rdma) != 0; }

    void refuse(Severity severity, std::uint16_t offset, const char* text) const {
        check.judge.refuse_register(severity, offset, check.read(offset), "%s", text);
    }
    // Refuses bits of `value` that are set in `mask` and that no source explains. Returns true when there were any.
    bool unexplained(std::uint16_t offset, std::uint32_t value, std::uint32_t mask, const char* what) const {
        if ((value & mask) == 0) {
            return false;
        }
        check.judge.refuse_register(Severity::unmodelled, offset, value,
                                    "bits 0x%x (%s) are not explained by any source", value & mask, what);
        return true;
    }
    // A register that is 0 in nearly every program and that published hardware-tested programs leave unwritten, living on its
    // value after reset. Never written it counts as 0, with a warning: silicon would use what an earlier client left.
    [[nodiscard]] std::uint32_t zero_if_unwritten(std::uint16_t offset) const;

    // An address or a stride in bytes. The low four bits have no meaning in hardware.
    std::uint64_t multiple_of_16(std::uint16_t offset) const { return multiple_of_16(offset, check.read(offset)); }
    std::uint64_t multiple_of_16(std::uint16_t offset, std::uint32_t value) const {
        if (value % rockchip::atom_bytes != 0) {
            check.judge.refuse_register(Severity::hang, offset, value,
                                        "addresses and strides are multiples of 16 bytes (register manual)");
        }
        return value & ~(rockchip::atom_bytes - 1);
    }
};

void read_dpu_stages(const DpuReading& reading);
void read_dpu_element_wise(const DpuReading& reading);
void read_dpu_rdma(const DpuReading& reading);
void read_dpu_output(const DpuReading& reading);

}  // namespace npu::sim
