// What all tasks write alike to the DPU and its operand readers (DPU_RDMA): the pointers of their register groups, and the
// scaling stages between the array and the writer (BS and BN) switched off. Internal to this room.
#pragma once

#include "compile/writer.h"

namespace npu::compile {

// Both halves of a register group toggle after each task.
void write_pointers(CommandWriter& writer, bool operand_readers);

void write_bypassed_bs(CommandWriter& writer);
void write_bypassed_bn(CommandWriter& writer);

// What follows the output converter, to the last register of the DPU: zero, but for the stride from one kernel group's results
// to the next, in atoms.
void write_end_of_dpu(CommandWriter& writer, std::int64_t group_stride);

}  // namespace npu::compile
