// SHA-256 (FIPS 180-4): the name of a content. Manifests say with it which bytes a file, a constant or a segment had; a patch, for
// which content it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace npu {

// 64 lower-case hexadecimal digits, as sha256sum prints.
std::string sha256(std::span<const std::uint8_t> bytes);

}  // namespace npu
