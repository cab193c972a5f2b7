// Quantised rows of a model file as blocks of whole numbers (gemm/block_rows.h), so that loading need not go by way of floats.
// Covered are the formats whose values are scale * number + offset with an exact product; the block structs are ggml's own.
#pragma once

#include "gemm/block_rows.h"
#include "plugin/ggml_host.h"

namespace npu::plugin {

// Takes `count` numbers of a row of some type apart; `count` is a multiple of the type's block.
using BlockFormat = void (*)(const void* source, std::size_t count, gemm::BlockTarget target);

// nullptr for types that are not in blocks or do not qualify.
BlockFormat block_format(ggml_type type);

}  // namespace npu::plugin
