// Which layers of a model: numbers, and expressions in its number of layers n, by comma. "2,n/2,n-3" are those of the usual
// EAGLE-3 drafts. Layer i means what flows into block i: 0 is the embedding, n what flows out of the last block.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace npu::tools {

// In the order in which they are named. Error: invalid_argument for what is no such list, or a layer that the model does not
// have.
Result<std::vector<std::uint32_t>> parse_layers(std::string_view text, std::uint32_t n);

}  // namespace npu::tools
