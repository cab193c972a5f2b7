// Files of the safetensors format: eight bytes that say how long the header is, a JSON header with each tensor's type, shape and
// place, and the tensors' bytes. Little-endian; the header is padded with blanks so that tensors begin on multiples of eight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace npu::tools {

struct SafeTensor {
    std::string name;
    std::string dtype;  // "F32", "I32"
    std::vector<std::uint64_t> shape;
    std::span<const std::byte> bytes;
};

// Writes them to `path`, through a temporary file beside it. Error: not_found or device_failure when that cannot be done.
Result<void> write_safetensors(const std::string& path, std::span<const SafeTensor> tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace npu::tools
