// Makes .axmodel files from a description: what tests, and people without a compiler for the NPU, run the rest of this
// room on. The files have the structure that compiled ones have, envelope, metadata, one program for each shape group;
// the programs hold what every known program begins and ends with and no computation, so a card would run them and
// write nothing. The mock runtime computes by the shapes and constants alone.
#pragma once

#include <string>
#include <vector>

#include "axera/model_file.h"

namespace npu::axera {

struct TensorRecipe {
    std::string name;
    onnx::ElementType type = onnx::ElementType::float32;
    std::vector<std::uint64_t> dims;
};

struct GroupRecipe {
    std::vector<TensorRecipe> inputs, outputs;
};

struct ModelRecipe {
    std::string version = "3.1";  // of the compiler that the file claims
    bool three_thirds = true;     // NPU3 (15 descriptors), else NPU1 (5)
    std::vector<GroupRecipe> groups;
    Buffer params;  // the constants that all groups share
};

// The file. Tensors of group g > 0 get the suffix _g. Errors: no group, a tensor without type or shape, groups that do
// not have the same tensors in the same order.
Result<Buffer> build_model(const ModelRecipe& recipe);

// x[rows, depth] times y[columns, depth] transposed, as the matmul models of the vendor's samples are: int8 or int16
// in, float32 out.
ModelRecipe matmul_recipe(onnx::ElementType type, std::uint64_t rows, std::uint64_t columns, std::uint64_t depth);

}  // namespace npu::axera
