// What a started PPU + PPU_RDMA is asked to do, read from the registers.
#pragma once

#include "sim/register_check.h"

namespace npu::sim {

struct Pooling {};

Pooling read_pooling(RegisterCheck& check);

}  // namespace npu::sim
