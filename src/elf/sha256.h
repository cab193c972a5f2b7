// SHA-256 (FIPS 180-4): the name of a file's content. A patch is for one content only, and says so with this.
#pragma once

#include <string>

#include "elf/bytes.h"

namespace npu::elf {

// 64 lower-case hexadecimal digits, as sha256sum prints.
std::string sha256(Bytes bytes);

}  // namespace npu::elf
