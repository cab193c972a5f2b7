// How the command segments of an NPU program are packed. A segment is a row of 8-byte records that repeat with small
// changes, so a byte-wise LZ with a window of 1024 bytes makes them eight times smaller:
//
//   c < 0x80            c + 1 bytes follow as they are
//   c >= 0x80, b        copy from behind: distance (b << 2) | ((c >> 5) & 3), where 0 stands for 1024; the low five
//                       bits of c are the length less 3, and when all five are set one more byte e follows: length
//                       34 + e
//
// Copies may overlap what they write. The end is that of the packed bytes. Source: found from outside and checked on
// all 1352 packed segments of 157 files (../shared/reference/axera.md, 3.4).
#pragma once

#include <cstdint>

#include "axera/bytes.h"
#include "base/result.h"

namespace npu::axera {

// No segment of a known file comes near; a bound so that hostile input cannot ask for all memory.
inline constexpr std::size_t most_segment_bytes = std::size_t{256} << 20;

// The bytes of a packed segment. Errors: a command that is cut off, a copy from before the start, a result of more than
// `most` bytes.
Result<Buffer> unpack_segment(Bytes packed, std::size_t most = most_segment_bytes);

// How many bytes that would be, with the same errors, without making them.
Result<std::size_t> unpacked_bytes(Bytes packed, std::size_t most = most_segment_bytes);

// Packs so that unpack_segment gives `bytes` back. Looks for the longest copy at each byte; no byte is worse off than
// with 129 bytes for 128.
Buffer pack_segment(Bytes bytes);

}  // namespace npu::axera
