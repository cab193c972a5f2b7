#include "plugin/tensors.h"

#include <cstring>

namespace npu::plugin {

bool is_matmul(const ggml_tensor* node) { return node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID; }

bool is_view(const ggml_tensor* node) {
    return node->op == GGML_OP_NONE || node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE ||
           node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE;
}

bool is_computed(const ggml_tensor* node) { return (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0; }

bool is_work(const ggml_tensor* node) { return !is_view(node) && is_computed(node) && !ggml_is_empty(node); }

void read_row(const ggml_tensor* tensor, const std::byte* source, float* destination) {
    if (tensor->type == GGML_TYPE_F32) {
        std::memcpy(destination, source, static_cast<std::size_t>(tensor->ne[0]) * sizeof(float));
    } else {
        ggml_get_type_traits(tensor->type)->to_float(source, destination, tensor->ne[0]);
    }
}

}  // namespace npu::plugin
