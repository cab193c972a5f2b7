// NPU_REPACK, the buffer type that holds weights. It is offered to llama.cpp as an *extra* buffer type of the device:
// the loader probes for each weight which memory suits its operation, and for a matmul that the NPU can do the answer
// is this one. Writing a tensor converts it once, into the array's order, in memory of the engine. Reading it gives back the
// bytes that were written (original_bytes.h).
#pragma once

#include <span>

#include "plugin/context.h"
#include "plugin/ggml_host.h"

namespace npu::plugin {

// The buffer type of the device; one object for the life of the process.
ggml_backend_buffer_type_t weight_buffer_type(DeviceContext& context, ggml_backend_dev_t device);

bool is_weight_buffer_type(ggml_backend_buffer_type_t type);
bool is_weight_buffer(ggml_backend_buffer_t buffer);

// The converted weights of a tensor in such a buffer: one matrix, or that of each expert. Empty for any other tensor, for views,
// and before set_tensor.
std::span<const ResidentTensor> resident_matrices(const ggml_tensor* tensor);

}  // namespace npu::plugin
