// The matmuls of a model, as a text file: one matmul a line,
//
//   NAME  N  K  COUNT  GROUP  [M]
//
// with output and input channels, how often the model has it, and a group: those of one group that follow each other in
// the file work on the same activations and go out as one submission. M is for matmuls that do not see the whole prompt (the
// last one sees one row). `#` starts a comment.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace npu::tools {

struct ModelMatmul {
    std::string name;
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    std::uint32_t count = 0;
    std::uint32_t m = 0;  // 0: as many as the prompt has
};

// Matmuls that go out together; all have the same K, count and M.
using MatmulGroup = std::vector<ModelMatmul>;

// Errors: invalid_argument with the line and what is wrong with it; not_found for a file that cannot be read.
Result<std::vector<MatmulGroup>> read_shapes(const std::string& path);

}  // namespace npu::tools
