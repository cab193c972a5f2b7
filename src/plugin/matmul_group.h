// Matmuls that are done together: they share their activations (and, with expert selection, the ids) and their way of multiplying,
// so that the activations are converted once and go out as one job.
#pragma once

#include <vector>

#include "base/result.h"
#include "gemm/rows.h"
#include "plugin/ggml_host.h"
#include "plugin/multiplier.h"

namespace npu::plugin {

using MatmulGroup = std::vector<const ggml_tensor*>;

// The matmul at node `first` with resident weights and those behind it that belong to its group; `last` is the last one.
MatmulGroup group_at(const ggml_cgraph* graph, int first, const Multiplier& multiplier, int& last);

Error never_written(const ggml_tensor* weights);

// The resident weights of every matmul of a group without expert selection. Error: invalid_argument when some were never written.
Result<std::vector<TensorProduct>> products_of(const MatmulGroup& group);

// Where a matmul's product with a plane of activations goes.
gemm::TargetView plane_of(const ggml_tensor* node, std::int64_t i2, std::int64_t i3);

// A node that the CPU backend computes instead of `node`, by calling `compute` from each of its threads. It has the node's result
// and its activations.
ggml_tensor make_stand_in(const ggml_tensor* node, ggml_custom_op_t compute, void* user_data);

}  // namespace npu::plugin
