// The engine whose programs are ours, on a driver's node or on the simulated NPU.
#pragma once

#include <memory>

#include "gemm/engine.h"
#include "gemm/pack_cache.h"
#include "plugin/multiplier.h"
#include "plugin/statistics.h"
#include "uapi/syscalls.h"

namespace npu::plugin {

// `simulated_kernel` is what the device was opened on, when that is not the C library's; it lives as long as the device. Without a
// cache (nullptr) weights are converted whenever they are loaded. The statistics must outlive the result.
std::unique_ptr<Multiplier> make_native_multiplier(std::unique_ptr<uapi::Syscalls> simulated_kernel,
                                                   std::unique_ptr<device::Device> device,
                                                   const gemm::EngineOptions& options,
                                                   std::unique_ptr<gemm::PackCache> cache, Statistics& statistics);

}  // namespace npu::plugin
