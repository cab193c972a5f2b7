// How much memory the host has. The NPU has none of its own: its buffers are host pages, so this bounds them.
#pragma once

#include "device/device.h"

namespace npu::device {

// Bytes of RAM, and bytes that could be allocated now without swapping (MemAvailable). Zeros when /proc is absent.
MemoryInfo host_memory();

}  // namespace npu::device
