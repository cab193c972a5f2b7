// What a window sees where it reaches beyond the plane: CNA.PAD_CON1, in the format of the features (after the input
// converter). The register has 32 bits and a feature has fewer, so the question is which bits a channel gets:
//
//   16 and 32 bits    the low bits of the register, every channel
//   int8, depthwise   of each 64 channels, the first 32 take the low 16 bits as a pair of bytes, even channels the low
//                     byte and odd ones the high byte; the other 32 channels all take the low byte. Measured: a captured
//                     depthwise convolution with PAD_CON1 = 126 comes out right on all 1792 border values this way, and
//                     in no other (126 everywhere misses 227 of them)
//   int8, direct      the low byte, every channel. No capture tells; programs that write the byte into both halves of
//                     the pair, as vendor programs do, do not depend on it
//   int4              the low byte, as two channels; no source
#pragma once

#include <cstddef>

#include "sim/convolution.h"

namespace npu::sim {

// The other reading of the open question above.
enum class DirectPadding { low_byte, byte_pairs };

// One pixel of padding: row_bytes().
void fill_padding(const Convolution& convolution, DirectPadding reading, std::byte* pixel);

}  // namespace npu::sim
