// The objects that jobs of one file can reach in one address domain, frozen: a job keeps them alive while it runs,
// whatever other threads destroy meanwhile.
#pragma once

#include <memory>
#include <vector>

#include "sim/buffer_object.h"
#include "sim/kernel_rknpu.h"
#include "sim/memory.h"

namespace npu::sim {

struct RknpuKernel::Snapshot {
    MappedMemory memory;
    std::vector<std::shared_ptr<BufferObject>> objects;
};

}  // namespace npu::sim
