// Questions about ggml tensors that several interfaces of the plugin ask.
#pragma once

#include <cstddef>

#include "plugin/ggml_host.h"

namespace npu::plugin {

bool is_matmul(const ggml_tensor* node);

// An operation that computes nothing: a leaf, or another look at the same memory.
bool is_view(const ggml_tensor* node);

// Whether the graph asks for the node's value this time: ggml marks the nodes that are.
bool is_computed(const ggml_tensor* node);

// An operation that this run of the graph is to compute.
bool is_work(const ggml_tensor* node);

// Converts one row of the tensor's type, tensor->ne[0] values at `source`, to floats. F32 or any type with to_float.
void read_row(const ggml_tensor* tensor, const std::byte* source, float* destination);

}  // namespace npu::plugin
