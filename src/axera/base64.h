// Base64, in which the metadata of .axmodel files are written (RFC 4648, the alphabet with + and /).
#pragma once

#include <string>
#include <string_view>

#include "axera/bytes.h"
#include "base/result.h"

namespace npu::axera {

// Refuses other characters than those of the alphabet, and a length or padding that no encoder makes.
Result<Buffer> decode_base64(std::string_view text);
std::string encode_base64(Bytes bytes);

}  // namespace npu::axera
