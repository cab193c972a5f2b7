// SHA-256 (FIPS 180-4), to say in a manifest which bytes a file, a constant or a segment had.
#pragma once

#include <string>

#include "axera/bytes.h"

namespace npu::axera {

// 64 hexadecimal digits.
std::string sha256(Bytes bytes);

}  // namespace npu::axera
