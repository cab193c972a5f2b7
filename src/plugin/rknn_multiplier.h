// The engine over Rockchip's librknnrt. No device of ours is opened for it: the library finds the driver's node and talks to
// it, and two clients of one driver in one process would only share its memory and its cores.
//
// Weights lie in memory that the library allocates, tensor by tensor. ggml's buffer is a range of addresses without memory
// behind it; what was written is kept in host memory, whatever the type.
#pragma once

#include <memory>

#include "base/options.h"
#include "plugin/multiplier.h"
#include "plugin/statistics.h"

namespace npu::plugin {

// Opens the library that the options name. The statistics must outlive the result. Errors: invalid_argument for options that
// this engine cannot honour; those of gemm::RknnEngine::open; unsupported when the library computes neither fp16 nor int8.
Result<std::unique_ptr<Multiplier>> open_rknn_multiplier(const Options& options, Statistics& statistics);

}  // namespace npu::plugin
